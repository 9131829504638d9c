# SPDX-License-Identifier: BSD-2-Clause
"""A core file, seen as memory_process.py shows a running process: mappings, memory, threads; and
what else it says: the signal, and the files that were mapped.

Linux writes core files, gdb's gcore and coredumpctl as well. Of what is not in one, because nobody
had changed it, the file that was mapped has the bytes (core_objects.py), if it is here.

Constraint: a core file may be cut off, and is hostile. Each number is checked; what overlaps or
lies outside of the file is an error. Nothing is read as a whole.

Owns: the descriptor of the file, until close(). One thread.
"""

import array
import bisect
import os
import struct
from collections import namedtuple

from .core_objects import segments
from .memory_process import PAGE, Mapping
from .start import Failure

_SEGMENTS_MOST = 1 << 17
_NOTES_MOST = 64 << 20
HEADER, SEGMENT = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQQQ")
_LOAD, _NOTE = 1, 4
_CORE = 4
_PRSTATUS, _PRPSINFO, _AUXV = 1, 3, 6
_FILE, _SIGINFO = 0x46494C45, 0x53494749
_SYSINFO_EHDR, _EXECFN, _ENTRY = 33, 31, 9
_BRK_FAR = 2 << 30  # how far from the program the kernel puts what brk(2) gives
# By machine: name, bytes of pr_reg, its registers, and those that are not for data.
X86_64 = (
    *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx"),
    *("rsi", "rdi", "orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base"),
)
AARCH64 = (*(f"x{number}" for number in range(31)), "sp", "pc")
MACHINES = {62: ("x86-64", X86_64, "rip", "rsp"), 183: ("aarch64", AARCH64, "pc", "sp")}

# In Linux's struct ucontext of x86-64, from its word 5 on.
CONTEXT = (
    *("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi", "rbp", "rbx", "rdx"),
    *("rax", "rcx", "rsp", "rip", "eflags"),
)

Thread = namedtuple("Thread", "id registers pc sp")
_Segment = namedtuple("_Segment", "start end flags offset size")  # size: bytes in the file


def _damaged(why):
    return Failure(f"the core file is damaged: {why}")


def signal_of(information):
    """(number, code, address) of a siginfo_t; address: None where it has none."""
    if len(information) < 24:
        return 0, None, None
    number, _, code, address = struct.unpack_from("<iiixxxxQ", information)
    # Others have the sender's number there.
    faults = number in (4, 7, 8, 11) and 0 < code != 0x80
    return number, code, address if faults else None


class Memory:
    """What a process that died and one that is dying have in common: `mappings`, words_at() and
    threads_all."""

    def split(self, at):
        """Makes two mappings of one; the second has no name."""
        number = self.mapping_number(at)
        each = self.mappings[number]
        there = max(min(each.rss, at - each.start), 0)
        self.mappings[number : number + 1] = [
            each._replace(end=at, rss=there, anonymous=there),
            each._replace(start=at, path="", rss=each.rss - there, anonymous=each.rss - there),
        ]

    def mapping_number(self, address):
        """Which mapping has an address; -1: none."""
        number = bisect.bisect_right(self.mappings, (address, 1 << 65)) - 1
        return number if number >= 0 and address < self.mappings[number].end else -1

    def mapping_at(self, address):
        number = self.mapping_number(address)
        return self.mappings[number] if number >= 0 else None

    def threads(self):
        return {each.id: each.sp for each in self.threads_all}

    def word(self, address):
        """None: unknown."""
        words = self.words_at(address, 1)
        return words[0] if words else None


