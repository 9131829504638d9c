# SPDX-License-Identifier: BSD-2-Clause
"""The files of the objects in a core file: where they are here. A file counts if its build id is
the one that the core file has in its first page; where there is none, its name must do.

Owns: descriptors of the files, until close(). One thread.
"""

import os
import struct

from .terminal import base_name

_HEAD, _ROW, _ROWS_MOST = 64, 56, 64
_NOTES_MOST = 64 << 10
_LOOKED_MOST = 200_000  # names below a root


def segments(read):
    """(kind, flags, offset, size in the file) of each segment of an ELF image; none of what is no
    ELF image. read: a function of an offset and a size."""
    head = read(0, _HEAD)
    if len(head) != _HEAD or head[:6] != b"\x7fELF\2\1":
        return
    table, size, rows = *struct.unpack_from("<Q", head, 32), *struct.unpack_from("<HH", head, 54)
    for number in range(min(rows, _ROWS_MOST)):
        row = read(table + size * number, _ROW)
        if size != _ROW or len(row) != _ROW:
            return
        kind, flags, offset, _, _, length = struct.unpack_from("<IIQQQQ", row)
        yield kind, flags, offset, length


def build_id(read):
    """The build id of an ELF image, as a hexadecimal number; None: it has none."""
    for kind, _, offset, length in segments(read):
        if kind == 4 and length <= _NOTES_MOST:
            found = _of_notes(read(offset, length))
            if found:
                return found
    return None


def _of_notes(data):
    at = 0
    while at + 12 <= len(data):
        name, size, kind = struct.unpack_from("<III", data, at)
        start = at + 12 + (name + 3 & ~3)
        if kind == 3 and data[at + 12 : start].rstrip(b"\0") == b"GNU":
            return data[start : start + size].hex()
        at = start + (size + 3 & ~3)
    return None


def _of_file(path):
    """(whether it is a file for ELF's sake, its build id)."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):
        return False, None
    try:

        def read(offset, size):
            try:
                return os.pread(descriptor, size, offset)
            except (OSError, OverflowError):
                return b""

        return read(0, 4) == b"\x7fELF", build_id(read)
    finally:
        os.close(descriptor)


class Objects:
    """starts: {path: where the object begins in memory}. here: {path: the file, None: it is not
    here}. others: paths of which another build is here."""

    def __init__(self, core, root, executable):
        self._core, self.root, self._executable = core, root, executable
        self._below, self._descriptors = None, {}
        self.starts, self.here, self.others, self._wanted = {}, {}, [], {}
        code = {mapping.path for mapping in core.mappings if mapping.file and "x" in mapping.mode}
        for mapping in core.mappings:
            if mapping.path in code and mapping.offset == 0:
                # Of one that is mapped twice, the last has the code.
                self.starts[mapping.path] = mapping.start
        for path, start in self.starts.items():
            self._wanted[path] = build_id(
                lambda offset, size, start=start: core.bytes_at(start + offset, size)
            )
            self.here[path] = self._find(path)
        core.fill = self._fill

    def close(self):
        for descriptor in self._descriptors.values():
            if descriptor >= 0:
                os.close(descriptor)

    def _find(self, path):
        for candidate in self._candidates(path):
            is_elf, build = _of_file(candidate)
            if not is_elf:
                continue
            if self._wanted[path] is None or build == self._wanted[path]:
                return candidate
            if path not in self.others:
                self.others.append(path)
        return None

    def _candidates(self, path):
        if path == self._core.executable and self._executable is not None:
            yield self._executable
        if self.root is None:
            yield path
            return
        yield os.path.join(self.root, path.lstrip("/"))
        by_name, by_build = self._look_below()
        yield from by_name.get(base_name(path), ())
        if self._wanted[path] is not None:
            yield from by_build(self._wanted[path])

    def _look_below(self):
        """Files below the root: {name: paths}, and a function that finds those of a build id."""
        if self._below is None:
            names, builds = {}, {}
            left = _LOOKED_MOST
            for directory, _, files in os.walk(self.root):
                for name in files[:left]:
                    names.setdefault(name, []).append(os.path.join(directory, name))
                left -= len(files)
                if left <= 0:
                    break

            def by_build(build):
                if not builds:
                    for paths in names.values():
                        for path in paths:
                            if os.path.isfile(path):
                                builds.setdefault(_of_file(path)[1], []).append(path)
                return builds.get(build, ())

            self._below = names, by_build
        return self._below

    def _fill(self, path, offset, size):
        if path not in self._descriptors:
            file = self.here.get(path)
            try:
                self._descriptors[path] = os.open(file, os.O_RDONLY | os.O_CLOEXEC) if file else -1
            except OSError:
                self._descriptors[path] = -1
        descriptor = self._descriptors[path]
        try:
            return os.pread(descriptor, size, offset) if descriptor >= 0 else b""
        except (OSError, OverflowError):
            return b""
