# SPDX-License-Identifier: BSD-2-Clause
"""The manifest: what a package holds, and how its modules get what it does not hold.

    {"homefree_package": 1,
     "rules": [{"action": "extern", "include": ["numpy.**"], "exclude": []}, …],
     "extern": ["numpy", …],                  modules of the environment that are needed
     "mocked": [],
     "members": {"app/model.py": {"kind": "source", "size": 812, "sha256": "…"}, …}}

A pickle whose buffers lie outside of it has "buffers": [[offset, size], …], which are places in the
member of the same name with `.buffers` behind it. Members that are not known are passed over in
the document, and refused among "members".

A manifest that is read is not trusted: it is checked as a whole before anything is believed; what
is wrong with it raises Wrong. Nothing here keeps state.
"""

import collections
import json
import re

from ._names import (
    ACTIONS,
    BUFFERS,
    MANIFEST,
    Rule,
    is_module,
    parents,
    shown,
    wrong_member,
    wrong_pattern,
)
from ._package_errors import Wrong

VERSION = 1
LIMIT = 16 << 20  # bytes of a manifest: about 90000 members
KINDS = ("source", "extension", "pickle", "buffers", "resource")
ALIGNMENT = 64  # of each buffer, and of members with buffers in a zip

_RULES, _PATTERNS, _MODULES = 1000, 10000, 100000
_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Manifest(collections.namedtuple("Manifest", "rules extern mocked members")):
    """rules: a list of Rule. extern, mocked: lists of names. members: as in the document."""

    __slots__ = ()

    def dump(self):
        document = {
            "homefree_package": VERSION,
            "rules": [rule._asdict() for rule in self.rules],
            "extern": sorted(self.extern),
            "mocked": sorted(self.mocked),
            "members": dict(sorted(self.members.items())),
        }
        return (json.dumps(document, indent=1) + "\n").encode("ascii")


def module_of(name, kind):
    """(module's name, whether it is a package) of a member with code, or None."""
    path, _, last = name.rpartition("/")
    base, _, end = last.partition(".")
    if end.rpartition(".")[2] != "so" if kind == "extension" else end != "py":
        return None
    is_package = kind == "source" and base == "__init__"
    dotted = (path if is_package else f"{path}/{base}".lstrip("/")).replace("/", ".")
    return (dotted, is_package) if is_module(dotted) else None


# A module that is in a package. members: the files of an extension module, one for each Python;
# otherwise one, or none for a package without a file.
Module = collections.namedtuple("Module", "is_package members")


def modules(members):
    """{name: Module} of the modules among the members, their parents included."""
    found = {}
    for name, member in members.items():
        if member["kind"] not in ("source", "extension"):
            continue
        module, is_package = module_of(name, member["kind"])
        before = found.setdefault(module, Module(is_package, []))
        if before.members and not all(one.endswith(".so") for one in (name, before.members[0])):
            raise Wrong(f"it is the module {module}, and so is {before.members[0]}", name)
        before.members.append(name)
    for module in list(found):
        if len(found) > _MODULES:
            raise Wrong(f"it has more than {_MODULES} modules", MANIFEST)
        for parent in parents(module):
            if not found.setdefault(parent, Module(True, [])).is_package:
                raise Wrong(f"it is a module, and {module} lies in it", found[parent].members[0])
    return found


# ---- reading ----


def _few(text):
    if len(text) > 20:  # int() takes quadratic time
        raise ValueError("a number has more than 20 digits")
    return int(text)


def _no_number(text):
    raise ValueError(f"a number is {text[:20]}")


def _once(pairs):
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _is(value, kind, what):
    if type(value) is not kind:
        raise Wrong(f"{what} is {type(value).__name__}, not {kind.__name__}", MANIFEST)
    return value


def _size(value, what):
    if not 0 <= _is(value, int, what) < 1 << 62:
        raise Wrong(f"{what} is {value}, which is no size", MANIFEST)
    return value


