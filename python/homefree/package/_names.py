# SPDX-License-Identifier: BSD-2-Clause
"""Names of members and modules, patterns for them, and the rules that patterns are part of. State:
the names of the standard library's modules, found once. Threads: any.

A member's name is a relative path with slashes. A pattern is a dotted name in which `*` stands for
any characters within one part, and a part `**` for any number of parts: `numpy.**` is numpy and
every module below it.
"""

import collections
import fnmatch
import functools
import os
import sys

if not hasattr(sys, "stdlib_module_names"):
    import sysconfig  # not later: the finders of packages ask for these names

MANIFEST = "homefree_package.json"
BUFFERS = ".buffers"

_NAME = 1024  # characters
_PART = 255  # bytes, as file systems have it
_DEPTH = 32  # parts


def wrong_member(name):
    """Why this cannot be the name of a member, or None if it can."""
    if not isinstance(name, str) or not 0 < len(name) <= _NAME:
        return f"a name is text of 1 to {_NAME} characters"
    if not name.isprintable() or "\\" in name:
        return "the name has control characters or backslashes"
    parts = name.split("/")
    if len(parts) > _DEPTH:
        return f"the name has more than {_DEPTH} parts"
    if {"", ".", ".."} & set(parts):
        return "the name is absolute, or has parts that lead elsewhere"
    if any(len(part.encode("utf-8")) > _PART for part in parts):
        return f"a part of the name has more than {_PART} bytes"
    return None


def shown(name):
    """A name of any kind, cut and escaped so that it can stand in a message."""
    text = name if isinstance(name, str) and name.isprintable() else ascii(name)
    return text if len(text) <= 200 else text[:200] + "…"


def is_module(name):
    """Whether this is a name that a module can have."""
    return (
        isinstance(name, str)
        and len(name) <= _NAME
        and name.isprintable()
        and name.count(".") < _DEPTH
        and all(part.isidentifier() for part in name.split("."))
    )


def parents(name):
    """The packages that contain a module, the outermost first."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def resource(package, name):
    """The member's name of a resource of a package ("" for the root). `name` may have slashes.
    Raises ValueError or TypeError."""
    if package and not is_module(package):
        raise ValueError(f"{shown(package)} is no name of a package")
    if not isinstance(name, str):
        raise TypeError(f"the name must be a str, not {type(name).__name__}")
    return f"{package.replace('.', '/')}/{name}" if package else name


def listed(patterns):
    """One or more patterns as a list."""
    return [patterns] if isinstance(patterns, str) else list(patterns)


def several(patterns):
    """One or more patterns of modules as a list. Raises ValueError."""
    patterns = listed(patterns)
    for one in patterns:
        why = wrong_pattern(one)
        if why:
            raise ValueError(f"{shown(one)}: {why}")
    return patterns


def wrong_pattern(pattern):
    """Why this is no pattern, or None if it is one."""
    if not isinstance(pattern, str) or len(pattern) > _NAME:
        return f"a pattern is text of at most {_NAME} characters"
    for part in pattern.split("."):
        if not part.replace("*", "_").isidentifier() or ("**" in part and part != "**"):
            return "a pattern is a dotted name with parts such as name, na*, * or **"
    return None


def matches(pattern, name, separator="."):
    """Whether a pattern stands for the name of a module, or with slashes for a path."""
    parts = name.split(separator)
    # The numbers of parts of the name that the pattern may have consumed so far.
    reached = {0}
    for wanted in pattern.split(separator):
        if wanted == "**":
            reached = set(range(min(reached), len(parts) + 1))
        else:
            reached = {
                at + 1 for at in reached - {len(parts)} if fnmatch.fnmatchcase(parts[at], wanted)
            }
        if not reached:
            return False
    return len(parts) in reached


def covered(patterns, path):
    """Whether one of the patterns stands for a path."""
    return any(matches(one, path, "/") for one in patterns)


ACTIONS = ("intern", "extern", "mock", "deny")


class Rule(collections.namedtuple("Rule", "action include exclude")):
    """What is to be done with the modules that some patterns stand for."""

    __slots__ = ()

    def covers(self, name):
        """The standard library's modules are covered by patterns that begin with their name, and
        not by wildcards."""
        found = [one for one in self.include if matches(one, name)]
        if is_standard(name):
            top = name.partition(".")[0]
            found = [one for one in found if one.partition(".")[0] == top]
        return bool(found) and not any(matches(one, name) for one in self.exclude)


def decide(rules, name):
    """The action of the first rule that covers a module, or None."""
    return next((rule.action for rule in rules if rule.covers(name)), None)


@functools.cache
def _standard():
    if hasattr(sys, "stdlib_module_names"):
        return sys.stdlib_module_names
    names = set(sys.builtin_module_names)  # before 3.10
    directory = sysconfig.get_path("stdlib")
    for path in (directory, os.path.join(directory, "lib-dynload")):
        if os.path.isdir(path):
            names.update(name.partition(".")[0] for name in os.listdir(path))
    return names - {"site-packages", "lib-dynload", "__pycache__"}


def is_standard(name):
    """Whether a module is the standard library's."""
    return name.partition(".")[0] in _standard()
