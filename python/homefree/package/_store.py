# SPDX-License-Identifier: BSD-2-Clause
"""The bytes of a package's members, from a zip or a directory, as they are, without a check of
hashes.

A store has one descriptor, which it closes when it is closed or forgotten; positions are given with
each read, so threads and forked children share nothing. What is wrong with the file raises Wrong,
what the system refuses OSError.

zipfile reads zips. What else is looked at is where programs that read them disagree, because what
one of them shows must be what another one loads: names once and in one encoding, members one after
the other from the first byte to the last, nothing encrypted, no links.
"""

import contextlib
import errno
import mmap
import os
import stat
import struct
import weakref
import zipfile
import zlib

from ._names import wrong_member
from ._package_errors import Wrong

_CHUNK = 1 << 20
_READS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_END, _LOCAL = 22, 30  # bytes of the end of a zip, and in front of a member's name
_ENCRYPTED, _UTF8, _UNIX = 0x1 | 0x40, 0x800, 3
_RATIO, _SMALL = 100, 64 << 20
_FILES = 200000


def open_store(path):
    """A Directory or a Zip."""
    fd = os.open(path, _READS)
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            return Directory(fd)
        if stat.S_ISREG(mode):
            return Zip(fd)
        raise Wrong("it is neither a file nor a directory")
    except BaseException:
        os.close(fd)
        raise


class _Store:
    """sizes: {member: bytes}."""

    def __init__(self, fd):
        self._fd, self.sizes = fd, self._list(fd)
        self.close = weakref.finalize(self, os.close, fd)

    def read_into(self, name, view):
        at = 0
        for piece in self.pieces(name):
            view[at : at + len(piece)] = piece
            at += len(piece)

    def pieces(self, name):
        """The bytes of a member in pieces, so that a large one need not fit in memory."""
        left = self.sizes[name]
        try:
            with self._open(name) as file:
                while left:
                    piece = file.read(min(left, _CHUNK))
                    if not piece:
                        raise EOFError
                    yield piece
                    left -= len(piece)
        except EOFError:
            raise Wrong("it is cut short", name) from None
        except (NotImplementedError, zipfile.BadZipFile, zlib.error) as failed:
            raise Wrong(f"it cannot be decompressed: {failed}", name) from None

    def map(self, name):
        """A view of a member, whose pages are copied when they are written to, or None if it cannot
        be mapped."""
        size = self.sizes[name]
        with self._place(name) as (fd, start):
            if not size or start is None:
                return None
            if start + size > os.fstat(fd).st_size:
                raise Wrong("it is cut short", name)
            first = start - start % mmap.ALLOCATIONGRANULARITY
            found = mmap.mmap(fd, start + size - first, access=mmap.ACCESS_COPY, offset=first)
        return memoryview(found)[start - first :]


class _From:
    """Part of a file, as zipfile reads it."""

    def __init__(self, fd, at):
        self._fd, self._at = fd, at

    def read(self, size):
        data = os.pread(self._fd, size, self._at)
        self._at += len(data)
        return data


