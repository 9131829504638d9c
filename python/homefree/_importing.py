# SPDX-License-Identifier: BSD-2-Clause
"""Entering extension modules in sys.modules, the errors of doing so, and what tells the modules for
this Python from others. load() and extension.load() share it, so it imports nothing that a bare
Python has not loaded already.

Nothing here keeps state. Threads: any.
"""

import os
import sys
from _imp import extension_suffixes

from . import _homefree

# The end of the names of modules that are for this Python alone.
SUFFIX = extension_suffixes()[0]

# What such a module is compiled for, in one line of text: the Python and its installation, homefree
# and its installation.
PYTHON = repr(
    (
        sys.version,
        SUFFIX,
        sys.base_prefix,
        _homefree.version(),
        os.path.dirname(os.path.abspath(__file__)),
    )
)

# In a file's name, as a regular expression: the stable ABI that it is built for. "abi3t" (PEP 803)
# is that of free-threaded CPython, and of others. From 3.16 on, the machine may follow:
# "abi3-x86_64-linux-gnu".
STABLE = "abi3t?(?:-[^.]*)?"


def suffixes():
    """The ends of the names of files that this Python can load, the preferred one first. A
    free-threaded CPython before 3.15 looks for .abi3.so too, although its objects differ."""
    found = extension_suffixes()
    if "t" not in sys.abiflags:
        return found
    return [one for one in found if not one.startswith((".abi3.", ".abi3-"))]


def stable_abi_needs(tag):
    """Which Pythons load files with this tag of STABLE."""
    if tag.startswith("abi3t"):
        return "CPython 3.15 and later"
    return "CPythons with a GIL"


def check_name(name):
    """Raise TypeError or ValueError unless `name` can be the full name of a module."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a module must be a str, not {type(name).__name__}")
    if not name.isascii() or not (
        name.isidentifier() or all(map(str.isidentifier, name.split(".")))
    ):
        raise ValueError(
            f"{name!r} is not a valid module name; use identifiers of ASCII letters, digits and "
            "'_', joined by dots"
        )


def execute(module, spec):
    """Enter a module that its loader has created in sys.modules, and execute it.

    Returns the module that sys.modules holds afterwards: the code may have replaced its own. If it
    raises, its entry is removed and the exception passed on.
    """
    name = spec.name
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return sys.modules.get(name, module)


def is_from(module, path):
    """Whether a module was loaded from this file. False if either file is missing."""
    loaded = getattr(module, "__file__", None)
    if loaded is None or path is None:
        return False
    try:
        return os.path.samefile(loaded, path)
    except (OSError, ValueError):
        return False


def load_error(name, path, why, remedies):
    """The ImportError for a file that the dynamic linker or Python cannot load.

    remedies: pairs of a phrase and a remedy. The first phrase that `why` contains selects the
    remedy.
    """
    found = (remedy for phrase, remedy in remedies if phrase in why)
    remedy = next(found, "run 'homefree inspect' on it")
    return ImportError(f"homefree cannot load {path}: {why}; {remedy}", name=name, path=path)
