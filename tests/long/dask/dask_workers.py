#!/usr/bin/env python3
"""Dask on homefree.dask: real clusters (checks.py), and how long a graph takes with Dask's own
threads and with interpreters.

usage: tests/long/dask/dask_workers.py [--build DIRECTORY]

Needs a CPython from 3.12 on that has a GIL. The wheels are kept in DIRECTORY/long/dask.
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
    python = environment(build / "long/dask", "distributed", "numpy")
    if python is None:
        print("no CPython 3.12 or newer with a GIL")
        return 77
    ours = {
        **os.environ,
        "PYTHONPATH": str(build / "python"),
        "LD_LIBRARY_PATH": str(build / "loader"),
    }
    checks = subprocess.run([python, HERE / "checks.py"], env=ours).returncode
    row("Dask: what it promises", "a cluster of two workers", "failed" if checks else "passed")
    graph = subprocess.run([python, HERE / "graph.py"], env=ours, stdout=subprocess.PIPE, text=True)
    print(graph.stdout, end="")
    lines = graph.stdout.splitlines()
    row("Dask: graph", lines[-1] if lines else "", "failed" if graph.returncode else "passed")
    return int(checks != 0 or graph.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
