"""The CPythons of this machine, for tests that run under each.

Looked for: python3* on PATH and in /usr/bin, pyenv's, and those that debian-cpython.sh has built;
from 3.6 on, with ctypes. If HOMEFREE_TEST_PYTHONS is set, files separated by colons, these are all
there are; each may belong to a virtual environment.

usage: interpreters.py                 "VERSION FILE" for each
       interpreters.py --few           the oldest from 3.9 on, the newest, and the newest that is
                                       free-threaded, for HOMEFREE_TEST_PYTHONS: what tests/run has
                                       time for
       interpreters.py --to-build-for  for each that is free-threaded and has headers: their
                                       directory, a colon, and the end of an extension's file name
"""

import os
import re
import subprocess
import sys
from pathlib import Path

TIMEOUT = 80
VARIABLE = "HOMEFREE_TEST_PYTHONS"


def built():
    """Where debian-cpython.sh puts what it builds."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("HOMEFREE_PYTHONS") or Path(cache) / "homefree/pythons")


def _candidates():
    directories = [
        Path(directory) for directory in os.environ.get("PATH", "").split(os.pathsep) if directory
    ]
    directories.append(Path("/usr/bin"))
    for directory in directories:
        if directory.is_dir():
            yield from sorted(directory.glob("python3*"))
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    yield from sorted(pyenv.glob("*/bin/python"))
    yield from sorted(built().glob("*/bin/python3"))


def _found():
    """{path: version}, each real interpreter once."""
    named = list(filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)))
    if named:
        return {Path(os.path.abspath(path)): version(path) for path in named}
    found = {}
    for candidate in _candidates():
        path = candidate.resolve()
        if not re.fullmatch(r"python(3(\.\d+)?t?)?", candidate.name) or not is_elf(path):
            continue
        if path not in found:
            found[path] = version(path)
    return found


def interpreters():
    """[(path, version)]. The versions of those that are free-threaded end in "t"."""
    return [(path, text) for path, text in _found().items() if text]


def with_gil():
    """[(path, version)] of those that are not free-threaded."""
    return [(path, text) for path, text in interpreters() if text[-1] != "t"]


def free_threaded():
    """[(path, version)] of the others."""
    return [(path, text) for path, text in interpreters() if text[-1] == "t"]


def environment(place, *wheels):
    """A Python that has these wheels, in a virtual environment at a place, which is kept: a CPython
    from 3.12 on with a GIL. None if there is no such CPython."""
    python = place / "bin/python"
    if python.exists():
        return python
    for one, text in sorted(with_gil(), key=lambda found: number(found[1])):
        if number(text) >= (3, 12):
            subprocess.run([one, "-m", "venv", "--clear", place], check=True)
            subprocess.run([python, "-m", "pip", "install", "--quiet", *wheels], check=True)
            return python
    return None


def number(text):
    """(3, 13, 5) of a version."""
    return tuple(map(int, re.findall(r"\d+", text)))


def site_packages(wheels, text):
    """The directories with what prepare.sh has installed for a version of CPython."""
    kind = "free-threaded" if text.endswith("t") else "cpython"
    directory = Path(wheels) / "{}-{}.{}".format(kind, *number(text))
    return sorted(directory.glob("lib/python3*/site-packages"))


def is_elf(path):
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def ask(python, code):
    """What a piece of code prints, or None if it fails."""
    try:
        done = subprocess.run(
            [python, "-E", "-s", "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def version(python):
    """Its version, with a "t" if it is free-threaded; None if it is too old or has no ctypes."""
    return ask(
        python,
        "import sys, ctypes; assert sys.version_info >= (3, 6);"
        "print('.'.join(map(str, sys.version_info[:3])) + 't' * ('t' in sys.abiflags))",
    )


HEADERS = """
import os, sysconfig
directory = sysconfig.get_path("include")
assert os.path.exists(directory + "/Python.h")
print(directory, sysconfig.get_config_var("EXT_SUFFIX")[1:], sep=":")
"""


def main():
    if sys.argv[1:] == ["--to-build-for"]:
        lines = [ask(path, HEADERS) for path, _ in free_threaded()]
    elif sys.argv[1:] == ["--few"]:
        found = sorted(with_gil(), key=lambda one: number(one[1]))
        found = [path for path, text in found if number(text) >= (3, 9)]
        free = sorted(free_threaded(), key=lambda one: number(one[1]))
        few = [*found[:1], *found[-1:], *(path for path, _ in free[-1:])]
        lines = [os.pathsep.join(dict.fromkeys(map(str, few)))]
    else:
        lines = [f"{text} {path}" for path, text in interpreters()]
    print(*dict.fromkeys(filter(None, lines)), sep="\n")


if __name__ == "__main__":
    main()
