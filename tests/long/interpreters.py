#!/usr/bin/env python3
"""Makes and ends a thousand interpreters, or as many as the time allows, with each libpython from
3.12 on (tests/interpreters/test_cycles.c).

usage: interpreters.py BUILD SECONDS
"""

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
A_CYCLE = 0.2  # seconds, on a machine that has other work to do


def main():
    build, seconds = Path(sys.argv[1]), int(sys.argv[2])
    cycles = max(20, min(1000, int(seconds / 2 / A_CYCLE)))
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
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
