# SPDX-License-Identifier: BSD-2-Clause
"""The record of a cached module: what it was built from. Lines of text, the last one `end`:

    homefree-record 1
    fast.cpython-311-x86_64-linux-gnu.so    the module, its identity(), and its SHA-256
    …
    …
    1                                       the number of compilers, with four lines for each:
    cc                                          the command, the file, its identity(), and the
    …                                           SHA-256 of its answer to --version
    /home/…/fast.c                          then three lines for each file that was read:
    …                                           path, identity(), SHA-256; and three for each
    …                                           path that was looked for and is ABSENT: no SHA-256
    end

Whoever writes one holds the module's lock. Threads: a Record belongs to one.
"""

import os

from ._compilers import version
from ._files import identity, replace, which

_FIRST = "homefree-record 1"


class Record:
    """What a module was built from. compilers: [(command, path, identity, version)]; files: [(path,
    identity, SHA-256)]."""

    def __init__(self, file, module, digest, compilers, files):
        self.file, self.module, self.digest = file, module, digest
        self.compilers, self.files = compilers, files

    @classmethod
    def read(cls, path):
        """The record in a file, or None if it is missing or damaged."""
        try:
            with open(path, "rb") as file:
                lines = os.fsdecode(file.read()).split("\n")
            first = 5 + 4 * int(lines[4])
            if lines[0] != _FIRST or lines[-1] != "end" or not 5 <= first < len(lines):
                return None
            compilers = [tuple(lines[i : i + 4]) for i in range(5, first, 4)]
            files = [tuple(lines[i : i + 3]) for i in range(first, len(lines) - 1, 3)]
            if (len(lines) - 1 - first) % 3 != 0 or os.path.basename(lines[1]) != lines[1]:
                return None
        except (OSError, IndexError, ValueError):
            return None
        return cls(*lines[1:4], compilers, files)

    def write(self, path):
        """Write the record to a file, atomically."""
        lines = [_FIRST, self.file, self.module, self.digest, str(len(self.compilers))]
        for group in (*self.compilers, *self.files):
            lines += group
        replace(path, "\n".join([*lines, "end"]))

    def refreshed(self, entry, hashes):
        """This record with the present identities, or None if any content differs."""
        try:
            path = f"{entry}/{self.file}"
            module = identity(path)
            if module != self.module and hashes.of(path) != self.digest:
                return None
            compilers = []
            for command, path, was, digest in self.compilers:
                found = which(command)
                if found is None:  # without a compiler, nothing else can be built
                    compilers.append((command, path, was, digest))
                    continue
                now = identity(found)
                if found != path or (now != was and version(command, path) != digest):
                    return None
                compilers.append((command, path, now, digest))
            files = []
            for path, was, digest in self.files:
                now = identity(path)
                if now != was and hashes.of(path) != digest:
                    return None
                files.append((path, now, digest))
        except (OSError, ValueError):  # ValueError: a path with a NUL, a command with half a quote
            return None
        return Record(self.file, module, self.digest, compilers, files)
