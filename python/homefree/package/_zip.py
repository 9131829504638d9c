"""Zip files: the directory of one that is read, and writing one.

Reading is strict where programs that read zips disagree, because what one of them shows must be
what
another one loads: names once and in one encoding, members one after the other, sizes that the
directory tells, nothing encrypted, no links. Written are members that are stored, sorted, with one
date, so that the same content gives the same file; what is to be mapped is aligned.

Nothing here keeps state.
"""

import stat
import struct

from ._names import shown, wrong_member

STORED, DEFLATED = 0, 8

_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_ALL = 0xFFFFFFFF
ENTRIES = 200000  # of a package
_DIRECTORY = 64 << 20  # bytes

_ENCRYPTED, _UTF8 = 0x1 | 0x40, 0x800
_RATIO, _SMALL = 100, 64 << 20
_UNIX = 3

# 1 January 1980, the first date that a zip can have.
_DATE = 1 << 5 | 1
# The extra field by which zips are aligned: two bytes, then padding.
_ALIGN_ID = 0xD935


class Wrong(Exception):
    """(why, the name of the entry or None)"""

    def __init__(self, why, name=None):
        super().__init__(why)
        self.name = name


class Entry:
    __slots__ = ("compressed", "header", "method", "name", "size")

    def __init__(self, name, header, compressed, size, method):
        self.name, self.header = name, header
        self.compressed, self.size, self.method = compressed, size, method


# ---- reading ----


def directory(read, length):
    """{name: Entry} of a zip with that length; read(offset, size) gives exactly so many bytes.

    Entries for folders are left out. Raises Wrong.
    """
    start = max(0, length - _END.size - 0xFFFF)
    tail = read(start, length - start)
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) - at < _END.size:
        raise Wrong("it has no directory of a zip at its end: it is cut short, or no zip")
    _, disk, first_disk, here, count, size, offset, comment = _END.unpack_from(tail, at)
    if len(tail) - at - _END.size != comment:
        raise Wrong("bytes follow the end of the zip")
    end = start + at
    if end >= _LOCATOR.size:
        signature, _, where, _ = _LOCATOR.unpack(read(end - _LOCATOR.size, _LOCATOR.size))
        if signature == b"PK\6\7":
            if where > end - _LOCATOR.size - _END64.size:
                raise Wrong("the directory of the zip is not where it should be")
            fields = _END64.unpack(read(where, _END64.size))
            signature, _, _, _, disk, first_disk, here, count, size, offset = fields
            if signature != b"PK\6\6":
                raise Wrong("the directory of the zip is not where it should be")
            end = where
    if disk or first_disk or here != count:
        raise Wrong("it is one part of a zip of several")
    if size > _DIRECTORY or count > ENTRIES:
        raise Wrong(f"the directory of the zip has {count} entries in {size} bytes, too many")
    if offset + size != end:
        raise Wrong("the directory of the zip does not end where the zip does")
    return _entries(read(offset, size), count, offset)


def _entries(data, count, end):
    found, spans, at = {}, [], 0
    for _ in range(count):
        if len(data) - at < _ENTRY.size:
            raise Wrong("the directory of the zip is cut short")
        fields = _ENTRY.unpack_from(data, at)
        signature, made_by, _, flags, method, _, _, _, compressed, size = fields[:10]
        name_size, extra_size, comment_size, disk, _, attributes, header = fields[10:]
        at += _ENTRY.size
        following = at + name_size + extra_size + comment_size
        if signature != b"PK\1\2" or following > len(data):
            raise Wrong("the directory of the zip is cut short")
        name = _name(data[at : at + name_size], flags)
        extra = data[at + name_size : at + name_size + extra_size]
        at = following
        size, compressed, header = _large(extra, size, compressed, header, name)
        if flags & _ENCRYPTED or disk:
            raise Wrong("it is encrypted, or in another file", name)
        kind = stat.S_IFMT(attributes >> 16) if made_by >> 8 == _UNIX else 0
        if name.endswith("/"):
            if size or kind not in (0, stat.S_IFDIR) or wrong_member(name[:-1]):
                raise Wrong("it is no folder that a package could have", name)
            continue
        if kind not in (0, stat.S_IFREG):
            raise Wrong("it is a link or a device, not a file", name)
        if name in found:
            raise Wrong("it is in the zip twice", name)
        if method not in (STORED, DEFLATED) or (method == STORED and size != compressed):
            raise Wrong("it is compressed in a way that packages are not", name)
        if size > _SMALL and size > _RATIO * compressed:
            raise Wrong(f"it would grow from {compressed} to {size} bytes", name)
        found[name] = Entry(name, header, compressed, size, method)
        spans.append((header, header + _LOCAL.size + name_size + compressed, name))
    if at != len(data):
        raise Wrong("the directory of the zip has bytes that are no entries")
    spans.sort()
    for (_, before, name), (start, _, _) in zip(spans, [*spans[1:], (end, 0, "")]):
        if before > start:
            raise Wrong("it overlaps what follows it in the zip", name)
    return found


