#!/usr/bin/env python3
"""Ray's actors with interpreters inside: real clusters (checks.py).

usage: tests/long/ray/ray_actors.py [--build DIRECTORY]

Needs a CPython from 3.12 on that has a GIL. The wheels are kept in DIRECTORY/long/ray.
Exit status: 0 all is well, 1 it is not, 77 there is no such CPython.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from interpreters import environment  # noqa: E402
from rows import row  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    build = parser.parse_args().build.resolve()
    python = environment(build / "long/ray", "ray", "numpy")
    if python is None:
        print("no CPython 3.12 or newer with a GIL")
        return 77
    # One of Ray's processes writes a secret to the home directory otherwise.
    ours = {**os.environ, "PYTHONPATH": str(build / "python"), "RAY_AUTH_MODE": "disabled"}
    checks = subprocess.run([python, HERE / "checks.py"], env=ours).returncode
    row("Ray: actors with an Executor", "a killed one too", "failed" if checks else "passed")
    return int(checks != 0)


if __name__ == "__main__":
    sys.exit(main())
