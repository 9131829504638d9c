#!/usr/bin/env python3
"""The package under ThreadSanitizer: a free-threaded CPython, homefree, its extension and the
modules of the tests are built with it, and each report fails.

usage: tests/long/thread_sanitizer.py [--build DIRECTORY] [--only NAME,…] [SECONDS]

The CPython is that of `tests/support/debian-cpython.sh 3.14t-tsan`, which takes a quarter of an
hour once; without it, and without the time for it, the part is skipped. homefree is built in
build-tsan, with the jemalloc and the wheels of DIRECTORY (build). What is CPython's own is
suppressed by the file that comes with its source, and what remains by thread-sanitizer.txt beside
this file, with the reason.
--only: test programs of tests/python, without test_ and .py.

Reports are in build-tsan/reports, a file for each process.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))
import commands  # noqa: E402
import interpreters  # noqa: E402
from rows import row  # noqa: E402

VERSION = "3.14t"
TAKES = 1500  # seconds that building CPython takes on two busy processors
BUILD = ROOT / "build-tsan"
REPORTS = BUILD / "reports"
THREADS = ("blocks", "blocks_of_other_threads", "finder_of_numpy", "fork", "package", "watches")
SECONDS_EACH = 600  # for a process of a test
DIVIDED = 10  # that many fewer calls: each takes longer
# The programs, and what they are given. Not the tests of mimalloc's blocks, which take too long.
PROGRAMS = {
    "free_threading": [
        *("Build.test_gil_stays_off", "Full.test_arrays_that_others_read", "Full.test_collector"),
        *(f"Threads.test_{name}" for name in THREADS),
        *("Python", "Modules"),
    ],
    "package": [],
    "numpy": [],
    "limit": [BUILD / "tests/python/limited/taker.so"],
}
OPTIONS = {
    "exitcode": 0,  # a test tells what it finds, and this program the reports
    "die_after_fork": 0,
    "history_size": 4,
}


def python(seconds):
    """The interpreter, or None."""
    directory = interpreters.built().parent / f"{interpreters.built().name}-tsan" / VERSION
    file = directory / "bin/python3"
    if not file.exists() and seconds > TAKES:
        subprocess.run([ROOT / "tests/support/debian-cpython.sh", f"{VERSION}-tsan"], check=False)
    return file if file.exists() else None


def build(jemalloc):
    if not (BUILD / "build.ninja").exists():
        subprocess.run(
            ["meson", "setup", BUILD, "-Db_sanitize=thread", "-Db_lundef=false"]
            + ["-Dexamples=false", f"-Djemalloc_build={jemalloc}"],
            cwd=ROOT, check=True,
        )  # fmt: skip
    listed = subprocess.run(
        [sys.executable, ROOT / "tests/support/suite_targets.py", BUILD]
        + ["--suite", "python", "--no-suite", "long"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    subprocess.run(["ninja", "-C", BUILD, *listed.split()], check=True)


def suppressions(file):
    """One file with CPython's suppressions and ours: ThreadSanitizer takes one."""
    whole = BUILD / "suppressions.txt"
    of_cpython = file.parents[1] / "share/thread-sanitizer.txt"
    ours = HERE / "thread-sanitizer.txt"
    whole.write_text(of_cpython.read_text() + ours.read_text())
    return whole


def run(file, name, wheels, seconds):
    """(exit status, output) of a test program; the status is None if it took too long."""
    options = {**OPTIONS, "log_path": REPORTS / name, "suppressions": suppressions(file)}
    environment = commands.environment(
        PYTHONPATH=os.pathsep.join(map(str, [BUILD / "python", *wheels])),
        CFLAGS="-fsanitize=thread",
        HOMEFREE_TEST_DIVIDED=DIVIDED,
        HOMEFREE_TEST_MODES="full",
        HOMEFREE_TEST_SECONDS_EACH=SECONDS_EACH,
        TSAN_OPTIONS=":".join(f"{key}={value}" for key, value in options.items()),
    )
    program = ROOT / f"tests/python/test_{name}.py"
    return commands.run(file, "-s", program, *PROGRAMS[name], seconds=seconds, env=environment)


def summaries(name):
    """{what a report says in its last line: how often}"""
    found = {}
    for file in REPORTS.glob(f"{name}.*"):
        for line in re.findall(r"^SUMMARY: (.*)$", file.read_text(errors="replace"), re.MULTILINE):
            found[line] = found.get(line, 0) + 1
    return found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("seconds", nargs="?", type=float, default=1800)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PROGRAMS))
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    file = python(options.seconds)
    if file is None:
        print(f"no CPython with ThreadSanitizer: tests/support/debian-cpython.sh {VERSION}-tsan")
        return 77
    build(options.build)
    REPORTS.mkdir(exist_ok=True)
    wheels = interpreters.site_packages(options.build / "wheels", interpreters.version(file))
    failed = False
    for name in options.only:
        left = end - time.monotonic()
        if left < 60:
            row(f"ThreadSanitizer, {name}", "", "skipped: the time is over")
            continue
        for old in REPORTS.glob(f"{name}.*"):
            old.unlink()
        began = time.monotonic()
        status, said = run(file, name, wheels, left)
        found = summaries(name)
        for line, count in sorted(found.items()):
            print(f"{name}: {line} ({count} times)", flush=True)
        tests = re.search(r"Ran (\d+) test", said)
        figure = (
            f"{tests[1] if tests else 'no'} tests, {sum(found.values())} reports, "
            f"{time.monotonic() - began:.0f} s"
        )
        good = not found and (status == 0 or status == 5)
        if status not in (0, 5):
            print(said[-4000:])
        print(f"{name}: {figure}: {'passed' if good else 'failed'}", flush=True)
        row(f"ThreadSanitizer, {name}", figure, "passed" if good else "failed")
        failed |= not good
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
