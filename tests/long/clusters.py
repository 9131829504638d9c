#!/usr/bin/env python3
"""homefree in clusters of others, dask/ and ray/: real ones on this machine, each with what it
needs from PyPI in an environment of its own.

usage: tests/long/clusters.py [--build DIRECTORY] dask|ray

Needs a CPython from 3.12 on that has a GIL. The wheels are kept in DIRECTORY/long/NAME.
Exit status: 0 all is well, 1 it is not, 77 there is no such CPython.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))
from interpreters import environment  # noqa: E402
from rows import row  # noqa: E402

# What is installed, what runs, and what else the processes need.
CLUSTERS = {
    "dask": (("distributed", "numpy"), ("checks.py", "graph.py"), {}),
    # One of Ray's processes writes a secret to the home directory otherwise.
    "ray": (("ray", "numpy"), ("checks.py",), {"RAY_AUTH_MODE": "disabled"}),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("name", choices=CLUSTERS)
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    wheels, programs, variables = CLUSTERS[arguments.name]
    python = environment(build / "long" / arguments.name, *wheels)
    if python is None:
        print("no CPython 3.12 or newer with a GIL")
        return 77
    ours = {**os.environ, **variables}
    ours["PYTHONPATH"], ours["LD_LIBRARY_PATH"] = str(build / "python"), str(build / "loader")
    failed = 0
    for program in programs:
        command = [python, HERE / arguments.name / program]
        done = subprocess.run(command, env=ours, stdout=subprocess.PIPE, text=True)
        print(done.stdout, end="")
        said = done.stdout.splitlines()[-1:] if program == "graph.py" else ()
        outcome = "failed" if done.returncode else "passed"
        row(f"{arguments.name}: {program}", "".join(said), outcome)
        failed |= done.returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
