#!/usr/bin/env python3
"""A library's own tests, run by pytest inside an interpreter with a GIL of its own: NumPy's core.

usage: own_tests.py [--build DIRECTORY] [MODULE…]

    --build DIRECTORY   what `ninja -C build` has built (build); NumPy, pytest and hypothesis are
                     installed in DIRECTORY/long/own_tests, with the oldest CPython from 3.12 on
    MODULE           of NumPy's tests; those of MODULES unless said otherwise

All tests pass that can: EXPECTED has what cannot work in an interpreter.

Exit status: 0 they do, 1 they do not, 77 there is no such CPython.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/support"))
from interpreters import environment  # noqa: E402
from rows import row  # noqa: E402

MODULES = (
    "numpy._core.tests.test_umath numpy._core.tests.test_indexing numpy.linalg.tests.test_linalg "
    "numpy._core.tests.test_shape_base numpy.fft"
)
EXPECTED = {"test_xerbla_override"}  # os.fork()

PROGRAM = """
import sys
from homefree.interpreters import Executor

def test(modules):
    import pytest
    plain = ["-q", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-W", "ignore", "--tb=line"]
    return int(pytest.main([*plain, "--pyargs", *modules]))

if __name__ == "__main__":
    with Executor(1) as executor:
        print("status", executor.submit(test, sys.argv[1:]).result())
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("modules", nargs="*", default=MODULES.split())
    options = parser.parse_args()
    build = options.build.resolve()
    (build / "long").mkdir(exist_ok=True)
    python = environment(
        build / "long/own_tests", "numpy", "pytest<9", "hypothesis", "typing_extensions"
    )
    if python is None:
        print("no CPython from 3.12 on; tests/support/debian-cpython.sh builds one")
        return 77
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory, "program.py")
        program.write_text(PROGRAM)
        done = subprocess.run(
            [python, "-s", program, *options.modules],
            env={**os.environ, "PYTHONPATH": str(build / "python"), "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    failed = {
        name.partition("[")[0] for name in re.findall(r"^FAILED \S*::(\S+)", done.stdout, re.M)
    }
    said = re.findall(r"^(\d+ .*) in [\d.]+s", done.stdout, re.M)
    good = done.returncode == 0 and bool(said) and failed <= EXPECTED and "ERROR" not in done.stdout
    if not good:
        print(done.stdout[-5000:], done.stderr[-5000:])
    row("NumPy's own tests in an interpreter", said[-1] if said else "none",
        "passed" if good else f"failed: {', '.join(sorted(failed - EXPECTED))}")  # fmt: skip
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
