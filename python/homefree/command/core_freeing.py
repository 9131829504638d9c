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

# start: where its function begins, 0 if that is unknown.
Frame = namedtuple("Frame", "pc object symbol start registers")
# inner, outer: numbers of the allocator's outermost frame and of who called it. function: what was
# called, None if that is unknown.
Call = namedtuple("Call", "inner outer function")

_PREFIX = r"(?:__libc_|__GI___libc_|\w*je_|mi_|tc_|rp|sn_|scalable_|hf_|do_)?"
FREEING = re.compile(
    rf"{_PREFIX}(?:c?free(?:_sized|_aligned_sized|_size|_aligned|_default)?|reallocf?|reallocarray"
    r"|s?dallocx|rallocx)|tc_delete\w*|TCMallocInternal(?:Free|Delete|Realloc)\w*|_Zd[la]Pv\w*"
    r"|operator delete.*|PyMem_(?:Raw)?(?:Free|Realloc)|PyObject_(?:Free|Realloc)"
    r"|_Py(?:Mem|Object)_\w*(?:Free|Realloc)|g_free"
)
ALLOCATING = re.compile(
    rf"{_PREFIX}(?:malloc|calloc|valloc|memalign|posix_memalign|aligned_alloc|mallocx)"
    r"|tc_new\w*|TCMallocInternal(?:Malloc|Calloc|New|Memalign)\w*|_Zn[wa]m\w*|operator new.*"
    r"|PyMem_(?:Raw)?[MC]alloc|PyObject_[MC]alloc"
)
_SAID = re.compile(
    rb"(?:homefree: fatal: |Attempt to (?:free|realloc) invalid pointer |mimalloc: error: )"
    rb"[\x20-\x7e]{0,300}"
)
_NUMBER = re.compile(r"0x([0-9a-f]{4,16})\b")
_LEAPT_MOST = 6  # frames between two of an allocator that can be told by name
_SAID_MOST = 256 << 10
_FFI = re.compile(r"/(?:libffi|_ctypes)[^/]*\.so[^/]*$")
_FFI_POINTER = 8, 8 | 14 << 16, 0  # size, alignment and FFI_TYPE_POINTER, elements
_CTYPES_MOST = 4096  # bytes of its frames
_STACK_MOST = 1 << 20
_READ_MOST = 64  # bytes of code
_ALL = (1 << 64) - 1
_PASSED_MOST, _PASSING_MOST = (
    4,
    64,
)  # functions that pass what they were given, bytes of their begin
# What a function may do before the call, if its first argument is to be what it was given: pushes,
# room on the stack, and copies into registers that a call preserves.
_PASSES = re.compile(
    rb"(?:\xf3\x0f\x1e\xfa)?(?:\x41?[\x50-\x57]|\x48\x83\xec.|\x48\x81\xec....|\x48\x89[\xfb\xfd\xe5]"
    rb"|\x49\x89[\xfc-\xff])*",
    re.DOTALL,
)
_X86 = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", *(f"r{n}" for n in range(8, 16)))
_PRESERVED = {"rbx", "rbp", "rsp", "r12", "r13", "r14", "r15"}
_LIBC = re.compile(
    r"libc(?:-2\.\d+)?\.so(?:\.6)?|ld-linux-[\w-]+\.so\.\d+|libpthread(?:-2\.\d+)?\.so.*"
)


def is_libc(path):
    return path is not None and _LIBC.fullmatch(base_name(path)) is not None


def find_call(frames, allocators_in, called):
    """The Call by which an allocator was entered that the process died in; None: it died elsewhere.
    allocators_in: a function of an object's path; called: one of a frame, that names the function
    that it called, or None."""
    last = unnamed = None
    for number, frame in enumerate(frames):
        symbol = frame.symbol or ""
        if FREEING.fullmatch(symbol) or ALLOCATING.fullmatch(symbol):
            last = number
        elif not _inside(frame, allocators_in) or (
            last is not None and number > last + _LEAPT_MOST
        ):
            break
        elif last is None and frame.object and not is_libc(frame.object) and not frame.symbol:
            unnamed = number
    if last is not None and last + 1 < len(frames):
        return Call(last, last + 1, _plain(frames[last].symbol))
    if last is not None or unnamed is None or unnamed + 1 == len(frames):
        return None
    outer = frames[unnamed + 1]
    if frames[unnamed].object == outer.object:
        return None
    return Call(unnamed, unnamed + 1, _plain(called(outer)))


def _plain(symbol):
    """libc's names of one function."""
    plain = re.sub(r"^(?:__GI_)?(?:__libc_)?(?=\w+$)", "", symbol or "")
    return "free" if plain == "cfree" else plain or None


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


