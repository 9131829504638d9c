# SPDX-License-Identifier: BSD-2-Clause
"""Which cells there are: crossings, conditions and hosts."""

import ctypes.util
import fnmatch
import os

from ._conditions import ALONE, BETWEEN
from ._hosts import Host

# Hosts other than the two main ones put crossings under these conditions only: the others differ
# in what frees, which these hosts do not change.
_FEW = ("same thread", "other thread", "interpreter exit")

# Allocators that a host may have preloaded: a name for readers, and where distributions put them.
_PRELOADED = {
    "jemalloc": ("libjemalloc.so.2", "jemalloc"),
    "mimalloc": ("libmimalloc.so.2", "mimalloc"),
    "tcmalloc": ("libtcmalloc_minimal.so.4", "tcmalloc_minimal"),
}
_DIRECTORIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")


def _find(file, short):
    for directory in _DIRECTORIES:
        path = os.path.join(directory, file)
        if os.path.exists(path):
            return path
    return ctypes.util.find_library(short)


class Column:
    """A host with what makes it different. `path` is None where something is missing."""

    def __init__(self, name, host, *, late=False, conditions=None, missing=None):
        self.name = name
        self.host = host
        self.late = late
        self.conditions = conditions or tuple(ALONE)
        self.missing = missing


def columns(target, beside, interpreters=False):
    """The columns, and the host in which learning happens. Their hosts are not started."""
    alone = Host(target, "alone")
    first = Host(target, "homefree first", first=True)
    with_homefree = (*ALONE, *BETWEEN) if interpreters else tuple(ALONE)
    found = [
        Column("alone", alone),
        Column("homefree first", first, conditions=with_homefree),
        Column("homefree late", alone, late=True, conditions=_FEW),
    ]
    for name, (file, short) in _PRELOADED.items():
        path = _find(file, short)
        missing = None if path else f"{file} is not installed"
        host = Host(target, f"{name} preloaded", first=True, preload=path)
        found.append(Column(f"{name} preloaded", host, conditions=_FEW, missing=missing))
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "homefree_hidden.so")
    host = Host(target, "hidden allocator", first=True, beside=[path])
    missing = None if os.path.exists(path) else "this installation lacks homefree_hidden.so"
    found.append(Column("hidden allocator", host, conditions=_FEW, missing=missing))
    for path in beside:
        path = os.path.abspath(path)
        name = f"beside {os.path.basename(path)}"
        host = Host(target, name, first=True, beside=[path])
        found.append(Column(name, host, conditions=_FEW))
    return found, first


class Cell:
    """A cell before and after it ran."""

    def __init__(self, crossing, condition, column):
        self.crossing = crossing
        self.condition = condition
        self.column = column
        self.result = None
        self.signal = None
        self.message = None
        self.allocated = None  # by whom, in which interpreter, where that is told
        self.freed = None  # by which interpreter
        self.step = None
        self.seconds = None

    def names(self):
        return self.crossing.name, self.condition, self.column.name

    def matches(self, pattern):
        """A pattern fits anywhere in "crossing / condition / host"."""
        text = " / ".join(self.names()).lower()
        return fnmatch.fnmatchcase(text, f"*{pattern.lower()}*")


def cells(crossings, found, only=None):
    planned = [
        Cell(crossing, condition, column)
        for crossing in crossings
        for column in found
        for condition in column.conditions
    ]
    return [one for one in planned if only is None or one.matches(only)]
