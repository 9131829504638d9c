# SPDX-License-Identifier: BSD-2-Clause
"""Which pointer an allocator was given when the process died, and who gave it, by the frames and
registers of the thread.

A pointer is told only if something says that it is the one: the allocator's own message; the
instruction in front of the call, if the allocator has the value, too; or that of all registers of
the allocator's frames only one holds what its complaint can be about.

State: none.
"""

import re
from collections import namedtuple

from .terminal import base_name

Frame = namedtuple("Frame", "pc object symbol registers")
# inner, outer: numbers of the allocator's outermost frame and of who called it. function: what was
# called.
Call = namedtuple("Call", "inner outer function")

_PREFIX = r"(?:__libc_|__GI___libc_|\w*je_|mi_|tc_|rp|sn_|scalable_|hf_|TCMallocInternal|do_)?"
FREEING = re.compile(
    rf"{_PREFIX}(?:c?free(?:_sized|_aligned_sized|_size|_aligned|_default)?|reallocf?|reallocarray"
    r"|s?dallocx|rallocx|Free\w*|Delete\w*|Realloc\w*|delete\w*)|_Zd[la]Pv\w*|operator delete.*|PyMem_(?:Raw)?(?:Free|Realloc)"
    r"|PyObject_(?:Free|Realloc)|_Py(?:Mem|Object)_\w*(?:Free|Realloc)|g_free"
)
ALLOCATING = re.compile(
    rf"{_PREFIX}(?:malloc|calloc|valloc|memalign|posix_memalign|aligned_alloc|mallocx|Malloc\w*)"
    r"|_Zn[wa]m\w*|operator new.*|PyMem_(?:Raw)?[MC]alloc|PyObject_[MC]alloc"
)
_SAID = re.compile(
    rb"(?:homefree: fatal: |Attempt to (?:free|realloc) invalid pointer |mimalloc: error: )"
    rb"[\x20-\x7e]{0,300}"
)
_NUMBER = re.compile(r"0x([0-9a-f]{4,16})\b")
_LEAPT_MOST = 6  # frames between two of an allocator that can be told by name
_SAID_MOST = 256 << 10
_STACK_MOST = 1 << 20
_X86 = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", *(f"r{n}" for n in range(8, 16)))
_PRESERVED = {"rbx", "rbp", "rsp", "r12", "r13", "r14", "r15"}
_LIBC = re.compile(r"libc(?:-2\.\d+)?\.so(?:\.6)?|ld-linux-[\w-]+\.so\.\d+|libpthread(?:-2\.\d+)?\.so.*")


def is_libc(path):
    return path is not None and _LIBC.fullmatch(base_name(path)) is not None


def find_call(frames, allocators_in):
    """The Call by which an allocator was entered that the process died in; None: it died elsewhere.
    allocators_in: a function of an object's path."""
    last = None
    for number, frame in enumerate(frames):
        symbol = frame.symbol or ""
        if FREEING.fullmatch(symbol) or ALLOCATING.fullmatch(symbol):
            last = number
        elif not _inside(frame, allocators_in) or (last is not None and number > last + _LEAPT_MOST):
            break
    if last is not None and last + 1 < len(frames):
        return Call(last, last + 1, frames[last].symbol)
    return None


def _inside(frame, allocators_in):
    """Whether a frame may be between an allocator's entry and its end: the signal's handler, libc's
    way to abort, and functions of allocators that have no name."""
    if frame.object is None or frame.object == "[vdso]" or is_libc(frame.object):
        return True
    if re.match(r"faulthandler_|_Py_(?:Dump|Fatal|FatalError)|fatal_error", frame.symbol or ""):
        return True
    return bool(allocators_in(frame.object))


def said(core, libc_message, sp):
    """What the allocator said when it ended the process; None. libc_message: the address of libc's
    __abort_msg, which has what libc said."""
    pointer = core.word(libc_message) if libc_message else None
    if pointer:
        text = core.bytes_at(pointer + 4, 200) or core.bytes_at(pointer + 4, 64)
        text = text.split(b"\0")[0].decode("utf-8", "replace").strip()
        if text:
            return text
    mapping = core.mapping_at(sp)
    if mapping is None:
        return None
    data = core.bytes_at(sp, min(mapping.end - sp, _SAID_MOST))
    found = _SAID.search(data)
    return found[0].decode().strip() if found else None


