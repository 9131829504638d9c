#!/usr/bin/env python3
"""Runs the tests of a build directory without Meson: in the emulated machine, or where programs for
aarch64 start in an emulator.

usage: run_tests.py --list FILE --results DIRECTORY --build DIRECTORY [--factor N] [--jobs N]
                    [--seconds N]

--list      what `meson introspect --tests` prints
--results   gets outcomes.txt, a line for each test: OUTCOME<TAB>SECONDS<TAB>NAME, where OUTCOME is
            passed, skipped or failed; and a file with what the test printed, unless it passed,
            whose name log_name() returns; and system.txt, the kernel and the size of its pages
--factor    how many times longer than in a native run a test may take
--seconds   after which it ends; what still runs then gets no line

Uses the standard library alone, and no compiled module beyond what a minimal Python has.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import threading
import time

SKIPPED = 77


def log_name(test):
    return re.sub(r"[^\w.-]+", "_", test) + ".log"


def kill_session(session):
    """Also what a test has left behind. Check gives its children process groups of their own."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if stat.read_text().rpartition(")")[2].split()[3] == str(session):
                os.kill(int(stat.parent.name), signal.SIGKILL)


class Runner:
    def __init__(self, options, total):
        self.options = options
        self.total = total
        self.done = 0
        self.lock = threading.Lock()
        self.outcomes = open(options.results / "outcomes.txt", "w")  # noqa: SIM115
        self.deadline = time.monotonic() + options.seconds

    def run(self, test):
        began = time.monotonic()
        left = self.deadline - began
        if left <= 0:
            return
        log = self.options.results / log_name(test["name"])
        environment = {
            **os.environ,
            "CK_TIMEOUT_MULTIPLIER": str(self.options.factor),  # also tests/support/death.h
            "MALLOC_PERTURB_": "85",
            **test["env"],
        }
        with open(log, "wb") as output:
            child = subprocess.Popen(
                test["cmd"],
                cwd=test["workdir"] or self.options.build,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            limit = test["timeout"] * self.options.factor
            try:
                status = child.wait(min(limit, left))
            except subprocess.TimeoutExpired:
                status = "timeout"
            kill_session(child.pid)
            child.wait()
            if status != 0:
                output.write(f"\n[ended with {status}]\n".encode())
            output.flush()
            os.fsync(output.fileno())
        if status == "timeout" and left < limit:
            log.unlink()
            return
        outcome = {0: "passed", SKIPPED: "skipped"}.get(status, "failed")
        if outcome == "passed":
            log.unlink()
        self.say(outcome, time.monotonic() - began, test["name"])

    def say(self, outcome, seconds, name):
        with self.lock:
            self.done += 1
            print(f"{outcome}\t{seconds:.1f}\t{name}", file=self.outcomes, flush=True)
            os.fsync(self.outcomes.fileno())
            print(f"[{self.done}/{self.total}] {outcome} {name} ({seconds:.1f} s)", flush=True)
            if outcome == "failed":
                text = (self.options.results / log_name(name)).read_text(errors="replace")
                print(*(f"    {line}" for line in text.splitlines()[-40:]), sep="\n", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", type=pathlib.Path, required=True)
    parser.add_argument("--results", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--factor", type=float, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    tests = json.loads(options.list.read_text())
    options.results.mkdir(parents=True, exist_ok=True)
    system = f"{platform.release()}, {os.sysconf('SC_PAGE_SIZE') // 1024} KiB"
    (options.results / "system.txt").write_text(system)
    runner = Runner(options, len(tests))
    together = [test for test in tests if test["is_parallel"]]
    alone = [test for test in tests if not test["is_parallel"]]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(runner.run, together))
    for test in alone:
        runner.run(test)
    return 0


if __name__ == "__main__":
    sys.exit(main())
