# SPDX-License-Identifier: BSD-2-Clause
"""The bytes of an object file that may be damaged or hostile: what is read lies in the file, is no
longer than its reader says, and does not stay.

State: of each Bytes, the pages that were read last. One thread.
"""

import os
import struct

NAME_MOST = 4096  # bytes of a name; mangled ones are long
_PAGE = 1 << 16
_PAGES_MOST = 256  # that stay
_PIECE = 4 << 20  # of all bytes


def read_at(descriptor, size, at):
    """pread(2), which Windows lacks."""
    if hasattr(os, "pread"):
        return os.pread(descriptor, size, at)
    os.lseek(descriptor, at, os.SEEK_SET)
    return os.read(descriptor, size)


def write_at(descriptor, data, at):
    """pwrite(2), which Windows lacks."""
    if hasattr(os, "pwrite"):
        return os.pwrite(descriptor, data, at)
    os.lseek(descriptor, at, os.SEEK_SET)
    return os.write(descriptor, data)


class Damaged(Exception):
    """The file is not what it says; the message says why."""


class Bytes:
    """A range of a file. at: where it begins in the file; size: its bytes."""

    def __init__(self, descriptor, at, size):
        self.size = size
        self._descriptor, self._at = descriptor, at
        self._pages = {}

    def part(self, at, size):
        """A range of this one."""
        self._check(at, size)
        return Bytes(self._descriptor, self._at + at, size)

    def read(self, at, size):
        self._check(at, size)
        first, last = at // _PAGE, (at + size - 1) // _PAGE
        if size == 0 or last > first + 1:  # much of it would not be asked for again
            return self._whole(at, size)
        found = self._page(first) if first == last else self._page(first) + self._page(last)
        return found[at - first * _PAGE :][:size]

    def unpack(self, form, at):
        """Numbers, as struct(3) has them."""
        return struct.unpack(form, self.read(at, struct.calcsize(form)))

    def name(self, at):
        """What ends with a zero byte, at most NAME_MOST bytes of it."""
        self._check(at, 1)
        found = self.read(at, min(NAME_MOST, self.size - at)).partition(b"\0")[0]
        return found.decode("utf-8", "replace")

    def pieces(self, overlap):
        """All bytes, in pieces that share so many: (where it begins, the piece)."""
        at = 0
        while at < self.size:
            size = min(_PIECE, self.size - at)
            yield at, self._whole(at, size)
            if at + size >= self.size:
                break
            at += size - overlap

    def _check(self, at, size):
        if at < 0 or size < 0 or at + size > self.size:
            raise Damaged(f"it refers to {size} bytes at {at}, and has {self.size}")

    def _page(self, number):
        found = self._pages.get(number)
        if found is None:
            if len(self._pages) >= _PAGES_MOST:
                self._pages.clear()
            at = number * _PAGE
            found = self._pages[number] = self._whole(at, min(_PAGE, self.size - at))
        return found

    def _whole(self, at, size):
        found = b""
        while len(found) < size:
            more = read_at(self._descriptor, size - len(found), self._at + at + len(found))
            if not more:
                raise Damaged("it ends while it is read")
            found += more
        return found
