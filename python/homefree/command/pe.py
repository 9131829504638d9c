# SPDX-License-Identifier: BSD-2-Clause
"""Reads PE files: Windows' DLLs and Python's .pyd.

What Microsoft's "PE Format" describes, as far as homefree asks for it. Hostile files: tables end at
the limits below, and where the file does.

State: none.
"""

from .binary import Damaged

MAGIC = b"MZ"
_MACHINES = {0x14C: "i386", 0x8664: "x86-64", 0xAA64: "arm64", 0xA641: "arm64", 0x1C4: "arm"}
_EXPORTS, _IMPORTS, _DELAYED, _MANAGED = 0, 1, 13, 14  # directories
_DLL = 0x2000
_SECTIONS_MOST = 256  # Windows loads 96; each address is looked for in all
_LIBRARIES_MOST = 4096
_NAMES_MOST = 1_000_000
_TEXT_MOST = 64 << 20  # characters of all names


class Image:
    """libraries: {the name of a DLL, as it is written: the names that are imported from it}; with
    None for one that is imported by number."""

    def __init__(self):
        self.machine = "unknown"
        self.kind = "other"
        self.managed = False  # for .NET
        self.name = None  # that it gives itself
        self.exports = []
        self.libraries = {}
        self.sections = []  # (name, Bytes)


def image(data):
    """data: a Bytes. Raises Damaged."""
    if data.size < 64 or data.read(0, 2) != MAGIC:
        raise Damaged("it is no PE file")
    at = data.unpack("<I", 60)[0]
    if data.read(at, 4) != b"PE\0\0":
        raise Damaged("it is a program for DOS")
    machine, sections, _, _, _, optional, flags = data.unpack("<2H3I2H", at + 4)
    found = Image()
    found.machine = _MACHINES.get(machine, "unknown")
    found.kind = "shared object" if flags & _DLL else "program"
    at += 24
    if optional < 2:
        raise Damaged("it has no optional header")
    wide = {0x10B: False, 0x20B: True}.get(data.unpack("<H", at)[0])
    if wide is None:
        raise Damaged("its optional header is of no known kind")
    return _Reader(data, found, wide).read(at, optional, sections)


class _Reader:
    def __init__(self, data, image, wide):
        self._data, self._image, self._wide = data, image, wide
        self._places = []  # (first address, bytes, offset)
        self._left = _NAMES_MOST
        self._text_left = _TEXT_MOST

    def read(self, at, optional, sections):
        if sections > _SECTIONS_MOST:
            raise Damaged(f"it says that it has {sections} sections")
        for number in range(sections):
            start = at + optional + 40 * number
            name, _, address, size, offset = self._data.unpack("<8s4I", start)
            size = min(size, max(0, self._data.size - offset))
            self._places.append((address, size, offset))
            name = name.rstrip(b"\0").decode("latin-1")
            self._image.sections.append((name, self._data.part(offset, size) if size else None))
        directories = at + (112 if self._wide else 96)
        count = self._data.unpack("<I", directories - 4)[0] if optional >= directories - at else 0
        # Never more than the header has.
        count = min(count, max(0, at + optional - directories) // 8)
        for number, reader in (
            (_EXPORTS, self._exports),
            (_IMPORTS, self._imports),
            (_DELAYED, self._delayed),
            (_MANAGED, self._managed),
        ):
            if number < count:
                address, size = self._data.unpack("<2I", directories + 8 * number)
                if address and size:
                    reader(self._offset(address))
        return self._image

    def _offset(self, address):
        for first, size, offset in self._places:
            if first <= address < first + size:
                return address - first + offset
        raise Damaged(f"it refers to the address {address:#x}, which is not in it")

    def _name(self, address):
        self._count()
        name = self._data.name(self._offset(address))
        self._text_left -= len(name)
        if self._text_left < 0:
            raise Damaged(f"its names have more than {_TEXT_MOST} characters")
        return name

    def _count(self):
        self._left -= 1
        if self._left < 0:
            raise Damaged(f"it has more than {_NAMES_MOST} names")

    def _exports(self, at):
        own, _, _, count, _, names = self._data.unpack("<6I", at + 12)
        self._image.name = self._name(own) if own else None
        if count > _NAMES_MOST:
            raise Damaged(f"it says that it exports {count} names")
        if count:
            start = self._offset(names)
            for number in range(count):
                address = self._data.unpack("<I", start + 4 * number)[0]
                self._image.exports.append(self._name(address))

    def _imports(self, at):
        for number in range(_LIBRARIES_MOST):
            lookup, _, _, name, slots = self._data.unpack("<5I", at + 20 * number)
            if not name:
                return
            self._library(name, lookup or slots)
        raise Damaged(f"it needs more than {_LIBRARIES_MOST} libraries")

    def _delayed(self, at):
        for number in range(_LIBRARIES_MOST):
            by_address, name, _, _, lookup = self._data.unpack("<5I", at + 32 * number)
            if not name:
                return
            if by_address & 1:  # else of a linker of the nineties
                self._library(name, lookup)
        raise Damaged(f"it needs more than {_LIBRARIES_MOST} libraries")

    def _library(self, name, lookup):
        names = self._image.libraries.setdefault(self._name(name), [])
        form, size, ordinal = ("<Q", 8, 1 << 63) if self._wide else ("<I", 4, 1 << 31)
        at = self._offset(lookup)
        while value := self._data.unpack(form, at)[0]:
            # Before the name there is a hint of two bytes.
            names.append(None if value & ordinal else self._name((value & 0x7FFFFFFF) + 2))
            at += size
            self._count()

    def _managed(self, at):
        del at
        self._image.managed = True