class Zip(_Store):
    def _list(self, fd):
        size = os.fstat(fd).st_size
        try:
            with os.fdopen(os.dup(fd), "rb") as file, zipfile.ZipFile(file) as archive:
                entries, start = archive.infolist(), archive.start_dir
                end = os.pread(fd, _END, size - _END - len(archive.comment))
        except Exception as failed:  # zipfile raises many kinds
            if isinstance(failed, OSError) and failed.errno != errno.EINVAL:
                raise
            raise Wrong(
                f"it has no directory of a zip at its end: it is cut short, or no zip ({failed})"
            ) from None
        if end[:4] != b"PK\5\6":
            raise Wrong("bytes follow the end of the zip")
        if struct.unpack_from("<H", end, 10)[0] != min(len(entries), 0xFFFF):
            raise Wrong("the directory of the zip has not as many entries as its end tells")
        entries.sort(key=lambda one: one.header_offset)
        following = 0
        self._entries = {}
        for entry in entries:
            name = entry.orig_filename
            if entry.header_offset < following:
                raise Wrong("it overlaps what lies before it in the zip", ascii(name))
            if not following and entry.header_offset:
                raise Wrong("bytes lie before the zip")
            encoded = name.encode("utf-8" if entry.flag_bits & _UTF8 else "cp437")
            following = entry.header_offset + _LOCAL + len(encoded) + entry.compress_size
            self._check(entry, name)
            if not name.endswith("/"):
                self._entries[name] = entry
        if following > start:
            raise Wrong("it overlaps the directory of the zip", name)
        return {name: entry.file_size for name, entry in self._entries.items()}

    def _check(self, entry, name):
        is_directory = name.endswith("/")
        why = wrong_member(name[:-1] if is_directory else name)
        if not why and not name.isascii() and not entry.flag_bits & _UTF8:
            why = "its name is in an encoding that it does not tell"
        if why:
            raise Wrong(f"the member {ascii(name)} cannot be: {why}")
        kind = stat.S_IFMT(entry.external_attr >> 16) if entry.create_system == _UNIX else 0
        if kind not in (0, stat.S_IFDIR if is_directory else stat.S_IFREG):
            raise Wrong("it is a link or a device, not a file", name)
        if name in self._entries:
            raise Wrong("it is in the zip twice", name)
        if entry.flag_bits & _ENCRYPTED:
            raise Wrong("it is encrypted", name)
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise Wrong("it is compressed in a way that packages are not", name)
        if entry.compress_type == zipfile.ZIP_STORED and entry.compress_size != entry.file_size:
            raise Wrong("it is stored, and has two sizes", name)
        if entry.file_size > max(_SMALL, _RATIO * entry.compress_size):
            raise Wrong(f"it would grow from {entry.compress_size} to {entry.file_size}", name)
        del entry.CRC  # the manifest has better hashes, and verify=False means none

    def _start(self, name):
        """Where the bytes of an entry begin. Raises Wrong if what lies there is another entry."""
        at = self._entries[name].header_offset
        head = os.pread(self._fd, _LOCAL, at)
        if len(head) == _LOCAL and head[:4] == b"PK\3\4":
            length, more = struct.unpack_from("<2H", head, 26)
            if os.pread(self._fd, length, at + _LOCAL) == name.encode("utf-8"):
                return at + _LOCAL + length + more
        raise Wrong("it is cut short, or the zip's directory tells another name", name)

    def _open(self, name):
        return zipfile.ZipExtFile(_From(self._fd, self._start(name)), "r", self._entries[name])

    @contextlib.contextmanager
    def _place(self, name):
        is_stored = self._entries[name].compress_type == zipfile.ZIP_STORED
        yield self._fd, self._start(name) if is_stored else None


class Directory(_Store):
    def _list(self, fd):
        sizes = {}
        for path, directories, files, at in os.fwalk(".", dir_fd=fd):
            for last in sorted((*directories, *files)):
                name = os.path.join(path, last)[2:]
                why = wrong_member(name)
                if why:
                    raise Wrong(f"the member {ascii(name)} cannot be: {why}")
                status = os.stat(last, dir_fd=at, follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    sizes[name] = status.st_size
                elif not stat.S_ISDIR(status.st_mode):
                    raise Wrong("it is a link or a device, not a file", name)
            if len(sizes) > _FILES:
                raise Wrong(f"it has more than {_FILES} files")
        return sizes

    def _open(self, name):
        """No link on the way is followed."""
        fd = os.dup(self._fd)
        try:
            for part in name.split("/"):
                above, fd = fd, os.open(part, _READS | os.O_NOFOLLOW, dir_fd=fd)
                os.close(above)
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_size != self.sizes[name]:
                raise Wrong("it was changed since the package was opened", name)
            return os.fdopen(fd, "rb", buffering=0)
        except BaseException as failed:
            os.close(fd)
            if getattr(failed, "errno", None) in (errno.ELOOP, errno.ENOTDIR):
                raise Wrong("it is a link, not a file", name) from None
            raise

    @contextlib.contextmanager
    def _place(self, name):
        with self._open(name) as file:
            yield file.fileno(), 0
