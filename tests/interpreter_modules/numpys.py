"""The option --wheels DIRECTORY: where this CPython's NumPy is. And where others' helpers are."""

import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "python")]
from interpreters import site_packages  # noqa: E402


def take():
    """Takes the option off the command line. Result: NumPy's directory in a list, or nothing."""
    if sys.argv[1:2] != ["--wheels"]:
        return []
    version = "{}.{}".format(*sys.version_info) + "t" * ("t" in sys.abiflags)
    found = [directory / "numpy" for directory in site_packages(sys.argv[2], version)]
    del sys.argv[1:3]
    return [directory for directory in found if directory.is_dir()]
