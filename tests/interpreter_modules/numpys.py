"""The option --wheels DIRECTORY: where this CPython's NumPy is."""

import pathlib
import sys


def take():
    """Takes the option off the command line. Result: NumPy's directory in a list, or nothing."""
    if sys.argv[1:2] != ["--wheels"]:
        return []
    version = "cpython-{}.{}".format(*sys.version_info)
    found = sorted(pathlib.Path(sys.argv[2]).glob(version + "/lib/python*/site-packages/numpy"))
    del sys.argv[1:3]
    return found