_CALLS = (
    (5, rb"\xe8"),
    (6, rb"\xff[\x15\x90-\x97]"),
    (7, rb"\x41\xff[\x90-\x97]"),
    (3, rb"\x41\xff[\xd0-\xd7]|\xff[\x50-\x57]"),
    (2, rb"\xff[\xd0-\xd7\x10-\x17]"),
    (4, rb"\x41\xff[\x50-\x57]"),
)


def call_before(core, pc):
    """Where the call begins that returns to an address; None: no call is in front of it."""
    code = core.bytes_at(pc - 7, 7)
    for size, form in _CALLS:
        if code and re.match(form, code[-size:]):
            return pc - size
    return None


def called(core, frame):
    """The address of the function that a frame called; None: the call does not say."""
    call = call_before(core, frame.pc) if core.machine == "x86-64" else None
    if call is None:
        return None
    code = core.bytes_at(call, frame.pc - call)
    offset = int.from_bytes(code[-4:], "little", signed=True)
    if code[:1] == b"\xe8":
        stub = core.bytes_at(frame.pc + offset & _ALL, 16)
        jump = re.match(rb"(?:\xf3\x0f\x1e\xfa)?\xf2?\xff\x25(....)", stub, re.DOTALL)
        if jump is None:
            return frame.pc + offset & _ALL
        offset += jump.end() + int.from_bytes(jump[1], "little", signed=True)
        return core.word(frame.pc + offset & _ALL)
    if code[:2] == b"\xff\x15":
        return core.word(frame.pc + offset & _ALL)
    if code[-2:-1] == b"\xff" and code[-1] >= 0xD0:
        name = _X86[(code[-1] & 7) + (8 if len(code) == 3 else 0)]
        return frame.registers.get(name) if name in _PRESERVED else None
    return None


def _address(move, mode, base, size, end, registers):
    """Of an operand in memory of a move that ends at an address; None: it is not simple, or depends
    on a register that is not known."""
    scaled = base & 7 == 4
    if mode == 3 or (scaled and (size < 4 or move[3] >> 3 & 7 != 4 or move[0] & 2)):
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
    value = registers.get(_X86[base])
    return None if value is None else value + offset & _ALL


def read_before(core, thread):
    """Where the code in front of the instruction at which a thread died, as far as the last call,
    may have read a register from: addresses, the last first, by the registers as they are."""
    aarch64 = core.machine == "aarch64"
    for end in range(thread.pc, thread.pc - _READ_MOST, -4 if aarch64 else -1):
        if aarch64:
            word = int.from_bytes(core.bytes_at(end - 4, 4), "little")
            if word >> 26 == 0x25 or word & 0xFFFF_FC1F == 0xD63F_0000:  # bl, blr
                return
            base = thread.registers.get(f"x{word >> 5 & 31}", thread.sp)
            if word >> 22 == 0x3E5:  # ldr x, [x, #8 * n]
                yield base + 8 * (word >> 10 & 0xFFF) & _ALL
            continue
        code = core.bytes_at(end - 8, 8)
        if not code or _is_call(core, end):
            return
        for size in range(3, 9):
            move = code[-size:]
            if move[0] & 0xF8 == 0x48 and move[1] == 0x8B:
                base = move[2] & 7 | (move[0] & 1) << 3
                address = _address(move, move[2] >> 6, base, size, end, thread.registers)
                if address is not None:
                    yield address


def _is_call(core, end):
    """Whether what ends at an address may be a call."""
    start = call_before(core, end)
    if start is None or end - start != 5:
        return start is not None
    offset = int.from_bytes(core.bytes_at(start + 1, 4), "little", signed=True)
    target = core.mapping_at(end + offset & _ALL)
    return target is not None and "x" in target.mode


