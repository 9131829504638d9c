"""Compiles a program that embeds CPython and NumPy, and runs it with the newest CPython of this
machine for which there are headers, a shared library and NumPy.

usage: run_with_numpy.py SOURCE INCLUDE LIBHOMEFREE WHEELS COMPILER…

WHEELS: as for tests/interpreters/with_libpythons.py. Without such a CPython, the test is skipped.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "interpreters"), str(HERE.parent / "support")]
from interpreters import interpreters, number  # noqa: E402
from with_libpythons import libpython, numpy_of  # noqa: E402

PRINT = """
import numpy, sysconfig
print(sysconfig.get_path("include"), numpy.get_include(), sep=":")
"""


def candidates(wheels):
    """(version, prefix, library, PYTHONPATH, include directories) of each, the newest first."""
    for python, version in sorted(interpreters(), key=lambda one: number(one[1]), reverse=True):
        found = libpython(python) if number(version) >= (3, 9) else None
        if found is None:
            continue
        path = str(numpy_of(version, wheels) or "")
        done = subprocess.run(
            [python, "-c", PRINT],
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        includes = done.stdout.strip().split(":")
        if done.returncode == 0 and Path(includes[0], "Python.h").exists():
            yield version, *found, path, includes


def main():
    source, include, homefree, wheels, *compiler = sys.argv[1:]
    for version, prefix, library, path, includes in candidates(wheels):
        print(f"CPython {version} ({library})", flush=True)
        with tempfile.TemporaryDirectory() as directory:
            program = Path(directory, "example")
            words = [word for one in includes for word in ("-isystem", one)]
            words += [source, "-o", program]
            for one in (Path(homefree), library):
                words += [one, f"-Wl,-rpath,{one.parent}"]
            subprocess.run(
                [*compiler, "-std=gnu17", "-UNDEBUG", f"-I{include}", *words], check=True
            )
            return subprocess.run(
                [program],
                env={**os.environ, "PYTHONHOME": str(prefix), "PYTHONPATH": path},
                check=False,
            ).returncode
    print("no CPython with headers, a shared library and NumPy")
    return 77


if __name__ == "__main__":
    sys.exit(main())
