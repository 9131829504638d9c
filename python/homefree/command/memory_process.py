# SPDX-License-Identifier: BSD-2-Clause
"""A running process as /proc shows it to `homefree memory` and homefree.memory(): its mappings with
what of each is resident, its threads and its memory.

Constraint: the process changes while it is looked at, may end at any moment, and is hostile. So
/proc/PID is opened once, everything is read below that directory, and what cannot be read is
unknown. Nothing is written to the process, and nothing in it is stopped or asked.

Owns: the descriptors, until close(). One thread.
"""

import array
import os
import re
from collections import namedtuple

PAGE = os.sysconf("SC_PAGESIZE")
_SMAPS_MOST = 1 << 28
_PART = 1 << 20  # file.read() has room for all that it is asked for
_PAGES_AT_ONCE = 1 << 17
_PRESENT = bytes(128) + b"\1" * 128  # by the top byte of an entry, whose top bit says so
_HEADER = rb"^([0-9a-f]+)-([0-9a-f]+) (....) ([0-9a-f]+) ([0-9a-f]+:[0-9a-f]+) (\d+)[ \t]*(.*)$"
_LINE = re.compile(_HEADER + rb"|^(Rss|Anonymous|Swap):[ \t]+(\d+) kB$", re.MULTILINE)
_DELETED = " (deleted)"

# path: "" where there is none. file: device and inode, None of what is no file. swap: bytes that
# are not resident.
Mapping = namedtuple("Mapping", "start end mode offset file path deleted rss anonymous swap")


class Gone(Exception):
    """The process cannot be looked at; the text says why."""


def _path_of(raw, inode):
    """The kernel writes a newline as \\012, and says what has no name any more."""
    path = os.fsdecode(raw).replace("\\012", "\n")
    deleted = inode != 0 and path.endswith(_DELETED)
    return (path[: -len(_DELETED)] if deleted else path), deleted


def _parse(text):
    mappings, header, sizes = [], None, {}

    def end():
        if header is None:
            return
        start, stop, mode, offset, device, inode, path = header
        start, stop, inode = int(start, 16), int(stop, 16), int(inode)
        if start >= stop or (mappings and start < mappings[-1].end):
            return  # the process changed it between two pages of the text
        path, deleted = _path_of(path, inode)
        mappings.append(
            Mapping(
                start,
                stop,
                mode.decode("ascii", "replace"),
                int(offset, 16),
                (device, inode) if inode else None,
                path,
                deleted,
                sizes.get(b"Rss", 0),
                sizes.get(b"Anonymous", 0),
                sizes.get(b"Swap", 0),
            )
        )

    for match in _LINE.finditer(text):
        if match[8] is not None:
            sizes[match[8]] = int(match[9]) * 1024
            continue
        end()
        header, sizes = match.groups()[:7], {}
    end()
    return mappings


class Process:
    """pid: its number, or "self". readable: whether its memory can be read."""

    def __init__(self, pid="self"):
        self._directory = self._memory = self._pages = -1
        self.pid = os.getpid() if pid == "self" else int(pid)
        try:
            self._directory = os.open(f"/proc/{pid}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            self.mappings = _parse(self.read("smaps", _SMAPS_MOST))
        except OSError as error:
            self.close()
            raise Gone(self._why(error)) from None
        self._memory = self._open("mem")
        self._pages = self._open("pagemap")
        self.readable = self._memory >= 0
        if not self.mappings:
            self.close()
            raise Gone(f"process {self.pid} has no memory: it has ended, or is the kernel's")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for descriptor in (self._directory, self._memory, self._pages):
            if descriptor >= 0:
                os.close(descriptor)
        self._directory = self._memory = self._pages = -1

    def _why(self, error):
        if isinstance(error, PermissionError):
            return (
                f"process {self.pid} may not be examined: run this command as root, or as the user "
                "of the process if it has no privileges of its own"
            )
        if not os.path.exists("/proc/self/stat"):
            return "/proc is not mounted, and nothing else shows a process"
        if isinstance(error, (FileNotFoundError, ProcessLookupError)):
            return f"there is no process {self.pid}"
        return f"cannot examine process {self.pid}: {error.strerror}"

    def _open(self, name):
        try:
            return os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._directory)
        except OSError:
            return -1

    # ---- texts -------------------------------------------------------------------------------

    def read(self, name, most=1 << 16):
        """The bytes of one of its files. OSError."""
        flags = os.O_RDONLY | os.O_CLOEXEC
        with open(os.open(name, flags, dir_fd=self._directory), "rb") as file:
            parts = []
            while most > 0 and (part := file.read(min(most, _PART))):
                parts.append(part)
                most -= len(part)
            return b"".join(parts)

    def status(self):
        """{name: value}, both as /proc/PID/status has them; empty if it cannot be read."""
        try:
            text = self.read("status").decode("utf-8", "replace")
        except OSError:
            return {}
        return dict(line.split(":\t", 1) for line in text.split("\n") if ":\t" in line)

    def program(self):
        """The file that it runs; "" if that is unknown."""
        try:
            return os.readlink("exe", dir_fd=self._directory)
        except OSError:
            return ""

    def threads(self):
        """{number: stack pointer, 0 if it is unknown}."""
        try:
            found = os.open("task", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._directory)
        except OSError:
            return {}
        try:
            return {int(name): self._stack_pointer(name) for name in os.listdir(found)}
        except OSError:
            return {}
        finally:
            os.close(found)

    def _stack_pointer(self, thread):
        try:
            words = self.read(f"task/{thread}/syscall", 512).split()
        except OSError:
            return 0
        return int(words[-2], 16) if len(words) >= 3 else 0  # "running", or its stack and its place

    # ---- memory ------------------------------------------------------------------------------

    def bytes_at(self, address, size):
        """`size` bytes, or b"" if one of them cannot be read."""
        try:
            got = os.pread(self._memory, size, address)
        except (OSError, OverflowError):
            return b""
        return got if len(got) == size else b""

    def words_at(self, address, count):
        """Words; fewer if not all can be read."""
        try:
            got = os.pread(self._memory, 8 * count, address)
        except (OSError, OverflowError):
            got = b""
        return array.array("Q", got[: len(got) // 8 * 8])

    def present(self, start, end):
        """A byte for each page, 1 if it is resident; b"" if that is unknown."""
        parts = []
        for at in range(start // PAGE, end // PAGE, _PAGES_AT_ONCE):
            count = min(_PAGES_AT_ONCE, end // PAGE - at)
            try:
                got = os.pread(self._pages, 8 * count, 8 * at)
            except (OSError, OverflowError):
                return b""
            if len(got) != 8 * count:
                return b""
            parts.append(got[7::8].translate(_PRESENT))
        return b"".join(parts)
