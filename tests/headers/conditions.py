"""What the public headers need: the include directories of Check, CPython and NumPy, if present."""

import shutil
import subprocess
import sys
from pathlib import Path

INTERPRETERS = dict.fromkeys([sys.executable, "/usr/bin/python3"])
FACTS = """
import sysconfig
print(sysconfig.get_path("include"))
try:
    import numpy
    print(numpy.get_include())
except ImportError:
    pass
"""


def output(*command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return result.stdout if result.returncode == 0 else ""


def _find():
    found = {"check": None, "python": None, "numpy": None}
    if shutil.which("pkg-config") and output("pkg-config", "--modversion", "check"):
        found["check"] = output("pkg-config", "--cflags", "check").split()
    for interpreter in INTERPRETERS:
        lines = output(interpreter, "-c", FACTS).splitlines()
        if not lines or not (Path(lines[0]) / "Python.h").exists():
            continue
        python = ["-isystem", lines[0], "-include", "Python.h"]
        found["python"] = found["python"] or python
        if len(lines) > 1 and found["numpy"] is None:
            # The two versions belong together.
            found["python"] = python
            found["numpy"] = ["-isystem", lines[1], "-include", "numpy/arrayobject.h"]
    return found


FOUND = _find()


def flags_for(header):
    """The compiler's arguments for a header, by its path; None if a library is missing."""
    if header.name == "check.h" or header.parent.name == "check":
        return FOUND["check"]
    if header.parent.name != "python" and header.name != "python.h":
        return []
    if header.name == "numpy.h" and FOUND["python"] and FOUND["numpy"]:
        return FOUND["python"] + ["-DNPY_NO_DEPRECATED_API=NPY_1_7_API_VERSION"] + FOUND["numpy"]
    return None if header.name == "numpy.h" else FOUND["python"]
