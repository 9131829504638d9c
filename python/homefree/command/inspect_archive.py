# SPDX-License-Identifier: BSD-2-Clause
"""Reads the shared objects of an archive into memory, in the reader's process
(inspect_reader.py).

Nothing is written to disk, whatever a member's name is. Archives are hostile: sizes, ratios,
numbers and depth are limited, and whatever goes wrong with a member is a problem of that member.
Contents go to a file in memory, which the caller gives and which the next archive overwrites.

State: what is kept of an archive while it is read. One thread.
"""

import io
import os
import posixpath
from errno import EINVAL

from . import inspect_platforms
from .binary import write_at

MIB = 1 << 20
MEMBER_MAX = 4096 * MIB  # bytes of one member
SUM_MAX = 8192 * MIB  # bytes of all ELF files of an archive
RATIO_MAX = 200  # bytes for each compressed one, for members
RATIO_FROM = 64 * MIB  # from that size on
NESTED_MAX = 1024 * MIB  # bytes of an archive in an archive, which must be in memory as a whole
DEPTH_MAX = 3  # archives in archives
MEMBERS_MAX = 500_000
PROBLEMS_MAX = 20  # problems that are told of one archive
CHUNK = MIB
NESTED = ".whl"


class Refused(Exception):
    """A member or an archive that is not read; the message says why."""


def memory_left():
    """Bytes that this machine can give to a file in memory without swapping everything else out."""
    try:
        with open("/proc/meminfo", "rb") as file:
            for line in file:
                if line.startswith(b"MemAvailable:"):
                    return int(line.split()[1]) * 1024 * 3 // 4
    except (OSError, ValueError, IndexError):
        pass
    return SUM_MAX


def place_of(name):
    """Where an installer puts a member, relative to site-packages: a wheel's *.data/platlib goes
    there as well. A name that climbs out stays as it is: no library is found by it."""
    parts = name.split("/")
    if len(parts) > 2 and parts[0].endswith(".data") and parts[1] in ("platlib", "purelib"):
        parts = parts[2:]
    place = posixpath.normpath("/".join(parts)).lstrip("/")
    return name if place.startswith("..") else place


def reason(error):
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError):
        return "it needs more memory than the reader may use"
    if isinstance(error, EOFError):
        return "the archive ends within it"
    if isinstance(error, OSError) and error.errno == EINVAL:  # an offset beyond the file
        return "it is damaged: it refers to what is not in the file"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"it is damaged: {text or type(error).__name__}"


class Archive:
    """One archive that was asked for, with the archives in it."""

    def __init__(self, memory):
        os.ftruncate(memory, 0)
        self.members = []
        self.others = []
        self.problems = []
        self._memory = memory
        self._offset = 0
        self._limit = min(SUM_MAX, memory_left())
        self._more_problems = 0

    def read(self, path, is_tar):
        try:
            if is_tar:
                self.tar(path)
            else:
                with open(path, "rb") as file:
                    self.zip(file)
        except Refused as error:
            self.problem("", str(error))
        except Exception as error:
            self.problem("", reason(error))
        if self._more_problems:
            more = f"{self._more_problems} more members cannot be inspected"
            self.problems.append(("", more))

    def problem(self, name, why):
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append((name, why))
        else:
            self._more_problems += 1

    def take(self, name, place, stream, start, size):
        """Copies an ELF file of which `start` has been read."""
        if size > MEMBER_MAX:
            raise Refused(f"it has {size} bytes; the limit is {MEMBER_MAX}")
        if self._offset + size > self._limit:
            raise Refused(
                f"the archive's shared objects need more than {self._limit // MIB} MiB of memory, "
                "which is the limit here"
            )
        at = self._offset
        written = 0
        part = start
        while part:
            written += len(part)
            if written > size:
                break
            view = memoryview(part)
            while view:
                view = view[write_at(self._memory, view, at + written - len(view)) :]
            part = stream.read(CHUNK)
        if written != size:
            raise Refused("its size is not what the archive says")
        # A page of its own for each member.
        self._offset = (at + size + 4095) // 4096 * 4096
        self.members.append((name, place, at, size))

    def member(self, prefix, name, stream, size, compressed, depth):
        """Looks at one member, whose contents begin at the stream's position."""
        start = stream.read(min(4, size))
        if name.lower().endswith(NESTED) and start[:2] == b"PK":
            if depth >= DEPTH_MAX:
                raise Refused("archives this deep in archives are not opened; inspect it by itself")
            if size > NESTED_MAX:
                raise Refused(f"an archive in an archive may have {NESTED_MAX // MIB} MiB")
            check_ratio(size, compressed)
            inner = io.BytesIO(start + stream.read(size))
            self.zip(inner, f"{prefix}{name}!/", depth + 1)
        elif start == b"\x7fELF":
            check_ratio(size, compressed)
            self.take(prefix + name, prefix + place_of(name), stream, start, size)
        elif inspect_platforms.is_object(start, name):
            check_ratio(size, compressed)
            self.look(prefix + name, stream, start, size)

    def look(self, name, stream, start, size):
        """Looks at an object for macOS or Windows. Its bytes do not stay: the next member's take
        their place."""
        self.take(name, name, stream, start, size)
        _, _, self._offset, _ = self.members.pop()
        try:
            found = inspect_platforms.inspect(self._memory, self._offset, size, name)
        except inspect_platforms.NoObject:
            found = None
        except inspect_platforms.Damaged as why:
            raise Refused(f"it is damaged: {why}") from None
        finally:
            os.ftruncate(self._memory, self._offset)
        self.others.append((name, found))

    def zip(self, file, prefix="", depth=0):
        import zipfile

        try:
            archive = zipfile.ZipFile(file)
        except zipfile.BadZipFile:
            raise Refused("it is no zip archive, or it was cut short") from None
        except UnicodeDecodeError:
            raise Refused("it is damaged: a name in it is not UTF-8") from None
        with archive:
            members = archive.infolist()
            if len(members) > MEMBERS_MAX:
                raise Refused(f"it has {len(members)} members; the limit is {MEMBERS_MAX}")
            seen = set()
            for member in members:
                if member.is_dir():
                    continue
                name = member.filename
                if name in seen:
                    self.problem(
                        prefix + name,
                        "the archive has two members of this name; which one is installed depends "
                        "on the installer",
                    )
                seen.add(name)
                try:
                    if member.flag_bits & 1:
                        raise Refused("it is encrypted")
                    with archive.open(member) as stream:
                        self.member(
                            prefix, name, stream, member.file_size, member.compress_size, depth
                        )
                except Refused as error:
                    self.problem(prefix + name, str(error))
                except Exception as error:  # whatever a decoder thinks of damaged data
                    self.problem(prefix + name, reason(error))

    def tar(self, path):
        import tarfile

        total, packed = 0, os.path.getsize(path)
        with tarfile.open(path, mode="r|*") as archive:
            for count, member in enumerate(archive):
                total += max(member.size, 0)
                if total > 2 * SUM_MAX:
                    raise Refused(f"it holds more than {2 * SUM_MAX} bytes")
                check_ratio(total, packed)
                if count >= MEMBERS_MAX:
                    raise Refused(f"it has more than {MEMBERS_MAX} members")
                if not member.isreg():
                    continue
                try:
                    stream = archive.extractfile(member)
                    self.member("", member.name, stream, member.size, member.size, 0)
                except Refused as error:
                    self.problem(member.name, str(error))


def check_ratio(size, compressed):
    if size > RATIO_FROM and size > RATIO_MAX * max(compressed, 1):
        raise Refused(
            f"{size} bytes of {compressed} compressed ones: no shared object expands that much"
        )
