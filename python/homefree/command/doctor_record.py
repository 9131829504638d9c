# SPDX-License-Identifier: BSD-2-Clause
"""Reads the record of a process (loader/record/process_record.h).

Constraint: a record is hostile. Another process wrote it, and may have crashed while doing so. So
every field is checked, and a record without its last line is rejected.

State: none.
"""

import re

_VERSION = 2
_FIELDS_MOST = 8
_TARGETS_MOST = 4  # objects that one object's calls may go to and that are kept
_FOREIGN_MOST = 4  # foreign allocators in one object
_OBJECTS_MOST = 100_000
_ENTRIES_MOST = 1 << 20
_NUMBER_END = 1 << 64
_FIELD = re.compile(rb"(?:[!-$&-~]|%(?!00)[0-9a-f]{2})+")
_ESCAPE = re.compile(rb"%(..)")
_FLAGS = {
    "m": "maps",
    "s": "static_tls",
    "h": "heap",
    "p": "program",
    "y": "cpython",
    "l": "linked",
}
_ROLES = "ordinary", "runtime", "linker", "homefree", "satellite"
_ALLOCATING = "malloc", "calloc", "memalign", "aligned_alloc", "valloc", "posix_memalign"


class Unreadable(Exception):
    """No record; the text says why not."""


class _Wrong(Exception):
    """A line that nobody writes."""


class Foreign:
    """An allocator of an object's own that homefree knows. home: homefree can free its blocks;
    leaked: blocks that were leaked because it could not."""

    def __init__(self, name, mapped, home, leaked):
        self.name, self.mapped, self.home, self.leaked = name, mapped, home, leaked


class Object:
    """A loaded object. maps, static_tls, heap, program, cpython, linked: the record's flags;
    calls: for malloc, free, new and delete, the objects that its calls go to; reach: why routing
    cannot reach it, or None; contains: the allocators in its file, if that was looked at;
    that it does not publish in the registry; published: those that it does."""

    def __init__(self, namespace, role, path, soname):
        self.namespace, self.role, self.path, self.soname = namespace, role, path, soname
        self.maps = self.static_tls = self.heap = self.program = self.cpython = False
        self.linked = False
        self.defines = set()
        self.calls = {"malloc": [], "free": [], "new": [], "delete": []}
        self.users = 0  # other objects whose malloc or free it is
        self.routed = self.refused = 0
        self.reach = None
        self.contains, self.published = [], []
        self.foreign = []

    @property
    def name(self):
        return self.path.rpartition("/")[2]

    @property
    def serves(self):
        return "malloc" in self.defines and "free" in self.defines

    @property
    def is_libc(self):
        return self.soname is not None and self.soname.startswith("libc.so")

    @property
    def home(self):
        """Whether homefree can free the blocks of every allocator in it, and there is one."""
        return bool(self.foreign) and all(each.home for each in self.foreign)

    def inside(self):
        """The allocators in it: (name, Foreign or None). First those that homefree knows, then
        those that only the file tells."""
        known = {each.name for each in self.foreign}
        return [(each.name, each) for each in self.foreign] + [
            (name, None) for name in self.published + self.contains if name not in known
        ]

    def allocator(self):
        """The name of the allocator in it, or None."""
        if self.role == "homefree":
            return "homefree"
        if self.is_libc:
            return "libc"
        return next((name for name, _ in self.inside()), None)


