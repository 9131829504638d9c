"""The manifest: what a package holds, and how its modules get what it does not hold.

    {"homefree_package": 1,
     "rules": [{"action": "extern", "include": ["numpy.**"], "exclude": []}, …],
     "extern": ["numpy", …],                  modules of the environment that are needed
     "mocked": [],
     "members": {"app/model.py": {"kind": "source", "size": 812, "sha256": "…"}, …}}

A pickle whose buffers lie outside of it has "buffers": [[offset, size], …], which are places in the
member of the same name with `.buffers` behind it. Members that are not known are passed over in
the document, and refused among "members".

A manifest that is read is not trusted: it is checked as a whole before anything is believed.
Nothing here keeps state.
"""

import json
import re

from ._names import (
    BUFFERS,
    MANIFEST,
    Rule,
    is_module,
    parents,
    shown,
    wrong_member,
    wrong_pattern,
)
from ._package_errors import DamagedPackage, error

VERSION = 1
LIMIT = 16 << 20  # bytes of a manifest: about 90000 members
KINDS = ("source", "extension", "pickle", "buffers", "resource")
ALIGNMENT = 64  # of each buffer, and of members with buffers in a zip

_SIZE = 1 << 62
_RULES, _PATTERNS, _MODULES = 1000, 10000, 100000
_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Member:
    __slots__ = ("buffers", "kind", "sha256", "size")

    def __init__(self, kind, size, sha256, buffers=()):
        self.kind, self.size, self.sha256, self.buffers = kind, size, sha256, buffers

    def as_document(self):
        found = {"kind": self.kind, "size": self.size, "sha256": self.sha256}
        if self.buffers:
            found["buffers"] = [list(one) for one in self.buffers]
        return found


class Manifest:
    """rules: a list of Rule. extern, mocked: lists of names. members: {name: Member}."""

    def __init__(self, rules, extern, mocked, members):
        self.rules, self.extern, self.mocked, self.members = rules, extern, mocked, members

    def dump(self):
        document = {
            "homefree_package": VERSION,
            "rules": [
                {"action": one.action, "include": [*one.include], "exclude": [*one.exclude]}
                for one in self.rules
            ],
            "extern": sorted(self.extern),
            "mocked": sorted(self.mocked),
            "members": {name: one.as_document() for name, one in sorted(self.members.items())},
        }
        return (json.dumps(document, indent=1, ensure_ascii=True) + "\n").encode("ascii")


class Module:
    """A module that is in a package. members: the files of an extension module, one for each
    Python; otherwise one, or none for a package without a file."""

    __slots__ = ("is_package", "members")

    def __init__(self, is_package, members=()):
        self.is_package, self.members = is_package, list(members)


def module_of(name, kind):
    """(module's name, whether it is a package) of a member with code, or None."""
    path, _, last = name.rpartition("/")
    base, _, end = last.partition(".")
    if kind == "source" and end != "py":
        return None
    if kind == "extension" and end.rpartition(".")[2] != "so":
        return None
    dotted = f"{path.replace('/', '.')}.{base}" if path else base
    is_package = kind == "source" and base == "__init__"
    if is_package:
        dotted = path.replace("/", ".")
    return (dotted, is_package) if is_module(dotted) else None


# ---- reading ----


def _few(text):
    if len(text) > 20:  # int() takes quadratic time
        raise ValueError("a number has more than 20 digits")
    return int(text)


def _refuse_number(text):
    raise ValueError(f"a number is {text[:20]}")


def _once(pairs):
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


