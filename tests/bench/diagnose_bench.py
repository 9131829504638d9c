#!/usr/bin/env python3
"""What `homefree run` and its diagnostics mode cost: ratios to the plain program, in turns.

    diagnose_bench.py --homefree COMMAND --programs DIRECTORY [--python FILE] [--rounds N]
                      [--only WORK,...] [--peers] [--json]

Works: eight loops of python/works.py, an allocation-heavy C program, the start of a process,
and the memory of a live block. `stacks` is `report` of the C program after a run in which every
place that allocates crossed. A figure is the median of the rounds' own ratios (for `start` and
`memory` of the rounds' differences); every other round goes backwards. --peers adds valgrind,
heaptrack, memray and AddressSanitizer where they are installed: the C program compiled with it, and
its runtime preloaded into Python. Run few rounds with them, and `--only` some works.
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "python"))
from python_bench import (  # noqa: E402
    LOOPS,
    PROFILERS,
    TITLES,
    TUNING,
    Unmeasurable,
    is_there,
    number,
)
from works import LARGER, SEVEN  # noqa: E402

LIVE = 500_000
WANTED = {  # of the geometric mean over Python's loops, and of the C program
    "run": (1.00, 0.85),
    "count": (1.03, 1.15),
    "report": (1.08, 1.40),
    "stacks": (1.15, 1.60),
}
SETTLE, REPEATS = 3, 15
UNCROSSED = (*LOOPS, "start", "memory")
PEERS = ("valgrind", "asan", *PROFILERS)
DEFAULT = (*SEVEN, *LARGER, "alloc_heavy", "start", "memory")


def prefix(options, how, directory):
    """The command in front of the program."""
    if how == "plain":
        return []
    if how == "run":
        return [options.homefree, "run", "--"]
    if how in ("count", "report"):
        return [options.homefree, "run", f"--diagnose={how}", "--report", directory, "--"]
    if how == "stacks":
        return [*prefix(options, "report", directory)[:-1], "--sites", options.crossed, "--"]
    return {
        "valgrind": ["valgrind", "-q", "--log-file=/dev/null"],
        "heaptrack": PROFILERS["heaptrack"],
        "asan": ["env", f"LD_PRELOAD={options.asan}", "ASAN_OPTIONS=detect_leaks=0"],
        "memray": [str(options.python), *PROFILERS["memray"]],
    }[how]


def run(options, how, command):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(TUNING)}
    environment.update(PYTHONHASHSEED="1", PYTHONDONTWRITEBYTECODE="1", OPENBLAS_NUM_THREADS="1")
    with tempfile.TemporaryDirectory() as directory:
        if how == "memray":
            command = command[1:]
        done = subprocess.run(
            [*prefix(options, how, os.path.join(directory, "report")), *map(str, command)],
            env=environment, capture_output=True, text=True, timeout=900, cwd=directory,
        )  # fmt: skip
    if done.returncode != 0:
        raise Unmeasurable(f"{how}: {done.stderr.strip()[-300:]}")
    return done.stdout


def find_asan(options):
    """AddressSanitizer's runtime, and the C program compiled with it; None if there is none."""
    library = subprocess.run(
        ["cc", "-print-file-name=libasan.so"], capture_output=True, text=True
    ).stdout.strip()
    options.with_asan = Path(options.scratch.name) / "alloc_heavy"
    sources = [HERE / "alloc_heavy.c", HERE / "bench.c"]
    include = HERE.parents[1] / "alloc/include"
    flags = ["-O2", "-fsanitize=address", "-D_GNU_SOURCE", f"-I{include}", "-lpthread", "-ldl"]
    done = subprocess.run(
        ["cc", *sources, *flags, "-o", options.with_asan], capture_output=True, text=True
    )
    # The file may be a linker script.
    works = os.path.isabs(library) and done.returncode == 0
    return os.path.realpath(library) if works else None


def sample(options, how, work):
    program = options.with_asan if how == "asan" else options.programs / "alloc_heavy"
    if work == "alloc_heavy":
        return number(run(options, how, [program]))
    if work == "memory":
        return number(run(options, how, [program, "--live", LIVE])) * 1024 / LIVE
    if work == "start":
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            run(options, how, ["/bin/true"])
            times.append(time.perf_counter() - begin)
        return min(times) * 1e3
    command = [
        options.python,
        HERE / "python/worker.py",
        "stock",
        work,
        SETTLE,
        REPEATS,
        LOOPS[work],
    ]
    return number(run(options, how, command))


def measure(options, hows):
    values = {work: {how: [] for how in hows} for work in options.works}
    for round_number in range(options.rounds):
        for work in options.works:
            for how in hows[:: 1 if round_number % 2 == 0 else -1]:
                if how == "memray" and work not in LOOPS or how == "stacks" and work in UNCROSSED:
                    continue
                try:
                    values[work][how].append(sample(options, how, work))
                except Unmeasurable as error:
                    if how not in PEERS:
                        raise
                    print(f"{work}: {error}", file=sys.stderr)
                    values[work][how].append(math.nan)
        if sys.stderr.isatty():
            print(f"round {round_number + 1} of {options.rounds}", end="\r", file=sys.stderr)
    return values


def figure(rivals, how, work):
    if not rivals[how]:
        return None
    pairs = zip(rivals[how], rivals["plain"])
    if work in ("start", "memory"):
        return statistics.median(a - b for a, b in pairs)
    return statistics.median(a / b for a, b in pairs)


def print_table(table, hows):
    width = max(len(work) for work in table) + 2
    print("work".ljust(width) + "".join(how.rjust(11) for how in hows))
    for work, row in table.items():
        cells = ["" if row.get(how) is None else f"{row[how]:.3f}" for how in hows]
        print(work.ljust(width) + "".join(cell.rjust(11) for cell in cells))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--homefree", required=True, type=os.path.abspath, help="the command")
    parser.add_argument(
        "--programs",
        required=True,
        type=lambda path: Path(path).absolute(),
        help="directory of the built programs",
    )
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default=",".join(DEFAULT))
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.works = options.only.split(",")
    hows = ["plain", "run", "count", "report", "stacks"]
    if options.peers:
        options.scratch = tempfile.TemporaryDirectory()
        options.asan = find_asan(options)
        hows += ["valgrind"] if shutil.which("valgrind") else []
        hows += ["asan"] if options.asan is not None else []
        hows += [how for how in PROFILERS if is_there(options, how)]
    try:
        with tempfile.TemporaryDirectory() as directory:
            options.crossed = os.path.join(directory, "report")
            program = [options.programs / "alloc_heavy", "--faults"]
            subprocess.run([*prefix(options, "report", options.crossed), *program],
                           capture_output=True, check=True, timeout=900)  # fmt: skip
            values = measure(options, hows)
    except (Unmeasurable, subprocess.SubprocessError, OSError) as error:
        print(f"could not measure: {error}", file=sys.stderr)
        return 1
    table = {
        {**TITLES, "start": "start, ms more", "memory": "memory, bytes a block more"}.get(
            work, work
        ): {how: figure(rivals, how, work) for how in hows[1:]}
        for work, rivals in values.items()
    }
    loops = [TITLES[work] for work in options.works if work in SEVEN]
    if loops:
        table["geometric mean of Python"] = {
            how: math.exp(statistics.fmean(math.log(table[work][how]) for work in loops))
            for how in hows[1:]
            if how != "stacks"
        }
    if options.json:
        print(json.dumps({"version": 1, "samples": values, "figures": table, "wanted": WANTED}))
    else:
        print_table(table, hows[1:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
