# SPDX-License-Identifier: BSD-2-Clause
"""Reads Mach-O files, of one machine or of several ("universal" or "fat").

What <mach-o/loader.h>, <mach-o/nlist.h> and <mach-o/fat.h> describe, as far as homefree asks for
it. Hostile files: a count is never believed before the bytes that it counts are there.

State: none.
"""

import struct

from .binary import NAME_MOST, Damaged

_FAT = {b"\xca\xfe\xba\xbe": (">5I", (2, 3)), b"\xca\xfe\xba\xbf": (">2I2Q2I", (2, 3))}
_THIN = {
    b"\xce\xfa\xed\xfe": ("<", False),
    b"\xcf\xfa\xed\xfe": ("<", True),
    b"\xfe\xed\xfa\xce": (">", False),
    b"\xfe\xed\xfa\xcf": (">", True),
}
MAGICS = (*_FAT, *_THIN)
# A class file of Java begins like a fat file, and has a version of 45 or more where that counts.
FAT_MOST = 30
_COMMANDS_MOST = 16 << 20  # bytes of load commands
_SYMBOLS_MOST = 4_000_000
_NAMES_MOST = 256 << 20  # bytes of symbols' names
_MACHINES = {7: "i386", 12: "arm", 0x01000007: "x86-64", 0x0100000C: "arm64"}
_KINDS = {6: "shared object", 8: "shared object", 2: "program"}
_TWO_LEVELS = 0x80
_REQUIRED = 0x80000000
_SEGMENT, _SYMTAB, _SEGMENT_64, _ID = 0x1, 0x2, 0x19, 0xD
_LOADS = 0xC, 0x18 | _REQUIRED, 0x1F | _REQUIRED, 0x23 | _REQUIRED
_ENCRYPTED = 0x21, 0x2C
_DEBUGGING, _PRIVATE, _TYPE, _UNDEFINED, _EXTERNAL = 0xE0, 0x10, 0x0E, 0x0, 0x1
_WEAK_DEFINITION = 0x80
_PIECE = 1 << 16  # symbols


class Image:
    """What a file has for one machine.

    sections: (segment, section, Bytes; None if it has none in the file). libraries: the names under
    which it needs them."""

    def __init__(self, machine, kind):
        self.machine = machine
        self.kind = kind
        self.name = None  # under which others need it
        self.flat = False  # its imports are looked up in all objects, not in the library of each
        self.libraries = []
        self.sections = []
        self._symbols = None

    def symbols(self):
        """(name, what, weak) of each; what: "import", "export", or "hidden"."""
        if self._symbols is not None:
            yield from _symbols(*self._symbols)


def images(data):
    """The images of a file. data: a Bytes. Raises Damaged."""
    magic = data.read(0, min(4, data.size))
    if magic not in _FAT:
        return [_image(data)]
    form, (at, size) = _FAT[magic]
    count = data.unpack(">I", 4)[0]
    if not 0 < count <= FAT_MOST:
        raise Damaged(f"it says that it is for {count} machines")
    found, left = [], data.size
    for number in range(count):
        fields = data.unpack(form, 8 + number * struct.calcsize(form))
        part = data.part(fields[at], fields[size])
        left -= part.size
        if left < 0:
            raise Damaged("its images overlap")
        if part.read(0, min(8, part.size)) == b"!<arch>\n":
            raise Damaged("it is a static library")
        found.append(_image(part))
    return found


def _image(data):
    magic = data.read(0, min(4, data.size))
    if magic not in _THIN:
        raise Damaged("it is no Mach-O file")
    order, wide = _THIN[magic]
    machine, _, kind, count, size, flags = data.unpack(order + "6I", 4)
    if size > _COMMANDS_MOST:
        raise Damaged(f"it says that it has {size} bytes of load commands")
    image = Image(_MACHINES.get(machine, "unknown"), _KINDS.get(kind, "other"))
    image.flat = not flags & _TWO_LEVELS
    at = 32 if wide else 28
    end = at + size
    for _ in range(count):
        command, length = data.unpack(order + "2I", at)
        if length < 8 or at + length > end:
            raise Damaged("its load commands are longer than it says")
        _take(image, data, order, command, at, length)
        at += length
    return image


def _take(image, data, order, command, at, length):
    if command in (_SEGMENT, _SEGMENT_64):
        _sections(image, data, order, command == _SEGMENT_64, at, length)
    elif command in (_ID, *_LOADS):
        name = _text(data, order, at, length)
        if command == _ID:
            image.name = name
        else:
            image.libraries.append(name)
    elif command == _SYMTAB:
        if length < 24:
            raise Damaged("its command of symbols is cut off")
        symbols, count, names, size = data.unpack(order + "4I", at + 8)
        if count > _SYMBOLS_MOST or size > _NAMES_MOST:
            raise Damaged(f"it says that it has {count} symbols with {size} bytes of names")
        wide = data.read(0, 4) in (b"\xcf\xfa\xed\xfe", b"\xfe\xed\xfa\xcf")
        entry = struct.Struct(order + ("IBBHQ" if wide else "IBBHI"))
        image._symbols = data.part(symbols, count * entry.size), data.part(names, size), entry
    elif command in _ENCRYPTED and length >= 20 and data.unpack(order + "I", at + 16)[0]:
        raise Damaged("it is encrypted")


def _text(data, order, at, length):
    offset = data.unpack(order + "I", at + 8)[0] if length >= 12 else length
    if offset >= length:
        raise Damaged("a load command's text is not in it")
    text = data.read(at + offset, min(length - offset, NAME_MOST))
    return text.partition(b"\0")[0].decode("utf-8", "replace")


def _sections(image, data, order, wide, at, length):
    head, form, where = (72, "16s16s2Q4I", 64) if wide else (56, "16s16s2I4I", 48)
    size = 80 if wide else 68
    count = data.unpack(order + "I", at + where)[0] if length >= head else length
    if head + count * size > length:
        raise Damaged("its sections are more than its load command has")
    for number in range(count):
        fields = data.unpack(order + form, at + head + number * size)
        section, segment, _, long, offset, _, _, _ = fields
        # Of a section of kind zerofill, or of a file with debug information alone, nothing is here.
        inside = offset and offset + long <= data.size
        names = (text.rstrip(b"\0").decode("latin-1") for text in (segment, section))
        image.sections.append((*names, data.part(offset, long) if inside else None))


def _symbols(table, names, entry):
    names = names.read(0, names.size)
    for start in range(0, table.size, _PIECE * entry.size):
        piece = table.read(start, min(_PIECE * entry.size, table.size - start))
        for at, kind, _, description, _ in entry.iter_unpack(piece):
            if kind & _DEBUGGING:
                continue
            end = names.find(b"\0", at, at + NAME_MOST)
            name = names[at : end if end >= 0 else at + NAME_MOST].decode("utf-8", "replace")
            if kind & _EXTERNAL and kind & _TYPE == _UNDEFINED:
                what = "import"
            else:
                what = "export" if kind & _EXTERNAL and not kind & _PRIVATE else "hidden"
            yield name, what, bool(description & _WEAK_DEFINITION)
