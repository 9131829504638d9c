"""The bytes of a package's members, from a zip or a folder, as they are, without a check of hashes.

A store has one descriptor, which it closes when it is closed or forgotten; positions are given with
each read, so threads and forked children share it. What is wrong with the file raises Wrong (of
_zip), what the system refuses OSError.
"""

import errno
import mmap
import os
import stat
import weakref
import zlib

from ._names import wrong_member
from ._zip import ENTRIES, STORED, Wrong, data_offset, directory

_CHUNK = 1 << 20
_READS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def open_store(path):
    """A Folder or a Zip."""
    fd = os.open(path, _READS)
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            return Folder(fd)
        if stat.S_ISREG(mode):
            return Zip(fd)
        raise Wrong("it is neither a file nor a folder")
    except BaseException:
        os.close(fd)
        raise


def _fill(fd, view, offset):
    """Read until the view is full, which is what it was the size of."""
    view = memoryview(view)
    while len(view):
        count = os.preadv(fd, [view[: 1 << 30]], offset)
        if count == 0:
            raise Wrong("it is cut short")
        view, offset = view[count:], offset + count


def _map(fd, start, size):
    """A view of part of a file, whose pages are copied when they are written to."""
    first = start - start % mmap.ALLOCATIONGRANULARITY
    mapping = mmap.mmap(fd, start + size - first, access=mmap.ACCESS_COPY, offset=first)
    return memoryview(mapping)[start - first :]


class _Store:
    def __init__(self, fd):
        self._fd = fd
        self.close = weakref.finalize(self, os.close, fd)

    def read(self, name, limit=None):
        """The bytes of a member, as a bytearray. Raises Wrong if they are more than the limit."""
        size = self.sizes[name]
        if limit is not None and size > limit:
            raise Wrong(f"it has {size} bytes, too many", name)
        data = bytearray(size)
        self.read_into(name, data)
        return data


def _pieces(fd, offset, size):
    """The bytes of part of a file, in pieces."""
    while size:
        data = bytearray(min(size, _CHUNK))
        _fill(fd, data, offset)
        yield data
        offset, size = offset + len(data), size - len(data)


class Zip(_Store):
    def __init__(self, fd):
        length = os.fstat(fd).st_size

        def read(offset, size):
            if offset + size > length:
                raise Wrong("it is cut short")
            data = bytearray(size)
            _fill(fd, data, offset)
            return bytes(data)

        self._read = read
        self._entries = directory(read, length)
        self.sizes = {name: entry.size for name, entry in self._entries.items()}
        super().__init__(fd)

    def read_into(self, name, view):
        fd, entry = self._fd, self._entries[name]
        offset = data_offset(self._read, entry)
        if entry.method == STORED:
            _fill(fd, view, offset)
            return
        decompressor, at, used = zlib.decompressobj(-15), 0, 0
        view = memoryview(view)
        while not decompressor.eof:
            waiting = decompressor.unconsumed_tail
            if not waiting:
                length = min(_CHUNK, entry.compressed - used)
                if not length:
                    raise Wrong("it is cut short", name)
                waiting = self._read(offset + used, length)
                used += length
            try:
                # One byte more than there is room for: what is larger is noticed, not stored.
                data = decompressor.decompress(waiting, min(_CHUNK, len(view) - at) + 1)
            except zlib.error as failed:
                raise Wrong(f"it cannot be decompressed: {failed}", name) from None
            if len(data) > len(view) - at:
                raise Wrong("it is larger than the directory tells", name)
            view[at : at + len(data)] = data
            at += len(data)
        if at != len(view) or used != entry.compressed or decompressor.unused_data:
            raise Wrong("it is not as large as the directory tells", name)

    def pieces(self, name):
        """The bytes of a member in pieces, so that a large one need not fit in memory."""
        entry = self._entries[name]
        if entry.method == STORED:
            yield from _pieces(self._fd, data_offset(self._read, entry), entry.size)
        else:
            yield self.read(name)

    def map(self, name):
        """A view of a member's bytes, or None if it cannot be mapped."""
        fd, entry = self._fd, self._entries[name]
        if entry.method != STORED or not entry.size:
            return None
        offset = data_offset(self._read, entry)
        if offset + entry.size > os.fstat(fd).st_size:
            raise Wrong("it is cut short", name)
        return _map(fd, offset, entry.size)


class Folder(_Store):
    def __init__(self, fd):
        self.sizes = {}
        super().__init__(fd)
        try:
            self._list(fd, "")
        except BaseException:
            self.close.detach()
            raise

    def _list(self, fd, prefix):
        with os.scandir(fd) as entries:
            names = sorted(entry.name for entry in entries)
        for name in names:
            path = prefix + name
            why = wrong_member(path)
            if why:
                raise Wrong(f"the member {ascii(path)} cannot be: {why}")
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                below = os.open(name, _READS | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
                try:
                    self._list(below, path + "/")
                finally:
                    os.close(below)
            elif stat.S_ISREG(status.st_mode):
                self.sizes[path] = status.st_size
                if len(self.sizes) > ENTRIES:
                    raise Wrong(f"it has more than {ENTRIES} files")
            else:
                raise Wrong("it is a link or a device, not a file", path)

    def _open(self, name):
        """A descriptor of a member. No link on the way is followed."""
        fd = self._fd
        *folders, last = name.split("/")
        opened = None
        try:
            for folder in folders:
                following = os.open(folder, _READS | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
                if opened is not None:
                    os.close(opened)
                fd = opened = following
            found = os.open(last, _READS | os.O_NOFOLLOW, dir_fd=fd)
        except OSError as failed:
            if failed.errno in (errno.ELOOP, errno.ENOTDIR):
                raise Wrong("it is a link, not a file", name) from None
            raise
        finally:
            if opened is not None:
                os.close(opened)
        status = os.fstat(found)
        if not stat.S_ISREG(status.st_mode) or status.st_size != self.sizes[name]:
            os.close(found)
            raise Wrong("it was changed since the package was opened", name)
        return found

    def read_into(self, name, view):
        fd = self._open(name)
        try:
            _fill(fd, view, 0)
        finally:
            os.close(fd)

    def pieces(self, name):
        fd = self._open(name)
        try:
            yield from _pieces(fd, 0, self.sizes[name])
        finally:
            os.close(fd)

    def map(self, name):
        if not self.sizes[name]:
            return None
        fd = self._open(name)
        try:
            return _map(fd, 0, self.sizes[name])
        finally:
            os.close(fd)