def _name(data, flags):
    try:
        name = data.decode("utf-8" if flags & _UTF8 else "ascii")
    except UnicodeDecodeError:
        raise Wrong(f"the name {shown(data)} is in an encoding that it does not tell") from None
    why = wrong_member(name[:-1] if name.endswith("/") else name)
    if why:
        raise Wrong(f"the member {shown(name)} cannot be: {why}")
    return name


def _large(extra, size, compressed, header, name):
    """The sizes and the offset, which are in the extra field if they need more than 32 bits."""
    at = 0
    while len(extra) - at >= 4:
        kind, length = struct.unpack_from("<2H", extra, at)
        at += 4
        if kind == 1:
            field = extra[at : at + length]
            values = [size, compressed, header]
            used = 0
            for i in range(3):
                if values[i] == _ALL:
                    if len(field) < used + 8:
                        raise Wrong("its sizes are cut short", name)
                    (values[i],) = struct.unpack_from("<Q", field, used)
                    used += 8
            return values
        at += length
    return [size, compressed, header]


def data_offset(read, entry):
    """Where the bytes of an entry begin. Raises Wrong if what lies there is another entry."""
    fields = _LOCAL.unpack(read(entry.header, _LOCAL.size))
    signature, _, _, method, name_size, extra_size = *fields[:4], *fields[9:]
    name = read(entry.header + _LOCAL.size, name_size)
    if signature != b"PK\3\4" or method != entry.method or name != entry.name.encode("utf-8"):
        raise Wrong("the zip's directory tells another name or method than the member", entry.name)
    return entry.header + _LOCAL.size + name_size + extra_size


# ---- writing ----


class ZipWriter:
    """Writes to a file that is open for writing, from its present position, which is the start."""

    def __init__(self, file):
        self.file, self.at = file, 0
        self.entries, self.names = [], 0

    def _write(self, data):
        self.file.write(data)
        self.at += len(data)

    def add(self, name, chunks, size, crc, alignment=1):
        """Add a member, whose chunks have that size and CRC-32 together."""
        encoded = name.encode("utf-8")
        large = size >= _ALL
        extra = struct.pack("<2H2Q", 1, 16, size, size) if large else b""
        if alignment > 1:
            unpadded = self.at + _LOCAL.size + len(encoded) + len(extra) + 6
            padding = -unpadded % alignment
            extra += struct.pack("<3H", _ALIGN_ID, 2 + padding, alignment) + bytes(padding)
        short = _ALL if large else size
        common = (45 if large else 20, _UTF8, STORED, 0, _DATE, crc, short, short, len(encoded))
        header = self.at
        self._write(_LOCAL.pack(b"PK\3\4", *common, len(extra)) + encoded + extra)
        before = self.at
        for chunk in chunks:
            self._write(chunk)
        if self.at - before != size:
            raise OSError(f"{name} was changed while it was written")
        self.entries.append((encoded, common, size, header))

    def finish(self):
        """Write the directory."""
        start = self.at
        for encoded, common, size, header in self.entries:
            large = [size, size] if size >= _ALL else []
            large += [header] if header >= _ALL else []
            extra = struct.pack(f"<2H{len(large)}Q", 1, 8 * len(large), *large) if large else b""
            attributes = (stat.S_IFREG | 0o644) << 16
            version = 45 if large else 20
            self._write(
                _ENTRY.pack(
                    *(b"PK\1\2", _UNIX << 8 | version, version, *common[1:], len(extra), 0),
                    *(0, 0, attributes, min(header, _ALL)),
                )
                + encoded
                + extra
            )
        count, size = len(self.entries), self.at - start
        if count >= 0xFFFF or start >= _ALL or size >= _ALL:
            where = self.at
            version = _UNIX << 8 | 45
            fields = (_END64.size - 12, version, 45, 0, 0, count, count, size, start)
            self._write(_END64.pack(b"PK\6\6", *fields))
            self._write(_LOCATOR.pack(b"PK\6\7", 0, where, 1))
        short = min(count, 0xFFFF)
        self._write(_END.pack(b"PK\5\6", 0, 0, short, short, min(size, _ALL), min(start, _ALL), 0))
