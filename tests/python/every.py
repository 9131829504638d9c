"""Runs a unittest program under every CPython from 3.9 on that this machine has.

usage: every.py PACKAGE-FOLDER PROGRAM [argument…]

PACKAGE-FOLDER is put on PYTHONPATH. Fails when one interpreter fails, or when none is found.
"""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "loader"))
from test_cpython import interpreters


def main():
    package, program, *arguments = sys.argv[1:]
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "MALLOC_"))
    }
    environment |= {"PYTHONPATH": package, "PYTHONDONTWRITEBYTECODE": "1"}
    found = [
        (path, text)
        for path, text in interpreters()
        if tuple(int(part) for part in text.split(".")[:2]) >= (3, 9)
    ]
    failures = 0
    for path, text in found:
        done = subprocess.run(
            [path, "-s", program, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        print(f"CPython {text} ({path}): exit status {done.returncode}")
        if done.returncode != 0:
            failures += 1
            print(done.stdout, done.stderr)
        else:
            print(done.stderr.strip().rpartition("\n")[2])
    if not found:
        print("no CPython from 3.9 on")
    return 1 if failures or not found else 0


if __name__ == "__main__":
    sys.exit(main())