class Search:
    """For the pointer that a Call was about. known: a function that says of an address what it is:
    "memory", "data", "stack", "its" (memory that the allocator has given, or its books), None: what
    is no block. cached: whether libc has an
    address in a thread's cache."""

    def __init__(self, core, frames, call, message, known, cached):
        self._core, self._frames, self._call = core, frames, call
        self._message, self._known = message or "", known
        self._in_libc = is_libc(frames[call.inner].object)
        tests = {**_COMPLAINTS, "free(): double free detected in tcache": lambda p, _: cached(p)}
        self._test = next((tests[each] for each in tests if self._message.startswith(each)), None)
        if self._in_libc and core.address is not None:
            self._test = self._faults

    def pointer(self):
        """(the pointer, how it is known); (None, why it is not)."""
        found = _NUMBER.search(self._message)
        if found:
            return int(found[1], 16), "the allocator's message"
        given = self._given()
        fits = self._complains if self._test is not None else self._has
        if given is not None and self._known(given) is not None and fits(given):
            return given, "the call, and what the allocator has"
        passed = self._passed_by_ctypes()
        if passed is not None and fits(passed):
            return passed, "what ctypes passed, and what the allocator has"
        held = self._fitting(self._own_words())
        if len(held) == 1:
            return held.pop(), "the registers of the allocator's frames"
        several = ", ".join(f"{each:#x}" for each in sorted(held)[:4])
        return None, f"it may be one of {several}" if held else "no register has it any more"

    def _own_words(self):
        """What registers hold in the allocator's frames, but did not when it was called."""
        caller = set(self._frames[self._call.outer].registers.values())
        return {each for each in self._registers() if each not in caller}

    def _fitting(self, words):
        if not self._in_libc:
            return {each for each in words if self._fits(each)}
        # libc goes on with what lies 16 bytes in front of a block.
        both = {each for each in words if each - 16 in words and self._fits(each)}
        return both or {each + 16 for each in words if self._fits(each + 16)}

    def _fits(self, value):
        kind = self._known(value)
        return kind in ("memory", "data") and (self._test is None or self._complains(value))

    # ---- the call ------------------------------------------------------------------------------

    def _given(self):
        """The first argument, by the instruction in front of the call; None: it does not say."""
        if self._core.machine != "x86-64":
            return None
        for number in range(self._call.outer, self._call.outer + _PASSED_MOST):
            outer, *callers = self._frames[number : number + 2]
            call = call_before(self._core, outer.pc)
            if call is None:
                return None
            value = self._moved(self._core.bytes_at(call - 24, 24), call, outer.registers)
            if value is not None:
                return value
            # It may be what the function itself was given.
            start = outer.start or (callers and called(self._core, callers[0]))
            before = call - (start or 0)
            if (
                not callers
                or not 0 <= before <= _PASSING_MOST
                or (before and not _PASSES.fullmatch(self._core.bytes_at(start, before) or b"?"))
            ):
                return None
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
            kept = {name: registers[name] for name in _PRESERVED & registers.keys()}
            address = _address(move, mode, other, size, end, kept)
            if address is not None:
                return self._core.word(address) if move[1] == 0x8B else address
        return None

    def _passed_by_ctypes(self):
        """The only argument of a call by ctypes: on the stack, behind its type and its object
        (struct argument of callproc.c), and libffi has its address."""
        outer = self._frames[self._call.outer]
        low = outer.registers.get("rsp", 0)
        if not low or not _FFI.search(outer.object or ""):
            return None
        words = self._core.words_at(low, _CTYPES_MOST // 8)
        addresses = set(words)
        slots = {
            low + 8 * at: words[at]
            for at in range(2, len(words))
            if low + 8 * at in addresses and self._is_pointers(words[at - 2])
        }
        found = {value for value in slots.values() if value not in slots}
        given = found.pop() if len(found) == 1 else None
        return given if given is not None and self._known(given) is not None else None

    def _is_pointers(self, address):
        mapping = self._core.mapping_at(address)
        return (
            mapping is not None
            and _FFI.search(mapping.path)
            and tuple(self._core.words_at(address, 3)) == _FFI_POINTER
        )

    # ---- the allocator's frames ------------------------------------------------------------------

    def _registers(self):
        """Words in registers of the allocator's frames, by what the unwinder knows."""
        for number, frame in enumerate(self._frames[: self._call.outer]):
            yield from frame.registers.values()
            if number == 0:
                yield from self._core.threads_all[0].registers.values()

    def _has(self, value):
        """Whether the allocator has a value, in a register or among the words of its frames, other
        than what it keeps there for its caller."""
        outer, thread = self._frames[self._call.outer].registers, self._core.threads_all[0]
        low, high = thread.sp, outer.get("rsp")
        words = [
            word for name, word in thread.registers.items() if outer.get(name) != word
        ] if self._call.inner == 0 else []  # fmt: skip
        if high is not None and low <= high <= low + _STACK_MOST:
            words.extend(self._core.words_at(low, (high - low) // 8))
        for name, word in outer.items():
            if thread.registers.get(name) != word and word in words:
                words.remove(word)  # saved there
        return value in words or (self._in_libc and value - 16 in words)

    def _complains(self, value):
        return bool(self._test(value, self._core.word(value - 8)))

    def _faults(self, value, size):
        """Whether libc comes to where the fault was: the word in front of the block, the beginning
        of another arena, or what follows the block."""
        if size is None:
            return self._core.address == value - 8
        if self._core.address == value - 16 & ~((64 << 20) - 1):
            return size & 6 == 4
        return self._core.address == value - 8 + (size & ~7) & _ALL


def _invalid_pointer(value, size):
    if size is None:
        return False
    return value % 16 != 0 or value - 16 > -(size & ~7) & _ALL


# What libc tests before it says so: of a pointer, and the word in front of it (glibc's malloc.c,
# 2.28 to 2.43).
_COMPLAINTS = {
    "free(): invalid pointer": _invalid_pointer,
    "realloc(): invalid pointer": _invalid_pointer,
    "free(): invalid size": lambda _, size: size is not None and (size & ~7 < 32 or size & 8),
    "munmap_chunk(): invalid pointer": lambda _, size: size is not None and size & 2,
}