class Record:
    """What is known of a process. routing: "on", "off", "none" (no libhomefree), "unknown"; heap:
    bytes by name; refusals: (object, function, kind, reason); copies: (variable, function); crash:
    (object, function, caller), None where unknown; freeing: the object's own allocator was to free
    another's block."""

    def __init__(self):
        self.pid = self.moment = self.program = self.routing = None
        self.signal = 0
        self.preload = self.unseen = None
        self.heap = {"reserved": 0}
        self.objects = []
        self.refusals = []
        self.copies = []
        self.crash = None
        self.freeing = False

    # ---- lines: each takes the fields behind the first -------------------------------------------

    def _process(self, pid, moment, signal, program, routing):
        self.pid, self.signal = _number(pid), _number(signal, 65)
        self.moment = _one_of(moment, ("exit", "start", "signal", "asked", "live"))
        self.program = program
        self.routing = _one_of(routing, ("off", "on", "none", "unknown"))

    def _preload(self, names):
        self.preload = names

    def _unseen(self, why):
        self.unseen = _text(why)

    def _heap(self, reserved, used, allocated, resident):
        self.heap = {"reserved": _number(reserved)}
        if used is not None:
            self.heap["used"] = _number(used)
            self.heap["allocated"] = _number(allocated)
            self.heap["resident"] = _number(resident)

    def _object(self, namespace, role, flags, path, soname):
        role = _one_of(role, _ROLES)
        each = Object(_number(namespace), role, _text(path), soname)
        for flag in flags or "":
            if flag in _FLAGS:
                setattr(each, _FLAGS[flag], True)
        _append(self.objects, each, _OBJECTS_MOST)

    def _defines(self, index, function):
        self._at(index).defines.add(_text(function))

    def _slot(self, index, function, kind, state, target, reason):
        each, function = self._at(index), _text(function)
        kind = _one_of(kind, ("call", "data", "word"))
        state = _one_of(state, ("routed", "plain", "refused"))
        target = target and self._at(target)
        # The value of a changed variable does not show where the object's calls go.
        if target is not None and (kind, state) != ("word", "refused"):
            _add(each.calls.get(_calling(function)), target)
        each.routed += state == "routed"
        each.refused += state == "refused"
        if state == "refused":
            _append(self.refusals, (each, function, kind, reason or "unknown"))

    def _reach(self, index, why):
        self._at(index).reach = _text(why)

    def _copy(self, index, variable, function, _target):
        self._at(index)
        _append(self.copies, (_text(variable), _text(function)))

    def _foreign(self, index, allocator, mapped, state, leaked):
        each = self._at(index)
        home = _one_of(state, ("known", "home")) == "home"
        foreign = Foreign(_text(allocator), _number(mapped), home, _number(leaked))
        if len(each.foreign) < _FOREIGN_MOST:
            each.foreign.append(foreign)

    def _contains(self, index, allocator):
        _append(self._at(index).contains, _text(allocator), _FOREIGN_MOST)

    def _publishes(self, index, allocator):
        _append(self._at(index).published, _text(allocator), _FOREIGN_MOST)

    def _crash(self, index, function, caller):
        self.crash = index and self._at(index), function, caller and self._at(caller)

    def _freeing(self):
        self.freeing = self.crash is not None

    def _at(self, index):
        return self.objects[_number(index, len(self.objects))]

    def take(self, fields):
        """Takes a line. Raises _Wrong."""
        kind, *rest = fields
        take = _LINES.get(kind)
        if take is None or len(rest) != take.__code__.co_argcount - 1:
            raise _Wrong
        take(self, *rest)


_LINES = {
    name: getattr(Record, f"_{name}")
    for name in (
        *("process", "preload", "unseen", "heap", "object", "defines", "slot", "reach"),
        *("foreign", "contains", "publishes", "copy", "crash", "freeing"),
    )
}


def read(data):
    """A record in bytes. Raises Unreadable."""
    if not data:
        raise Unreadable("it is empty")
    lines = data.split(b"\n")
    cut = lines.pop()
    count = _begin(lines)
    record = Record()
    try:
        for line in lines[1:-1]:
            record.take(_fields(line))
        if cut or count < 2 or _fields(lines[-1]) != ["end", str(count - 1)]:
            raise _Wrong
    except _Wrong:
        raise Unreadable("the record is damaged") from None
    if record.moment is None or not record.objects:
        raise Unreadable("the record is damaged")
    return record


def _begin(lines):
    """Looks at the first line. Result: how many there are."""
    try:
        name, version = _fields(lines[0])
        version = _number(version)
    except (IndexError, ValueError, _Wrong):
        name = version = None
    if name != "homefree-doctor":
        raise Unreadable("it is not a record of homefree doctor")
    if version != _VERSION:
        raise Unreadable("a different version of homefree wrote it")
    return len(lines)


def _fields(line):
    """An empty field is None."""
    fields = line.split(b"\t")
    if len(fields) > _FIELDS_MOST or fields[0] == b"-":
        raise _Wrong
    return [None if field == b"-" else _decoded(field) for field in fields]


def _decoded(field):
    if not _FIELD.fullmatch(field):
        raise _Wrong
    if b"%" in field:
        field = _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), field)
    return field.decode("utf-8", "surrogateescape")


def _text(field):
    if field is None:
        raise _Wrong
    return field


def _number(field, end=_NUMBER_END):
    if field is None or len(field) > 20 or not (field.isascii() and field.isdigit()):
        raise _Wrong
    number = int(field)
    if number >= end:
        raise _Wrong
    return number


def _append(entries, entry, most=_ENTRIES_MOST):
    if len(entries) == most:  # no process has that many
        raise _Wrong
    entries.append(entry)


def _one_of(field, words):
    if field not in words:
        raise _Wrong
    return field


def _calling(function):
    """To which calls of an object a function belongs; malloc_usable_size belongs to none."""
    if function.startswith("_Zn"):
        return "new"
    if function.startswith("_Zd"):
        return "delete"
    if function == "free":
        return "free"
    return "malloc" if function in _ALLOCATING else None


def _add(targets, each):
    if targets is not None and each not in targets and len(targets) < _TARGETS_MOST:
        targets.append(each)
