"""The CPythons that benchmarks of free threading compare: the newest without a GIL, and one of the
same version with it; and the options that name them.
"""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
from interpreters import free_threaded, interpreters, number, site_packages

TUNING = ("PYTHON", "LD_", "MALLOC_", "HOMEFREE_", "GLIBC_")


def add_options(parser):
    parser.add_argument("--package", type=Path, required=True, help="directory with homefree/")
    parser.add_argument("--command", type=Path, required=True, help="the command homefree")
    parser.add_argument("--python", type=Path, help="a free-threaded CPython (the newest)")
    parser.add_argument("--gil", type=Path, help="one with a GIL (of the same version)")
    parser.add_argument("--wheels", type=Path, help="what tests/support/prepare.sh installed")
    parser.add_argument("--json", action="store_true", help="a JSON document instead of the table")


def parse(parser):
    """The options, with the CPythons that they leave out. `gil` stays None if there is none."""
    options = parser.parse_args()
    options.package = options.package.absolute()
    found = max(free_threaded(), key=lambda one: number(one[1]), default=(None, ""))
    options.python = options.python or found[0]
    if options.python is None:
        parser.error("no free-threaded CPython; tests/support/debian-cpython.sh 3.14t builds one")
    same = [path for path, text in interpreters() if number(text)[:2] == number(found[1])[:2]]
    options.gil = options.gil or (same[0] if same else None)
    compile_package(options)
    return options


def compile_package(options):
    """As pip leaves it: with bytecode. What compiling takes would be part of each peak."""
    package = options.package / "homefree"
    command = [options.python, "-m", "compileall", "-q", *package.glob("*.py")]
    subprocess.run(command, check=True, timeout=600)


def environment(options, python, *path):
    """For a process of that CPython, with the package and the wheels."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(TUNING)}
    free = python == options.python
    minor = python.resolve().name.removeprefix("python").removesuffix("t")
    wheels = site_packages(options.wheels, minor + "t" * free) if options.wheels else []
    return {
        **kept,
        "PYTHONHASHSEED": "1",
        "PYTHONPATH": os.pathsep.join(map(str, [*path, options.package, *wheels])),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
