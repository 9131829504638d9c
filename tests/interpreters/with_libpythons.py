"""Runs a program once with each libpython of this machine: its last argument is the library's path.

usage: with_libpythons.py [--package DIRECTORY [--wheels DIRECTORY]] new|old PROGRAM [argument…]

new: CPython 3.12 and later; old: 3.9 to 3.11. PYTHONHOME is that CPython's. PYTHONPATH is the
directory with the package `homefree`, or not set. With --wheels it has NumPy of that directory's
environments (homefree_wheels in tests/support/prepare.sh) as well; a CPython that has none there is
left out. Without any CPython, the test is skipped.
"""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from interpreters import interpreters, number, site_packages

PRINT = (
    "import sys, sysconfig; g = sysconfig.get_config_var;"
    "print(sys.base_prefix, g('LIBDIR'), g('INSTSONAME'), g('LDLIBRARY'), sep='\\n')"
)


def libpython(python):
    """(prefix, path of the library) of a CPython; None if it has no shared one."""
    done = subprocess.run([python, "-c", PRINT], check=True, text=True, stdout=subprocess.PIPE)
    prefix, directory, *names = done.stdout.splitlines()
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    for name in names:
        for place in (directory, f"{prefix}/lib", f"{prefix}/lib/{multiarch}"):
            path = Path(place, name.replace(".a", ".so"))
            if path.is_file():
                return prefix, path
    return None


def numpy_of(version, wheels):
    """The directory with NumPy for a CPython, or None."""
    for directory in site_packages(wheels, version):
        if (directory / "numpy").is_dir():
            return directory
    return None


def main():
    environment = {key: text for key, text in os.environ.items() if not key.startswith("PYTHON")}
    if sys.argv[1] == "--package":
        environment["PYTHONPATH"] = sys.argv[2]
        del sys.argv[1:3]
    wheels = None
    if sys.argv[1] == "--wheels":
        wheels = sys.argv[2]
        del sys.argv[1:3]
    which, program, *arguments = sys.argv[1:]
    ran, failed = 0, 0
    for python, version in interpreters():
        wanted = (
            number(version) >= (3, 12) if which == "new" else (3, 9) <= number(version) < (3, 12)
        )
        found = libpython(python) if wanted else None
        if found is None:
            continue
        more = {}
        if wheels:
            numpy = numpy_of(version, wheels)
            if numpy is None:
                continue
            more["PYTHONPATH"] = f"{environment['PYTHONPATH']}:{numpy}"
        ran += 1
        print(f"CPython {version} ({found[1]})", flush=True)
        done = subprocess.run(
            [program, *arguments, found[1]],
            env=environment
            | {"PYTHONHOME": found[0], "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"}
            | more,
            check=False,
        )
        failed += done.returncode != 0
    return 77 if ran == 0 else int(failed != 0)


if __name__ == "__main__":
    sys.exit(main())
