# SPDX-License-Identifier: BSD-2-Clause
"""What a build needs of the machine, looked at after one failed: Meson, make and the compiler name
what they miss first, and not how to get it.

State: none.
"""

import ast
import os
import pathlib
import re
import shlex
import shutil
import sysconfig

_ROOT = pathlib.Path(__file__).resolve().parents[2]
# What a compiler is called if its variable names none.
_COMPILERS = (
    ("a C compiler", "CC", ("cc", "gcc", "clang")),
    ("a C++ compiler", "CXX", ("c++", "g++", "clang++")),
)


def remedy(arguments):
    """Result: "", or what is missing here for these arguments of Meson, and how to get it."""
    missing = list(_missing("-Djemalloc=system" not in arguments))
    if not missing:
        return ""
    return (
        f"homefree: a build needs what is missing here: {', '.join(missing)}. On Debian or Ubuntu:"
        " apt-get install build-essential autoconf python3-dev"
    )


def remedy_of_packages(error):
    """Result: what to do about an ImportError of what pyproject.toml requires."""
    text = (_ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (requires,) = re.findall(r"^requires = (\[.*?\])", text, re.MULTILINE | re.DOTALL)
    return (
        f"homefree: {error}. Let pip fetch what a build needs (without --no-build-isolation), or"
        f" do it yourself: pip install {shlex.join(ast.literal_eval(requires))}"
    )


def _missing(with_jemalloc):
    for what, variable, names in _COMPILERS:
        given = shlex.split(os.environ.get(variable, ""))[:1]
        if not any(map(shutil.which, given or names)):
            yield f"{what} ({variable} says {given[0]})" if given else what
    if with_jemalloc:
        if not shutil.which("make"):
            yield "make"
        # A source archive has it made.
        if not shutil.which("autoconf") and not list(
            _ROOT.glob("subprojects/jemalloc-*/configure")
        ):
            yield "autoconf"
    header = pathlib.Path(sysconfig.get_path("include"), "Python.h")
    if not header.exists():
        yield f"Python's headers ({header})"
