"""Names of members and modules, and patterns for names of modules. Nothing here keeps state.

A member's name is a relative path with slashes. A pattern is a dotted name in which `*` stands for
any characters within one part, and a part `**` for any number of parts: `numpy.**` is numpy and
every module below it.
"""

from ._standard import is_standard

MANIFEST = "homefree_package.json"
BUFFERS = ".buffers"

_NAME = 1024  # characters
_PART = 255  # bytes, as file systems have it
_DEPTH = 32  # parts


def wrong_member(name):
    """Why this cannot be the name of a member, or None if it can."""
    if not isinstance(name, str) or not name or len(name) > _NAME:
        return f"a name is text of 1 to {_NAME} characters"
    if not name.isprintable() or "\\" in name:
        return "the name has control characters or backslashes"
    if name.count("/") >= _DEPTH:
        return f"the name has more than {_DEPTH} parts"
    for part in name.split("/"):
        if part in ("", ".", ".."):
            return "the name is absolute, or has parts that lead elsewhere"
        try:
            length = len(part.encode("utf-8"))
        except UnicodeEncodeError:
            return "the name is no valid Unicode"
        if length > _PART:
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
    """The member's name of a resource of a package ("" for the root). `name` may have slashes."""
    return f"{package.replace('.', '/')}/{name}" if package else name


def wrong_pattern(pattern):
    """Why this is no pattern, or None if it is one."""
    if not isinstance(pattern, str) or len(pattern) > _NAME:
        return f"a pattern is text of at most {_NAME} characters"
    for part in pattern.split("."):
        if not part.replace("*", "_").isidentifier() or ("**" in part and part != "**"):
            return "a pattern is a dotted name with parts such as name, na*, * or **"
    return None


def _part_matches(pattern, part):
    first, *others = pattern.split("*")
    if not others:
        return part == pattern
    *middle, last = others
    if not part.startswith(first) or not part[len(first) :].endswith(last):
        return False
    at, end = len(first), len(part) - len(last)
    for piece in middle:
        found = part.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def matches(pattern, name):
    """Whether a pattern stands for the name of a module."""
    parts = name.split(".")
    # The numbers of parts of the name that the pattern may have consumed so far.
    reached = {0}
    for wanted in pattern.split("."):
        if wanted == "**":
            reached = set(range(min(reached), len(parts) + 1))
        else:
            reached = {
                at + 1 for at in reached if at < len(parts) and _part_matches(wanted, parts[at])
            }
        if not reached:
            return False
    return len(parts) in reached


class Rule:
    """What is to be done with the modules that some patterns stand for."""

    ACTIONS = ("intern", "extern", "mock", "deny")
    __slots__ = ("action", "exclude", "include")

    def __init__(self, action, include, exclude=()):
        self.action, self.include, self.exclude = action, tuple(include), tuple(exclude)

    def covers(self, name):
        return any(matches(one, name) for one in self.include) and not any(
            matches(one, name) for one in self.exclude
        )

    def by_name(self, name):
        """Whether one of the patterns names the module's top-level package, without a wildcard."""
        top = name.partition(".")[0]
        return any(one.partition(".")[0] == top for one in self.include if matches(one, name))


def decide(rules, name):
    """The first rule that covers a module, or None. The standard library's modules are covered by
    patterns that begin with their name, and not by wildcards."""
    standard = is_standard(name)
    for rule in rules:
        if rule.covers(name) and (not standard or rule.by_name(name)):
            return rule
    return None
