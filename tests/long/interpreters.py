#!/usr/bin/env python3
"""Makes and ends interpreters over and over. What they leave behind must be no more than what they
leave with CPython alone.

usage: interpreters.py BUILD SECONDS

In C, a thousand groups, or as many as the time allows, with each libpython from 3.12 on
(tests/interpreters/test_cycles.c). In Python, the interpreters of CPython's own module, without
homefree, after homefree.install() and under `homefree run`: memory that is written to, mappings and
descriptors. The figures are printed.
"""

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "support"))
import commands  # noqa: E402
from interpreters import number, with_gil  # noqa: E402

A_CYCLE = 0.2  # seconds, on a machine that has other work to do
SLACK = 64  # KiB a cycle
MAPS = 20

GROWTH = """
import gc, os, sys
if sys.argv[2] == "install":
    import homefree
    homefree.install()
try:
    import _interpreters
    run = _interpreters.exec
except ImportError:
    import _xxsubinterpreters as _interpreters
    run = _interpreters.run_string

def cycle():
    made = _interpreters.create()
    assert run(made, "import threading, json; json.loads('[1, 2]')") is None
    _interpreters.destroy(made)

def now():
    gc.collect()
    with open("/proc/self/smaps_rollup") as file:
        dirty = sum(int(line.split()[1]) for line in file if line.startswith("Private_Dirty:"))
    with open("/proc/self/maps") as file:
        return dirty, len(file.readlines()), len(os.listdir("/proc/self/fd"))

cycles = int(sys.argv[1])
for _ in range(10):
    cycle()
before = now()
for _ in range(cycles):
    cycle()
dirty, maps, files = (b - a for a, b in zip(before, now()))
print(dirty / cycles, maps, files)
"""


def groups(build, cycles):
    done = subprocess.run(
        [
            sys.executable,
            TESTS / "interpreters/with_libpythons.py",
            "new",
            build / "tests/interpreters/test-interpreters-cycles",
            str(cycles),
        ],
        check=False,
    )
    if done.returncode == 77:
        print("no libpython from 3.12 on")
    elif done.returncode == 0:
        print(f"{cycles} interpreters with each libpython")
    return done.returncode in (0, 77)


def growth(build, python, how, cycles):
    """[KiB a cycle, mappings, descriptors] that interpreters of CPython's own module leave."""
    prefix = [build / "loader/command/homefree", "run", "--"] if how == "run" else []
    environment = commands.environment(PYTHONPATH=build / "python")
    status, output = commands.run(
        *prefix, python, "-c", GROWTH, cycles, how, env=environment, seconds=600
    )
    if status != 0:
        raise RuntimeError(f"{python}, {how}: {output}")
    return [float(word) for word in output.split()]


def modules(build, cycles):
    good = True
    for python, version in with_gil():
        if number(version) < (3, 12):
            continue
        found = {how: growth(build, python, how, cycles) for how in ("plain", "install", "run")}
        for how, (dirty, maps, files) in found.items():
            own, own_maps, _ = found["plain"]
            more = dirty > own * 1.05 + SLACK or maps > own_maps + MAPS or files > 0
            good = good and not more
            print(
                f"CPython {version}, {how}: {dirty:.0f} KiB a cycle, {maps:.0f} mappings and "
                f"{files:.0f} descriptors in {cycles}{': MORE THAN ITS OWN' if more else ''}",
                flush=True,
            )
    return good


def main():
    build, seconds = Path(sys.argv[1]).resolve(), int(sys.argv[2])
    cycles = max(20, min(1000, int(seconds / 3 / A_CYCLE)))
    good = modules(build, max(20, min(200, int(seconds / 20 / A_CYCLE))))
    return 0 if groups(build, cycles) and good else 1


if __name__ == "__main__":
    sys.exit(main())
