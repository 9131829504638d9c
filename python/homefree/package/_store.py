# SPDX-License-Identifier: BSD-2-Clause
"""The bytes of a package's members, from a zip or a directory, as they are, without a check of
hashes.

A store has one descriptor, which it closes when it is closed or forgotten; positions are given with
each read, so threads and forked children share nothing. What is wrong with the file raises Wrong,
what the system refuses OSError.

zipfile reads the directory of a zip. What else is looked at is where programs that read zips
disagree, because what one of them shows must be what another one loads: names once and in one
encoding, members one after the other from the first byte to the last, nothing compressed or
encrypted, no links.
"""

import contextlib
import errno
import mmap
import os
import stat
import struct
import weakref
import zipfile

from ._names import wrong_member
from ._package_errors import Wrong

_CHUNK = 1 << 20
_READS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_END, _LOCAL = 22, 30  # bytes of the end of a zip, and in front of a member's name
_ENCRYPTED, _UTF8, _UNIX = 0x1 | 0x40, 0x800, 3
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


def _check_name(name):
    why = wrong_member(name)
    if why:
        raise Wrong(f"the member {ascii(name)} cannot be: {why}")


class _Store:
    """sizes: {member: bytes}."""

    def __init__(self, fd):
        self._fd, self.sizes = fd, self._list(fd)
        self.close = weakref.finalize(self, os.close, fd)

    def pieces(self, name):
        """The bytes of a member in pieces, so that a large one need not fit in memory."""
        with self._place(name) as (fd, at):
            end = at + self.sizes[name]
            while at < end:
                piece = os.pread(fd, min(end - at, _CHUNK), at)
                if not piece:
                    raise Wrong("it is cut short", name)
                at += len(piece)
                yield piece

    def read_into(self, name, view):
        at = 0
        for piece in self.pieces(name):
            view[at : at + len(piece)] = piece
            at += len(piece)

    def map(self, name):
        """A view of a member that is not empty, whose pages are copied when they are written to."""
        with self._place(name) as (fd, start):
            end = start + self.sizes[name]
            if end > os.fstat(fd).st_size:
                raise Wrong("it is cut short", name)
            first = start - start % mmap.ALLOCATIONGRANULARITY
            found = mmap.mmap(fd, end - first, access=mmap.ACCESS_COPY, offset=first)
        return memoryview(found)[start - first :]


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
        sizes, following = {}, 0
        self._offsets = {}
        for entry in sorted(entries, key=lambda one: one.header_offset):
            name = entry.orig_filename
            if entry.header_offset < following:
                raise Wrong("it overlaps what lies before it in the zip", ascii(name))
            if not following and entry.header_offset:
                raise Wrong("bytes lie before the zip")
            encoded = name.encode("utf-8" if entry.flag_bits & _UTF8 else "cp437")
            following = entry.header_offset + _LOCAL + len(encoded) + entry.compress_size
            is_directory = name.endswith("/")
            _check_name(name[:-1] if is_directory else name)
            if not name.isascii() and not entry.flag_bits & _UTF8:
                raise Wrong("its name is in an encoding that it does not tell", ascii(name))
            kind = stat.S_IFMT(entry.external_attr >> 16) if entry.create_system == _UNIX else 0
            if kind not in (0, stat.S_IFDIR if is_directory else stat.S_IFREG):
                raise Wrong("it is a link or a device, not a file", name)
            if name in sizes:
                raise Wrong("it is in the zip twice", name)
            stored = entry.compress_type == zipfile.ZIP_STORED
            if not stored or entry.flag_bits & _ENCRYPTED:
                why = "it is compressed or encrypted, as packages are not"
                raise Wrong(why, name, "write it again without")
            if entry.compress_size != entry.file_size:
                raise Wrong("it is stored, and has two sizes", name)
            if not is_directory:
                sizes[name], self._offsets[name] = entry.file_size, entry.header_offset
        if following > start:
            raise Wrong("it overlaps the directory of the zip", name)
        return sizes

    @contextlib.contextmanager
    def _place(self, name):
        """Where the bytes of a member begin. Raises Wrong if what lies there is another one."""
        at = self._offsets[name]
        head = os.pread(self._fd, _LOCAL, at)
        if len(head) == _LOCAL and head[:4] == b"PK\3\4":
            length, more = struct.unpack_from("<2H", head, 26)
            if os.pread(self._fd, length, at + _LOCAL) == name.encode("utf-8"):
                yield self._fd, at + _LOCAL + length + more
                return
        raise Wrong("it is cut short, or the zip's directory tells another name", name)


class Directory(_Store):
    def _list(self, fd):
        sizes = {}
        for path, directories, files, at in os.fwalk(".", dir_fd=fd):
            for last in sorted((*directories, *files)):
                name = os.path.join(path, last)[2:]
                _check_name(name)
                status = os.stat(last, dir_fd=at, follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    sizes[name] = status.st_size
                elif not stat.S_ISDIR(status.st_mode):
                    raise Wrong("it is a link or a device, not a file", name)
            if len(sizes) > _FILES:
                raise Wrong(f"it has more than {_FILES} files")
        return sizes

    @contextlib.contextmanager
    def _place(self, name):
        """No link on the way is followed."""
        fd = os.dup(self._fd)
        try:
            for part in name.split("/"):
                above, fd = fd, os.open(part, _READS | os.O_NOFOLLOW, dir_fd=fd)
                os.close(above)
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_size != self.sizes[name]:
                raise Wrong("it was changed since the package was opened", name)
            yield fd, 0
        except OSError as failed:
            if failed.errno in (errno.ELOOP, errno.ENOTDIR):
                raise Wrong("it is a link, not a file", name) from None
            raise
        finally:
            os.close(fd)