class _Reader:
    """Checks parts of a document, and raises DamagedPackage that names the package."""

    def __init__(self, package):
        self.package = package

    def refuse(self, why, remedy="write the package again", member=MANIFEST):
        raise error(DamagedPackage, why, remedy, package=self.package, member=member) from None

    def of(self, value, kind, what):
        if not isinstance(value, kind) or isinstance(value, bool):
            self.refuse(f"{what} is {type(value).__name__}, not {kind.__name__}")
        return value

    def number(self, value, what):
        if not 0 <= self.of(value, int, what) < _SIZE:
            self.refuse(f"{what} is {value}, which is no size")
        return value

    def document(self, data):
        try:
            found = json.loads(
                data.decode("utf-8"),
                parse_int=_few,
                parse_float=_refuse_number,
                parse_constant=_refuse_number,
                object_pairs_hook=_once,
            )
        except RecursionError:
            self.refuse("it is nested too deeply")
        except ValueError as failed:
            self.refuse(f"it is no JSON document that a manifest could be: {failed}")
        return self.of(found, dict, "the document")

    def names(self, value, what):
        names = self.of(value, list, what)
        if len(names) > _MODULES:
            self.refuse(f"{what} has {len(names)} names")
        for one in names:
            if not is_module(one):
                self.refuse(f"{what} has {shown(one)}, which is no module's name")
        return names

    def rules(self, value):
        rules, patterns = [], 0
        for one in self.of(value, list, "rules"):
            one = self.of(one, dict, "a rule")
            if one.get("action") not in Rule.ACTIONS:
                self.refuse(f"a rule's action is {shown(one.get('action'))}")
            include = self.of(one.get("include"), list, "include")
            exclude = self.of(one.get("exclude", []), list, "exclude")
            for pattern in (*include, *exclude):
                why = wrong_pattern(pattern)
                if why:
                    self.refuse(f"{shown(pattern)}: {why}")
            patterns += len(include) + len(exclude)
            rules.append(Rule(one["action"], include, exclude))
        if len(rules) > _RULES or patterns > _PATTERNS:
            self.refuse(f"it has {len(rules)} rules with {patterns} patterns")
        return rules

    def member(self, name, value):
        why = wrong_member(name)
        if why or name == MANIFEST:
            self.refuse(f"the member {shown(name)} cannot be: {why or 'it is the manifest'}")
        value = self.of(value, dict, f"the member {name}")
        kind = value.get("kind")
        if kind not in KINDS:
            self.refuse(f"its kind is {shown(kind)}", member=name)
        size = self.number(value.get("size"), f"the size of {name}")
        hashed = value.get("sha256")
        if not isinstance(hashed, str) or not _HASH.fullmatch(hashed):
            self.refuse("its sha256 is no such hash", member=name)
        if kind in ("source", "extension") and module_of(name, kind) is None:
            self.refuse(f"it is called {kind}, and its name is no module's", member=name)
        return Member(kind, size, hashed, self.buffers(name, kind, value.get("buffers", [])))

    def buffers(self, name, kind, value):
        found, end = [], 0
        for one in self.of(value, list, f"the buffers of {name}"):
            if len(self.of(one, list, f"a buffer of {name}")) != 2:
                self.refuse("a buffer is not an offset and a size", member=name)
            offset, size = (self.number(part, f"a buffer of {name}") for part in one)
            if offset < end or offset % ALIGNMENT:
                self.refuse(f"a buffer at {offset} overlaps another or is not aligned", member=name)
            found.append((offset, size))
            end = offset + size
        if found and kind != "pickle":
            self.refuse(f"it has buffers, and is of the kind {kind}", member=name)
        return found


def parse(data, package):
    """The Manifest in these bytes. Raises DamagedPackage, which names the package."""
    reader = _Reader(package)
    document = reader.document(data)
    version = document.get("homefree_package")
    if version != VERSION or isinstance(version, bool):
        if isinstance(version, int) and version > VERSION:
            reader.refuse(
                f"its version is {shown(version)}, and this homefree reads {VERSION}",
                "install a newer homefree",
            )
        reader.refuse("it does not say {'homefree_package': 1}", "name a homefree package")
    members = {
        name: reader.member(name, value)
        for name, value in reader.of(document.get("members"), dict, "members").items()
    }
    for name, member in members.items():
        folder = name.rpartition("/")[0]
        while folder:
            if folder in members:
                reader.refuse("it is a file, and the folder of another member", member=folder)
            folder = folder.rpartition("/")[0]
        if member.buffers:
            held = members.get(name + BUFFERS)
            end = sum(member.buffers[-1])
            if held is None or held.kind != "buffers" or end > held.size:
                reader.refuse("its buffers are not in the package", member=name)
    return Manifest(
        reader.rules(document.get("rules")),
        reader.names(document.get("extern"), "extern"),
        reader.names(document.get("mocked"), "mocked"),
        members,
    )


def modules(manifest, package):
    """{name: Module} of the modules in a package, their parents included. Raises DamagedPackage if
    two members are one module."""
    found = {}
    for name, member in manifest.members.items():
        if member.kind not in ("source", "extension"):
            continue
        module, is_package = module_of(name, member.kind)
        before = found.get(module)
        if before is None:
            found[module] = Module(is_package, [name])
        elif member.kind == "extension" and before.members[0].endswith(".so"):
            before.members.append(name)
        else:
            _Reader(package).refuse(
                f"it is the module {module}, and so is {before.members[0]}", member=name
            )
    for module in list(found):
        if len(found) > _MODULES:
            _Reader(package).refuse(f"it has more than {_MODULES} modules")
        for parent in parents(module):
            if not found.setdefault(parent, Module(True)).is_package:
                _Reader(package).refuse(
                    f"it is a module, and {module} lies in it", member=found[parent].members[0]
                )
    return found