class Search:
    """For the pointer that a Call was about. known: a function that says of an address what it is:
    "memory", "data", "stack", "its" (memory that the allocator has given, or its books), None: what is
    no block. cached: whether libc has an address in a thread's cache."""

    def __init__(self, core, frames, call, message, known, cached):
        self._core, self._frames, self._call = core, frames, call
        self._message, self._known = message or "", known
        self._in_libc = is_libc(frames[call.inner].object)
        tests = {**_COMPLAINTS, "free(): double free detected in tcache": lambda p, _: cached(p)}
        self._test = next((tests[each] for each in tests if self._message.startswith(each)), None)

    def pointer(self):
        """(the pointer, how it is known); (None, why it is not)."""
        found = _NUMBER.search(self._message)
        if found:
            return int(found[1], 16), "the allocator's message"
        given = self._given()
        if given is not None and self._known(given) is not None:
            if self._complains(given) if self._test else given in self._held():
                return given, "the call, and what the allocator has"
        held = self._fitting(self._registers())
        if len(held) == 1:
            return held.pop(), "the registers of the allocator's frames"
        if self._test is not None:
            left = {each for each in self._fitting(held or self._held()) if each % 16 == 0}
            if len(left) == 1:
                return left.pop(), "the frames of the allocator, where it alone fits what was said"
            held = held or left
        several = ", ".join(f"{each:#x}" for each in sorted(held)[:4])
        return None, f"it may be one of {several}" if held else "no frame has it any more"

    def _fitting(self, values):
        return {
            each
            for each in values
            if self._known(each) in ("memory", "data")
            and (self._test is None or self._complains(each))
        }

    # ---- the call ------------------------------------------------------------------------------

    def _given(self):
        """The first argument, by the instruction in front of the call; None: it does not say."""
        outer = self._frames[self._call.outer]
        if self._core.machine != "x86-64":
            return None
        code = self._core.bytes_at(outer.pc - 24, 24)
        for call, form in ((5, b"\xe8"), (6, b"\xff\x15"), (3, b"\x41\xff"), (2, b"\xff")):
            if code and code[-call:].startswith(form):
                value = self._moved(code[:-call], outer.pc - call, outer.registers)
                if value is not None:
                    return value
        return None

    def _moved(self, code, end, registers, into=7):
        """The value of the register `into` (rdi) after the last instruction of `code`, a move."""
        for size in range(3, 9):
            move = code[-size:]
            if len(move) < size or move[0] & 0xF8 != 0x48 or move[1] not in (0x89, 0x8B, 0x8D):
                continue
            wide, mode, low = move[0], move[2] >> 6, move[2] & 7
            one, other = move[2] >> 3 & 7 | (wide & 4) << 1, low | (wide & 1) << 3
            if move[1] == 0x89:
                one, other = (other, one) if mode == 3 else (None, None)
            if one != into:
                continue
            if mode == 3 and size == 3 and move[1] != 0x8D:
                if _X86[other] in _PRESERVED:
                    return registers.get(_X86[other])
                if other == 0 and into == 7:  # without optimisation, by way of rax
                    return self._moved(code[:-size], end - size, registers, 0)
                continue
            address = self._address(move, mode, other, size, end, registers)
            if address is not None:
                return self._core.word(address) if move[1] == 0x8B else address
        return None

    @staticmethod
    def _address(move, mode, base, size, end, registers):
        """Of an operand in memory; None: it depends on what a call does not preserve."""
        if mode == 3:
            return None
        scaled = base & 7 == 4
        if scaled and (len(move) < 4 or move[3] >> 3 & 7 != 4 or move[0] & 2):
            return None
        start = 4 if scaled else 3
        relative = mode == 0 and base & 7 == 5
        wide = 4 if relative or mode == 2 else mode
        if size != start + wide:
            return None
        offset = int.from_bytes(move[start:], "little", signed=True)
        if relative:
            return end + offset if not scaled else None
        if scaled:
            base = move[3] & 7 | (move[0] & 1) << 3
        value = registers.get(_X86[base]) if _X86[base] in _PRESERVED else None
        return None if value is None else value + offset & (1 << 64) - 1

    # ---- the allocator's frames ------------------------------------------------------------------

    def _forms(self, value):
        """What a word can mean: libc works with what lies 16 bytes in front of a block."""
        return (value, value + 16) if self._in_libc else (value,)

    def _registers(self):
        """Pointers in registers of the allocator's frames, by what the unwinder knows."""
        for number, frame in enumerate(self._frames[: self._call.outer]):
            registers = frame.registers
            if number == 0:
                registers = {**registers, **self._core.threads_all[0].registers}
            for value in registers.values():
                yield from self._forms(value)

    def _held(self):
        """The same, and all words of its frames, of which some are left from earlier calls."""
        low, high = self._core.threads_all[0].sp, self._frames[self._call.outer].registers.get("rsp")
        held = set(self._registers())
        if high is not None and low <= high <= low + _STACK_MOST:
            for value in self._core.words_at(low, (high - low) // 8):
                held.update(self._forms(value))
        return held

    def _complains(self, value):
        size = self._core.word(value - 8)
        return size is not None and bool(self._test(value, size))


def _invalid_pointer(value, size):
    return value % 16 != 0 or value - 16 > -(size & ~7) & (1 << 64) - 1


# What libc tests before it says so: of a pointer, and the word in front of it (glibc's malloc.c, 2.28
# to 2.43).
_COMPLAINTS = {
    "free(): invalid pointer": _invalid_pointer,
    "realloc(): invalid pointer": _invalid_pointer,
    "free(): invalid size": lambda value, size: size & ~7 < 32 or size & 8,
    "munmap_chunk(): invalid pointer": lambda value, size: size & 2,
}
