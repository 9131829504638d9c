# SPDX-License-Identifier: BSD-2-Clause
"""A process in the handler of the signal by which it dies, as core_file.py shows one that has died:
libhomefree-explain.so started this one, and waits (satellites/explain/explain.c).

Owns: the descriptors of both, until close(). One thread.
"""

import os
import struct

from . import memory_process
from .core_file import CONTEXT, HEADER, MACHINES, SEGMENT, Memory, Thread, signal_of
from .start import Failure

_STACK_MOST = 8 << 20
# Of the machine: its number in ELF files; where ucontext_t has the registers, and which they are.
_CONTEXTS = {
    "x86_64": (62, 40, *CONTEXT),
    "aarch64": (183, 184, *(f"x{number}" for number in range(31)), "sp", "pc"),
}


class Dying(memory_process.Process, Memory):
    """place: the numbers of process, thread and signal, and where the signal's information, its
    registers and the thread's record are."""

    def __init__(self, place):
        try:
            pid, thread, self.signal, information, context, record = map(int, place.split(":"))
            super().__init__(thread)  # the main one may have ended
        except ValueError:
            raise Failure("--crash takes six numbers") from None
        except memory_process.Gone as why:
            raise Failure(str(why)) from None
        self._core, self.pid = -1, pid
        number, at, *names = _CONTEXTS.get(os.uname().machine, (0, 0))
        if number == 0:
            raise Failure("this machine is neither x86-64 nor aarch64")
        self.machine, _, pc, sp = MACHINES[number]
        words = self.words_at(context + at, len(names))
        if len(words) < len(names):
            raise Failure(f"cannot read the memory of process {pid}")
        registers = dict(zip(names, words))
        if number == 62:
            registers["fs_base"] = record
        self.threads_all = [Thread(thread, registers, registers[pc], registers[sp])]
        self.signal, self.code, self.address = signal_of(self.bytes_at(information, 24))
        self.executable = self.name = self.program()
        self.fill = None
        self._write_core(number, record)

    def threads(self):
        return {**super().threads(), **Memory.threads(self)}

    def _write_core(self, machine, record):
        """What the unwinder needs of a core file: the registers, and the stack."""
        thread = self.threads_all[0]
        names = MACHINES[machine][1]
        registers = (thread.registers.get(name, 0) for name in names)
        size = 112 + 8 * max(len(names), 34 if machine == 183 else 27) + 8
        status = bytearray(size)
        struct.pack_into("<h", status, 12, self.signal)
        struct.pack_into("<I", status, 32, thread.id)
        struct.pack_into(f"<{len(names)}Q", status, 112, *registers)
        process = struct.pack("<24xI108x", self.pid)
        note = b"".join(
            struct.pack("<III8s", 5, len(each), kind, b"CORE") + each
            for kind, each in ((3, process), (1, status))
        )
        page, stacks = memory_process.PAGE, self._stacks(record)
        table = HEADER.size
        notes = table + (1 + len(stacks)) * SEGMENT.size
        at = -(-(notes + len(note)) // page) * page
        head = HEADER.pack(
            *(b"\x7fELF\2\1\1".ljust(16, b"\0"), 4, machine, 1, 0, table, 0, 0),
            *(64, 56, 1 + len(stacks), 0, 0, 0),
        )
        rows = SEGMENT.pack(4, 4, notes, 0, 0, len(note), 0, 4)
        self._core = os.memfd_create("homefree")
        for start, end in stacks:
            data = self.bytes_at(start, end - start)
            rows += SEGMENT.pack(1, 6, at, start, 0, len(data), len(data), page)
            os.pwrite(self._core, data, at)
            at += len(data)
        os.pwrite(self._core, head + rows + note, 0)
        self.path = f"/proc/self/fd/{self._core}"

    def _stacks(self, record):
        """Where the thread's stack may be: it may be on that for signals, and its record lies at
        the end of its own."""
        sp = self.threads_all[0].sp
        found = {self.mapping_at(sp), self.mapping_at(record)}
        found.update(mapping for mapping in self.mappings if mapping.path == "[stack]")
        return [
            (max(mapping.start, min(sp & -4096, mapping.end) - 4096)
             if mapping.start <= sp < mapping.end else max(mapping.start, mapping.end -
             _STACK_MOST), mapping.end)
            for mapping in sorted(found - {None})
        ]  # fmt: skip

    def close(self):
        super().close()
        if getattr(self, "_core", -1) >= 0:
            os.close(self._core)
            self._core = -1
