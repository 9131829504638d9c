# SPDX-License-Identifier: BSD-2-Clause
"""The document of a process's memory as a profile for pprof: profile.proto, packed by gzip.

A sample is a stack that asked for live memory, with values for "inuse_objects" and "inuse_space";
or a row of the table, whose stack is an object and its allocator, with a value for "resident". The
schema is public (https://github.com/google/pprof, proto/profile.proto); the few forms of protocol
buffers that it takes are written here.

State: none.
"""

import gzip

from .memory_text import RUNTIMES, kind_name
from .terminal import base_name


def _number(value):
    """A number of 64 bits, in groups of seven bits."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number, value):
    """A field: a number, bytes, or a list of numbers, which is packed."""
    if isinstance(value, int):
        return _number(number << 3) + _number(value) if value else b""
    if isinstance(value, list):
        value = b"".join(map(_number, value))
    return _number(number << 3 | 2) + _number(len(value)) + value


def _message(*fields):
    return b"".join(_field(number, value) for number, value in fields)


class _Table:
    """Things with numbers from 1 on, each once."""

    def __init__(self):
        self.messages, self._numbers = [], {}

    def number(self, key, make):
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers) + 1
            self.messages.append(make(self._numbers[key]))
        return self._numbers[key]


class _Profile:
    def __init__(self):
        self._strings = {"": 0}
        self.functions, self.locations, self.mappings = _Table(), _Table(), _Table()
        self.samples = []

    def text(self, text):
        return self._strings.setdefault(text or "", len(self._strings))

    def strings(self):
        return [text.encode("utf-8", "replace") for text in self._strings]

    def _function(self, name, file):
        return self.functions.number(
            (name, file),
            lambda number: _message(
                (1, number), (2, self.text(name)), (3, self.text(name)), (4, self.text(file))
            ),
        )

    def _mapping(self, path):
        """Addresses are not told: what is here has names already."""
        return self.mappings.number(
            path, lambda number: _message((1, number), (5, self.text(path)), (7, 1))
        )

    def location(self, name, file, line=0, path=None):
        """A frame. path: of the shared object, for a native one."""
        key = name, file, line, path

        def make(number):
            where = _message((1, self._function(name, file)), (2, line))
            mapping = self._mapping(path) if path else 0
            return _message((1, number), (2, mapping), (4, where))

        return self.locations.number(key, make)

    def sample(self, stack, *values):
        self.samples.append(_message((1, stack), (2, list(values))))


def _stack(out, row):
    """Innermost first: native frames as far as they say more than Python's, and those."""
    stack = []
    for path, symbol, address in row["native"]:
        if row["python"] and (not path or RUNTIMES.search(path)):
            break
        stack.append(out.location(symbol or hex(address), path or "", path=path))
    for function, file, line in row["python"]:
        stack.append(out.location(function, file, line))
    return stack or [out.location(base_name(row["object"] or "?"), row["object"] or "")]


def profile(document):
    """Result: bytes."""
    out = _Profile()
    types = ("inuse_objects", "count"), ("inuse_space", "bytes"), ("resident", "bytes")
    types = [_message((1, out.text(name)), (2, out.text(unit))) for name, unit in types]
    for row in document["asked"] or []:
        out.sample(_stack(out, row), row["blocks"], row["bytes"], 0)
    for row in document["rows"]:
        stack = [out.location(row["allocator"] or "its own mappings", row["object"] or "")]
        if row["object"]:
            stack.append(out.location(base_name(row["object"]), row["object"]))
        out.sample(stack, 0, 0, row["resident"])
    for row in document["rest"]:
        kind = out.location(kind_name(row["kind"]), "")
        name = row["object"]
        stack = [out.location(base_name(name), name), kind] if name else [kind]
        out.sample(stack, 0, 0, row["resident"])
    first = out.text("inuse_space" if document["asked"] else "resident")
    space = _message((1, out.text("space")), (2, out.text("bytes")))
    tables = (
        (1, types),
        (2, out.samples),
        (3, out.mappings.messages),
        (4, out.locations.messages),
        (5, out.functions.messages),
        (6, out.strings()),
    )
    parts = [_field(number, message) for number, messages in tables for message in messages]
    parts.append(_message((9, int(document["time"] * 1e9)), (11, space), (12, 1), (14, first)))
    return gzip.compress(b"".join(parts), mtime=0)
