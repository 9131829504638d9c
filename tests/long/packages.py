#!/usr/bin/env python3
"""Packages that hypothesis makes up and changes (tests/package/test_fuzzed.py), each time others,
until the time is over.

usage: tests/long/packages.py [--build DIRECTORY] SECONDS

Exit status: 0 passed, 1 failed, 77 hypothesis is missing.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = 300  # of each test, in one round


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("seconds", type=int)
    arguments = parser.parse_args()
    package = arguments.build.resolve() / "python"
    environment = {
        **os.environ,
        "PYTHONPATH": str(package),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOMEFREE_EXAMPLES": str(EXAMPLES),
    }
    python = "/usr/bin/python3"  # for which Debian has hypothesis
    end = time.monotonic() + arguments.seconds
    rounds = took = 0
    while rounds == 0 or time.monotonic() + took < end:
        start = time.monotonic()
        done = subprocess.run(
            [python, "-s", ROOT / "tests/package/test_fuzzed.py"],
            env=environment,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        took = time.monotonic() - start
        if done.returncode == 5:
            print("this machine's Python has no hypothesis (Debian: python3-hypothesis)")
            return 77
        if done.returncode != 0:
            print(f"round {rounds + 1} failed")
            return 1
        rounds += 1
    print(f"{rounds} rounds of {EXAMPLES} examples for each test")
    return 0


if __name__ == "__main__":
    sys.exit(main())
