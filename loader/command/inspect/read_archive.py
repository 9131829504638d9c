# SPDX-License-Identifier: BSD-2-Clause
"""Run by `homefree inspect` as `python -c`: answers questions about archives and distributions.

Questions come on stdin, answers go to stdout, both as fields that end with a zero byte; see
archive_reader.c. ELF files of an archive are written to descriptor 3, a file in memory. Nothing is
written to disk, whatever a member's name is. Archives are hostile: sizes, ratios, numbers and depth
are limited, and whatever goes wrong with a member is a line about that member.
"""

import sys

# A module of that name in the current directory must not stand in for the standard library's.
sys.path[:] = [directory for directory in sys.path if directory not in ("", ".")]

import errno  # noqa: E402
import io  # noqa: E402
import os  # noqa: E402
import posixpath  # noqa: E402
import re  # noqa: E402

MIB = 1 << 20
MEMBER_MAX = 4096 * MIB  # bytes of one member
SUM_MAX = 8192 * MIB  # bytes of all ELF files of an archive
RATIO_MAX, RATIO_FROM = (
    200,
    64 * MIB,
)  # bytes for each compressed one, for members from that size on
NESTED_MAX = 1024 * MIB  # bytes of an archive in an archive, which must be in memory as a whole
DEPTH_MAX = 3  # archives in archives
MEMBERS_MAX = 500_000
PROBLEMS_MAX = 20  # problems that are told of one archive
CHUNK = MIB
OUT = 3
NESTED = ".whl"
TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")


class Refused(Exception):
    """A member or an archive that is not read; the message says why."""


answer = bytearray()


def say(*fields):
    for field in fields:
        answer.extend(str(field).encode("utf-8", "surrogateescape").replace(b"\0", b"?") + b"\0")


def send():
    """Sends the whole answer at once."""
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()
    answer.clear()


def questions():
    pending = b""
    while True:
        part = os.read(0, 65536)
        if not part:
            return
        pending += part
        while b"\0" in pending:
            question, pending = pending.split(b"\0", 1)
            yield os.fsdecode(question)


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
    if isinstance(error, OSError) and error.errno == errno.EINVAL:  # an offset beyond the file
        return "it is damaged: it refers to what is not in the file"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"it is damaged: {text or type(error).__name__}"


class Archive:
    """One archive that was asked for, with the archives in it."""

    def __init__(self):
        os.ftruncate(OUT, 0)
        self.offset = 0
        self.limit = min(SUM_MAX, memory_left())
        self.problems = 0

    def problem(self, name, why):
        self.problems += 1
        if self.problems <= PROBLEMS_MAX:
            say("x", name, why)

    def end(self):
        if self.problems > PROBLEMS_MAX:
            say("x", "", f"{self.problems - PROBLEMS_MAX} more members cannot be inspected")

    def take(self, name, place, stream, start, size):
        """Copies an ELF file of which `start` has been read."""
        if size > MEMBER_MAX:
            raise Refused(f"it has {size} bytes; the limit is {MEMBER_MAX}")
        if self.offset + size > self.limit:
            raise Refused(
                f"the archive's shared objects need more than {self.limit // MIB} MiB of memory, "
                "which is the limit here"
            )
        at = self.offset
        written = 0
        part = start
        while part:
            written += len(part)
            if written > size:
                break
            view = memoryview(part)
            while view:
                view = view[os.pwrite(OUT, view, at + written - len(view)) :]
            part = stream.read(CHUNK)
        if written != size:
            raise Refused("its size is not what the archive says")
        # A page of its own for each member.
        self.offset = (at + size + 4095) // 4096 * 4096
        say("m", at, size, name, place)

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


def read_archive(path):
    archive = Archive()
    try:
        if path.lower().endswith(TARS):
            archive.tar(path)
        else:
            with open(path, "rb") as file:
                archive.zip(file)
    except Refused as error:
        say("x", "", str(error))
    except Exception as error:
        say("x", "", reason(error))
    archive.end()


def listed_files(distribution):
    """What its RECORD lists, or None. From Python 3.12 on, `files` leaves out what is not there."""
    import csv

    record = distribution.read_text("RECORD")
    if not record:
        return distribution.files
    return [line[0] for line in csv.reader(record.splitlines()) if line]


def has_objects(distribution):
    for file in listed_files(distribution) or ():
        path = distribution.locate_file(file)
        if re.search(r"\.so[\d.]*$", str(path)):
            return True
        try:
            with open(path, "rb") as opened:
                if opened.read(4) == b"\x7fELF":
                    return True
        except OSError:
            pass
    return False


def required_objects(distribution):
    """The installed distributions with shared objects that this one requires."""
    from importlib import metadata

    for line in distribution.requires or ():
        name = re.match(r"[\w.-]*", line)[0]
        try:
            if "extra" not in line.partition(";")[2] and has_objects(metadata.distribution(name)):
                yield name
        except (metadata.PackageNotFoundError, ValueError):
            pass


def read_package(name):
    import difflib
    from importlib import metadata

    try:
        found = metadata.distribution(name)
    except (metadata.PackageNotFoundError, ValueError):
        names = {one.metadata["Name"] or "" for one in metadata.distributions()}
        close = difflib.get_close_matches(name, sorted(names), 1)
        hint = f" (did you mean '{close[0]}'?)" if close else ""
        say("x", "", f"{sys.executable} has no distribution of this name{hint}")
        return
    files = listed_files(found)
    if files is None:
        say("x", "", "its RECORD, which lists its files, is missing; inspect its directory")
        return
    if not has_objects(found):
        others = "".join(f" --package {other}" for other in required_objects(found))
        hint = f"; what it requires has some: homefree inspect{others}" if others else ""
        say("x", "", "it has no shared objects" + hint)
        return
    for file in files:
        path = os.path.abspath(str(found.locate_file(file)))
        say("m", 0, 0, path, path)


def limit_self():
    """Hostile archives may make a decoder use more than it should."""
    import resource

    for what, most in ((resource.RLIMIT_AS, 4096 * MIB), (resource.RLIMIT_CPU, 1200)):
        hard = resource.getrlimit(what)[1]
        if hard == resource.RLIM_INFINITY or hard > most:
            resource.setrlimit(what, (most, hard))


def main():
    read = read_archive if sys.argv[1] == "a" else read_package
    limit_self()
    for question in questions():
        try:
            read(question)
        except Exception as error:
            say("x", "", reason(error))
        say(".")
        send()


main()