class Core(Memory):
    """readable, mappings, bytes_at(), ...: memory_process.Process's. threads_all: the one that died
    comes first. signal, code, address: of the signal's siginfo; code and address are None where
    there is none. fill: a function that gives the bytes of a mapped file, of a path, an offset and
    a size."""

    readable = True

    def __init__(self, path):
        self.path, self.pid, self.name = path, 0, None
        self.fill = lambda path, offset, size: b""
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise Failure(f"cannot open '{path}': {error.strerror}") from None
        try:
            self._size = os.fstat(self._file).st_size
            self._read()
        except (struct.error, ValueError, OverflowError):
            self.close()
            raise _damaged("its notes make no sense") from None
        except BaseException:
            self.close()
            raise

    def close(self):
        os.close(self._file)

    # ---- the file --------------------------------------------------------------------------------

    def _at(self, offset, size):
        try:
            data = os.pread(self._file, size, offset)
        except (OSError, OverflowError):
            data = b""
        if len(data) != size:
            raise _damaged("it is cut off")
        return data

    def _read(self):
        if self._size < HEADER.size:
            raise Failure(f"'{self.path}' is no core file")
        head = HEADER.unpack(self._at(0, HEADER.size))
        identity, kind, machine, table, rows = head[0], head[1], head[2], head[5], head[10]
        if identity[:4] != b"\x7fELF" or kind != _CORE:
            raise Failure(f"'{self.path}' is no core file")
        if identity[4:6] != b"\2\1" or machine not in MACHINES:
            raise Failure("the core file is of another machine than x86-64 and aarch64")
        self.machine, self._names, self._pc, self._sp = MACHINES[machine]
        if rows == 0xFFFF:  # more than fit there
            rows = struct.unpack("<I", self._at(head[6] + 44, 4))[0]
        if rows > _SEGMENTS_MOST or head[9] != SEGMENT.size:
            raise _damaged("its table of segments makes no sense")
        segments, notes = [], []
        for row in SEGMENT.iter_unpack(self._at(table, rows * SEGMENT.size)):
            kind, flags, offset, start, _, size, memory, _ = row
            if kind not in (_LOAD, _NOTE) or (kind == _LOAD and not memory):
                continue
            if offset + size > self._size:
                raise _damaged(f"it is cut off: it has {self._size} bytes of {offset + size}")
            if kind == _NOTE:
                notes.append((offset, size))
                continue
            end = start + memory
            if size > memory or start % PAGE or end > 1 << 64:
                raise _damaged("a segment makes no sense")
            segments.append(_Segment(start, end, flags, offset, size))
        self._check(segments)
        self.threads_all, self._files, self._auxiliary, self.mappings = [], [], {}, []
        self.signal, self.code, self.address = 0, None, None
        for offset, size in notes[:16]:
            if size > _NOTES_MOST:
                raise _damaged("its notes make no sense")
            self._take_notes(self._at(offset, size))
        if not self.threads_all or not segments:
            raise _damaged("it has no thread and no memory")
        self._map()

    def _check(self, segments):
        segments.sort()
        for one, next_ in zip(segments, segments[1:]):
            if one.end > next_.start:
                raise _damaged("its segments overlap")
        end = 0
        for each in sorted(segments, key=lambda each: each.offset):
            if each.size and each.offset < end:
                raise _damaged("its segments overlap")
            end = max(end, each.offset + each.size)
        self._segments, self._starts = segments, [each.start for each in segments]

    def _take_notes(self, data):
        at = 0
        while at + 12 <= len(data):
            name, size, kind = struct.unpack_from("<III", data, at)
            start = at + 12 + (name + 3 & ~3)
            owner, at = data[at + 12 : at + 12 + name].rstrip(b"\0"), start + (size + 3 & ~3)
            if start + size > len(data):
                raise _damaged("its notes make no sense")
            if owner != b"CORE":
                continue
            note = data[start : start + size]
            if kind == _PRSTATUS:
                self._take_thread(note)
            elif kind == _PRPSINFO and self.name is None:
                self.pid = struct.unpack_from("<I", note, 24)[0]
                self.name = os.fsdecode(note[40:56].split(b"\0")[0])
            elif kind == _SIGINFO and self.code is None and size >= 24:
                self.signal, self.code, self.address = signal_of(note)
            elif kind == _AUXV:
                pairs = array.array("Q", note[: len(note) // 16 * 16])
                self._auxiliary = dict(zip(pairs[::2], pairs[1::2]))
            elif kind == _FILE:
                self._take_files(note)

    def _take_thread(self, note):
        values = struct.unpack_from(f"<{len(self._names)}Q", note, 112)
        registers = dict(zip(self._names, values))
        number = struct.unpack_from("<I", note, 32)[0]
        if not self.threads_all:
            self.signal = struct.unpack_from("<h", note, 12)[0]
        self.threads_all.append(Thread(number, registers, registers[self._pc], registers[self._sp]))

    def _take_files(self, note):
        count, page = struct.unpack_from("<QQ", note)
        if count > _SEGMENTS_MOST or 16 + 24 * count > len(note) or page > 1 << 20:
            raise _damaged("its list of files makes no sense")
        names = note[16 + 24 * count :].split(b"\0")
        if len(names) < count:
            raise _damaged("its list of files makes no sense")
        for number in range(count):
            start, end, offset = struct.unpack_from("<QQQ", note, 16 + 24 * number)
            self._files.append((start, end, offset * page, os.fsdecode(names[number])))
        self._files.sort()

    # ---- mappings --------------------------------------------------------------------------------

    def _map(self):
        numbers, starts, self.mappings = {}, [each[0] for each in self._files], []
        for each in [*self._segments, *self._not_here()]:
            row = bisect.bisect_right(starts, each.start) - 1
            path, offset, file, deleted = "", 0, None, False
            if row >= 0 and each.start < self._files[row][1]:
                start, _, offset, path = self._files[row]
                offset += each.start - start
                deleted = path.endswith(" (deleted)")
                path = path[: -len(" (deleted)")] if deleted else path
                file = numbers.setdefault(path, (b"core", len(numbers)))
            mode = "".join(
                letter if each.flags & bit else "-"
                for bit, letter in ((4, "r"), (2, "w"), (1, "x"))
            )
            self.mappings.append(
                Mapping(
                    *(each.start, each.end, f"{mode}p", offset, file, path, deleted),
                    *(each.size, each.size, 0),
                )
            )
        self.mappings.sort(key=lambda each: each.start)
        self._name_kernels()

    def _not_here(self):
        """What of mapped files has no segment: gdb leaves out what nobody changed. It may be read;
        what the file's header says of it is its flags."""
        ends = [each.end for each in self._segments]
        flags = {}
        for start, end, offset, path in self._files:
            if offset == 0 and path not in flags:
                flags[path] = self._flags(start)
            while start < end:
                number = bisect.bisect_right(ends, start)
                next_ = self._starts[number] if number < len(ends) else end
                if start < next_:
                    bits = flags.get(path, {}).get(offset // PAGE, 4)
                    yield _Segment(start, min(next_, end), bits, 0, 0)
                if number == len(ends):
                    break
                offset += ends[number] - start
                start = ends[number]

    def _flags(self, start):
        """{page of the file: flags} of the segments of the ELF file that begins at an address."""
        found = segments(lambda offset, size: self.bytes_at(start + offset, size))
        return {offset // PAGE: bits for kind, bits, offset, _ in found if kind == _LOAD}

    def _name_kernels(self):
        """What has no file, but a name in /proc."""
        named = {self.mapping_number(self._auxiliary.get(_EXECFN, 0)): "[stack]"}
        vdso = self.mapping_number(self._auxiliary.get(_SYSINFO_EHDR, 0))
        named[vdso] = "[vdso]"
        entry = self.mapping_at(self._auxiliary.get(_ENTRY, 0))
        self.executable = entry.path if entry is not None and entry.file is not None else None
        for number, mapping in enumerate(self.mappings):
            if mapping.start >= 1 << 63:
                named[number] = "[vsyscall]"
            elif number == vdso - 1 and mapping.mode[1:] == "--p" and not mapping.path:
                named[number] = "[vvar]"
        for number, name in named.items():
            if number >= 0 and not self.mappings[number].path:
                self.mappings[number] = self.mappings[number]._replace(path=name)
        self._name_break()

    def _name_break(self):
        """What brk(2) gave follows the program, a random distance behind it."""
        ends = [each.end for each in self.mappings if each.path == self.executable]
        if not ends or self.executable is None:
            return
        for number, each in enumerate(self.mappings):
            if each.start < max(ends) or each.path:
                continue
            words = self.words_at(each.start, 2)
            begins = len(words) == 2 and words[0] == 0 and words[1] & 7 == 1 and words[1] < 1 << 20
            if each.start == max(ends) and not begins:  # zeroed data of the program
                continue
            if each.start - max(ends) < _BRK_FAR and each.mode == "rw-p":
                self.mappings[number] = each._replace(path="[heap]")
            return

    # ---- as of a process -------------------------------------------------------------------------

    def bytes_at(self, address, size):
        """`size` bytes, or b"" if one of them is unknown."""
        parts = []
        while size > 0:
            number = bisect.bisect_right(self._starts, address) - 1
            segment = self._segments[max(number, 0)]
            inside = address - segment.start
            if number >= 0 and inside < segment.size:
                part = os.pread(
                    self._file, min(size, segment.size - inside), segment.offset + inside
                )
            else:
                part = self._of_file(address, size)
            if not part:
                return b""
            parts.append(part)
            address += len(part)
            size -= len(part)
        return b"".join(parts)

    def _of_file(self, address, size):
        mapping = self.mapping_at(address)
        if mapping is None or mapping.file is None:
            return b""
        offset = mapping.offset + address - mapping.start
        return self.fill(mapping.path, offset, min(size, mapping.end - address))

    def words_at(self, address, count):
        """Words; fewer if not all are known."""
        data = self.bytes_at(address, 8 * count)
        if not data:
            number = bisect.bisect_right(self._starts, address) - 1
            if number >= 0 and address < self._segments[number].end:
                there = self._segments[number].start + self._segments[number].size - address
                data = self.bytes_at(address, there // 8 * 8) if 8 <= there < 8 * count else b""
        return array.array("Q", data)

    def present(self, start, end):
        """A byte for each page, 1 if it is in the core file and no hole of it."""
        pages = bytearray((end - start) // PAGE)
        number = max(bisect.bisect_right(self._starts, start) - 1, 0)
        while number < len(self._segments) and self._segments[number].start < end:
            segment = self._segments[number]
            first = max(start, segment.start)
            last = min(end, segment.start + segment.size)
            shift = segment.offset - segment.start
            while first < last:
                try:
                    data = os.lseek(self._file, first + shift, os.SEEK_DATA) - shift
                    hole = os.lseek(self._file, data + shift, os.SEEK_HOLE) - shift
                except OSError:
                    break
                if data >= last:
                    break
                low, high = (
                    (max(data, first) - start) // PAGE,
                    -(-(min(hole, last) - start) // PAGE),
                )
                pages[low:high] = b"\1" * (high - low)
                first = max(hole, first + PAGE)
            number += 1
        return bytes(pages)