def _names(value, what):
    names = _is(value, list, what)
    if len(names) > _MODULES:
        raise Wrong(f"{what} has {len(names)} names", MANIFEST)
    for one in names:
        if not is_module(one):
            raise Wrong(f"{what} has {shown(one)}, which is no module's name", MANIFEST)
    return names


def _rules(value):
    rules, patterns = [], 0
    for one in _is(value, list, "rules"):
        action = _is(one, dict, "a rule").get("action")
        if action not in ACTIONS:
            raise Wrong(f"a rule's action is {shown(action)}", MANIFEST)
        include = _is(one.get("include"), list, "include")
        exclude = _is(one.get("exclude", []), list, "exclude")
        for pattern in (*include, *exclude):
            why = wrong_pattern(pattern)
            if why:
                raise Wrong(f"{shown(pattern)}: {why}", MANIFEST)
        patterns += len(include) + len(exclude)
        rules.append(Rule(action, include, exclude))
    if len(rules) > _RULES or patterns > _PATTERNS:
        raise Wrong(f"it has {len(rules)} rules with {patterns} patterns", MANIFEST)
    return rules


def _member(name, value):
    why = "it is the manifest" if name == MANIFEST else wrong_member(name)
    if why:
        raise Wrong(f"the member {shown(name)} cannot be: {why}", MANIFEST)
    kind = _is(value, dict, f"the member {name}").get("kind")
    if kind not in KINDS:
        raise Wrong(f"its kind is {shown(kind)}", name)
    _size(value.get("size"), f"the size of {name}")
    hashed = value.get("sha256")
    if not isinstance(hashed, str) or not _HASH.fullmatch(hashed):
        raise Wrong("its sha256 is no such hash", name)
    if kind in ("source", "extension") and module_of(name, kind) is None:
        raise Wrong(f"it is called {kind}, and its name is no module's", name)
    end = 0
    for one in _is(value.get("buffers", []), list, f"the buffers of {name}"):
        if kind != "pickle" or len(_is(one, list, f"a buffer of {name}")) != 2:
            raise Wrong("its buffers are not the offsets and sizes of a pickle's", name)
        offset, size = (_size(part, f"a buffer of {name}") for part in one)
        if offset < end or offset % ALIGNMENT:
            raise Wrong(f"a buffer at {offset} overlaps another or is not aligned", name)
        end = offset + size


def _members(value):
    members = _is(value, dict, "members")
    for name, member in members.items():
        _member(name, member)
    for name, member in members.items():
        directory = name.rpartition("/")[0]
        while directory:
            if directory in members:
                raise Wrong("it is a file, and the directory of another member", directory)
            directory = directory.rpartition("/")[0]
        if member.get("buffers"):
            held = members.get(name + BUFFERS, {"kind": None})
            if held["kind"] != "buffers" or sum(member["buffers"][-1]) > held["size"]:
                raise Wrong("its buffers are not in the package", name)
    return members


def parse(data):
    """The Manifest in these bytes."""
    try:
        document = json.loads(
            data.decode("utf-8"),
            parse_int=_few,
            parse_float=_no_number,
            parse_constant=_no_number,
            object_pairs_hook=_once,
        )
    except RecursionError:
        raise Wrong("it is nested too deeply", MANIFEST) from None
    except ValueError as failed:
        raise Wrong(f"it is no JSON document of a manifest: {failed}", MANIFEST) from None
    version = _is(document, dict, "the document").get("homefree_package")
    if type(version) is not int or version != VERSION:
        if type(version) is int and version > VERSION:
            why = f"its version is {version}, and this homefree reads {VERSION}"
            raise Wrong(why, MANIFEST, "install a newer homefree")
        raise Wrong("it does not say {'homefree_package': 1}: it is no package's", MANIFEST)
    return Manifest(
        _rules(document.get("rules")),
        _names(document.get("extern"), "extern"),
        _names(document.get("mocked"), "mocked"),
        _members(document.get("members")),
    )
