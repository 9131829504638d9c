# SPDX-License-Identifier: BSD-2-Clause
"""`homefree doctor --core`: from a core file, the signal, the stack, the pointer that an allocator
was given, whose it is, who gave it, and what to do.

The rules are those of loader/record/process_record.def whose names begin with "core-"; where
nothing is known but what the allocator said, those of doctor_log.py.

State: none. One thread.
"""

import re
import signal

from . import asked, core_blocks, core_freeing, core_stack, doctor_log
from .core_file import CONTEXT, Core
from .core_live import Dying
from .core_objects import Objects
from .core_unpack import unpacked
from .memory_owners import Facts, Looking
from .memory_process import PAGE
from .start import Failure
from .terminal import base_name, clean

_PATIENCE, _LIVE_PATIENCE = 120, 30  # seconds
_HOMEFREE = re.compile(r"/libhomefree[\w.-]*\.so[\w.]*$")
# homefree's own constant (loader/record/live_state.h): where the heap's description lies in it, and
# in that, where the region's two words do.
_STATE, _MAGIC, _VERSION, _BLOCKS = "hf_live_state", b"homefree live\n\0", 4, 72
# mov $15, %rax; syscall: what a handler returns to. Then the stack has Linux's struct ucontext,
# with the segment registers, the error, the trap, a mask and the fault's address behind the
# registers.
_RETURNING, _PAGE_FAULT = b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05", 14
_NEAR = 4096  # bytes of a structure that a pointer leads to
_INSPECTED = ("embedded-allocator", "exported-allocator", "own-free", "allocates-elsewhere")
_FREED_OTHERS = {
    "stack": ("core-stack-free", "a pointer to a stack"),
    "code": ("core-static-free", "static data of a shared object"),
    "file": ("core-unmapped-free", "memory of a file"),
    "shared": ("core-unmapped-free", "shared memory"),
    "device": ("core-unmapped-free", "memory of a device"),
    "kernel": ("core-unmapped-free", "memory of the kernel's"),
}


def read(path, root, executable, command):
    """What the document says of a core file, but for the rule's texts. `finding` is a rule's name,
    and `message` says it."""

    _end_after(_PATIENCE)
    with unpacked(path) as file:
        return _read(Core(file), path, root, executable, command)


def read_live(place, command):
    """The same of the process that is dying. place: core_live.py's."""
    _end_after(_LIVE_PATIENCE)
    return _read(Dying(place), None, None, None, command)


def _end_after(seconds):
    def end(*_):
        raise Failure(f"it takes more than {seconds} seconds")

    signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)


def _read(core, path, root, executable, command):
    try:
        objects = Objects(core, root, executable)
        try:
            return _Look(core, objects, command).document(path)
        finally:
            objects.close()
    finally:
        core.close()


class _Facts(Facts):
    """Of the objects' files, as far as they are here."""

    def __init__(self, objects, command):
        self._objects, self._command, self._known = objects, command, {}

    def inspected(self, path):
        """What `homefree inspect` says of an object; {}: nothing."""
        if path not in self._known:
            file, found = self._objects.here.get(path), {}
            if file is not None:
                listed = [(file.encode("utf-8", "surrogateescape"), b"", b"")]
                for told, _ in asked.inspect(self._command, ["--listed", "-1"], listed):
                    found = told if told is not None and told["error"] is None else {}
            self._known[path] = found
        return self._known[path]

    def allocators_in(self, path):
        return sorted({each["name"] for each in self.inspected(path).get("allocators", ())})


class _Look:
    def __init__(self, core, objects, command):
        self.core, self.objects = core, objects
        self._freer = None  # the object whose allocator was given a pointer
        self.facts = _Facts(objects, command)
        self.libc = next((each for each in objects.starts if core_freeing.is_libc(each)
                          and "/libc" in each), None)  # fmt: skip
        wanted = [(self.libc, "__abort_msg"), (self.libc, "main_arena")] if self.libc else []
        homefree = [each for each in objects.starts if _HOMEFREE.search(each)]
        wanted += [(each, _STATE) for each in homefree]
        self.answer = core_stack.ask(core, objects, wanted)
        self.facts.region = next(filter(None, map(self._region, homefree)), None)
        self.frames = [
            core_freeing.Frame(
                each["pc"],
                self._object_at(each["pc"] - (not each["exact"])),
                (each["symbol"] or "").partition("@")[0] or None,
                each["start"],
                each["registers"],
            )
            for each in self.answer.frames
        ]
        self._leave_handler()
        data = [
            (mapping.start, mapping.end)
            for number, mapping in enumerate(core.mappings)
            if "w" in mapping.mode and (mapping.path == self.libc or self._is_bss(number))
        ]
        arena = self.answer.variables.get((self.libc, "main_arena"))
        self.heap = core_blocks.LibcHeap(core, data, arena)
        end = self.heap.end_of_break()
        if end is not None and end < core.mapping_at(end - 1).end:
            core.split(end)  # others use brk(2), too
        self.looking = Looking(core, self.facts)
        self.looking.own()

    def _leave_handler(self):
        """If a handler has sent the signal again, as CPython's faulthandler does, the crash is what
        the handler interrupted."""
        core = self.core
        for number, frame in enumerate(self.frames[:-1]):
            if core.machine == "x86-64" and core.bytes_at(frame.pc, 9) == _RETURNING:
                context = frame.registers.get("rsp", 0)
                words = core.words_at(context + 40, len(CONTEXT) + 5)
                registers = {**core.threads_all[0].registers, **dict(zip(CONTEXT, words))}
                if registers["rip"] == self.frames[number + 1].pc and len(words) > len(CONTEXT):
                    if core.signal in (signal.SIGSEGV, signal.SIGBUS):
                        trap, fault = words[-3], words[-1]
                        core.code = 1 if trap == _PAGE_FAULT else 0x80
                        core.address = fault if trap == _PAGE_FAULT else None
                    core.threads_all[0] = core.threads_all[0]._replace(
                        registers=registers, pc=registers["rip"], sp=registers["rsp"]
                    )
                    self.frames = self.frames[number + 1 :]
                return

    def _is_bss(self, number):
        """Whether a mapping is the zeroed data behind libc's."""
        before = self.core.mappings[number - 1] if number else None
        return (
            before is not None
            and not self.core.mappings[number].path
            and before.path == self.libc
            and before.end == self.core.mappings[number].start
        )

    def _region(self, path):
        """Where homefree's heap lies, by its own constant."""
        state = self.answer.variables.get((path, _STATE))
        if state is None or self.core.bytes_at(state, 16)[:15] != _MAGIC:
            return None
        version = self.core.words_at(state + 16, 1)
        blocks = self.core.word(state + _BLOCKS)
        if not version or version[0] & 0xFFFFFFFF != _VERSION or not blocks:
            return None
        words = self.core.words_at(self.core.word(blocks) or 0, 2)
        return (words[0], words[0] + words[1]) if len(words) == 2 and words[1] else None

    def _object_at(self, address):
        mapping = self.core.mapping_at(address)
        return mapping.path or None if mapping is not None else None

    # ---- what happened ---------------------------------------------------------------------------

    def document(self, path):
        core = self.core
        unknown = self._missing()
        message = core_freeing.said(
            core, self.answer.variables.get((self.libc, "__abort_msg")), core.threads_all[0].sp
        )
        call = core_freeing.find_call(self.frames, self.facts.allocators_in, self._called)
        pointer = owner = freed = block = None
        how = state = None
        if call is not None and core_freeing.FREEING.fullmatch(call.function or "free"):
            freed = self._place(call.outer, call.function, call.inner)
            self._freer = self.frames[self._entry(call)].object
            search = core_freeing.Search(
                core, self.frames, call, message, self._known, self.heap.is_cached
            )
            pointer, how = search.pointer()
            if pointer is None:
                unknown.append(f"the pointer: {how}")
                how = None
            else:
                owner, block = self._owner(pointer)
                rule, text = self._freed_wrongly(pointer, owner, block, message)
                given = block is not None and block.live and block.start == pointer
                if call.function is None and message is None and not given:
                    pointer = owner = block = how = None
            if pointer is None and call.function is None and message is None:
                freed = None  # it need not have been a free
        elif self.frames:
            found = self._use_after_free()
            if found is not None:
                pointer, how, owner, block = found
                rule, text = "core-use-after-free", "the code used a block that is free"
        if pointer is None:
            rule, text = self._by_message(message, call)
        if block is not None:
            state = {True: "live", False: "free", None: None}[block.live]
        return {
            "homefree_core": 1,
            "path": path,
            "program": core.executable or core.name,
            "pid": core.pid,
            "signal": core.signal,
            "fault": core.address,
            "said": message,
            "thread": {
                "id": core.threads_all[0].id,
                "threads": len(core.threads()),
                "stack": [self._frame(each) for each in self.frames],
            },
            "pointer": pointer,
            "pointer_known_by": how,
            "owner": owner and {
                **owner,
                "block": block and {"start": block.start, "size": block.size, "state": state},
            },
            "freed": freed,
            "finding": rule,
            "message": text,
            "inspect": self._inspected(owner, freed),
            "unknown": unknown,
        }  # fmt: skip

    def _missing(self):
        unknown = [self.answer.why] if self.answer.why else []
        for what, paths in (
            ("files that are not here", [p for p, f in self.objects.here.items() if f is None]),
            ("files of another build", self.objects.others),
        ):
            if paths:
                more = f" and {len(paths) - 5} more" if len(paths) > 5 else ""
                unknown.append(f"{what}: {', '.join(map(base_name, paths[:5]))}{more}")
        return unknown

    def _frame(self, frame):
        start = self.objects.starts.get(frame.object)
        return {
            "object": frame.object,
            "symbol": frame.symbol,
            "address": frame.pc,
            "offset": frame.pc - start if start is not None and frame.pc >= start else None,
        }

    def _entry(self, call):
        """The frame of the allocator itself: operator delete and PyMem_Free only lead to it."""
        for number in range(call.inner, -1, -1):
            frame = self.frames[number]
            if core_freeing.is_libc(frame.object) or self.facts.allocators_in(frame.object or ""):
                return number
        return call.inner

    def _allocator(self, path):
        """The name of the allocator of an object."""
        if core_freeing.is_libc(path):
            return "libc"
        if path is not None and _HOMEFREE.search(path):
            return "homefree"
        return " or ".join(self.facts.allocators_in(path or "")) or None

    def _place(self, number, function, inner):
        frame = self.frames[number]
        return {
            "object": frame.object,
            "allocator": self._allocator(self.frames[inner].object),
            "function": function,
            "symbol": frame.symbol,
            "file": None,
            "line": None,
            "stack": [each.pc for each in self.frames[number:]],
            "python": None,
        }

    # ---- whose it is -----------------------------------------------------------------------------

    def _called(self, frame):
        """The name of the function that a frame called; None: unknown."""
        address = core_freeing.called(self.core, frame)
        if address is None:
            return None
        names = core_stack.ask(self.core, self.objects, (), [address]).names
        symbol, offset = names.get(address, (None, 0))
        return symbol.partition("@")[0] if symbol and offset == 0 else None

    def _known(self, address):
        """What an address is for a Search."""
        owner = self.looking.owner_at(address)
        mapping = self.core.mapping_at(address)
        if owner is None or mapping is None or mapping.mode[:1] != "r":
            return None
        if owner.kind == "stack":
            return "stack" if address >= self.core.threads_all[0].sp else None
        if owner.kind == "code":
            own = core_freeing.is_libc(owner.object) or owner.object == self._freer
            return None if "x" in mapping.mode or own else "data"
        if owner.kind != "allocator":
            return None if owner.kind == "kernel" else "memory"
        if core_freeing.is_libc(owner.object) and owner.name != "libc":
            return None  # what libc and the dynamic linker mapped for themselves
        block = self.heap.block(address) if owner.name == "libc" else None
        thread = self.core.threads_all[0].registers.get("fs_base", 0)
        if block is None and mapping.start <= thread < mapping.end:
            return None
        if owner.object == self._freer and owner.name != "libc":
            return "its"
        if owner.name == "libc":
            first = block is not None and block.start == mapping.start + 16
            if first and block.size < PAGE and owner.object == self._freer:
                return None  # the thread's cache
        return "memory"

    def _owner(self, address):
        """(whose an address is, its Block)."""
        found = self.looking.owner_at(address)
        block = kind = name = path = symbol = None
        if found is not None:
            kind, name, path = found.kind, found.name, found.object
        if name == "libc":
            block = self.heap.block(address)
        elif name == "pymalloc":
            pool = self.looking.pool_at(address)
            block = core_blocks.pool_block(self.core, *pool, address) if pool else None
        elif kind == "code":
            names = core_stack.ask(self.core, self.objects, (), [address]).names
            symbol = names.get(address, (None, 0))[0]
        elif kind == "allocator" and name is None:
            name = self._allocator(path)
        if kind == "allocator" and name == "homefree":
            path = next((each for each in self.objects.starts if _HOMEFREE.search(each)), None)
        return {
            "kind": kind,
            "object": path,
            "allocator": name,
            "function": None,
            "symbol": symbol,
            "file": None,
            "line": None,
            "stack": None,
            "python": None,
        }, block

    def _freed_wrongly(self, pointer, owner, block, message):
        """(rule, message) of a pointer that an allocator was given to free."""
        kind, name = owner["kind"], owner["allocator"]
        if kind is None:
            return "core-unmapped-free", "nothing is mapped where the pointer leads"
        if kind in _FREED_OTHERS:
            rule, text = _FREED_OTHERS[kind]
            where = owner["symbol"] or ""
            where += (
                f" of {base_name(owner['object'])}" if kind == "code" and owner["object"] else ""
            )
            return rule, text + (f": {where.strip()}" if where else "")
        if kind != "allocator":
            return "core-foreign-free", "memory that no known allocator has"
        freer = self._allocator(self._freer)
        if name is not None and (owner["object"] != self._freer or name != freer):
            of = f" in {base_name(owner['object'])}" if owner["object"] else ""
            return "core-foreign-free", f"a block of {name}{of}, freed by {freer or 'another'}"
        if block is not None and block.start != pointer:
            return "core-interior-free", f"{pointer - block.start} bytes into a block of {name}"
        if (block is not None and block.live is False) or _log_rule(message) == "log-double-free":
            return "core-double-free", f"a block of {name} that was free already"
        rule, text = self._by_message(message, None)
        whole = block.start == pointer if block is not None else self.heap.is_overwritten(pointer)
        if rule == "log-foreign-free" and name == "libc" and whole:
            rule = "log-damaged-heap"  # it is none of others
        return rule, text

    def _by_message(self, message, call):
        """(rule, message) where there is no pointer."""
        rule = _log_rule(message)
        if rule in ("log-double-free", "log-foreign-free", "log-damaged-heap"):
            return rule, message
        inside = " in an allocator" if call is not None else ""
        return "core-crash", message or f"the process died{inside}, and nothing says why"

    def _use_after_free(self):
        """The address that could not be used was read from a free block, after the last call, which
        may have freed it: (the block, how it is known, owner, Block)."""
        core, fault = self.core, self.core.address
        if fault is None and core.code != 0x80:  # of a fault without an address
            return None
        for address in core_freeing.read_before(core, core.threads_all[0]):
            owner, block = self._owner_of_block(address)
            if block is None or block.live is not False:
                continue
            value = core.word(address)
            wild = value is not None and 0x7FFF_FFFF_FFFF < value < 0xFFFF_8000_0000_0000
            near = value is not None and fault is not None and 0 <= fault - value < _NEAR
            if near or (fault is None and wild):
                return (
                    block.start,
                    "the code, which read the address of the fault there",
                    owner,
                    block,
                )
        return None

    def _owner_of_block(self, address):
        owner = self.looking.owner_at(address)
        if owner is None or owner.name not in ("libc", "pymalloc"):
            return None, None
        return self._owner(address)

    def _inspected(self, owner, freed):
        """What `homefree inspect` says of the objects that took part: [{"rule", "object"}]."""
        paths = [each["object"] for each in (owner, freed) if each is not None]
        found = {
            (finding["rule"], path): None
            for path in [*paths, self._freer]
            if path is not None and not core_freeing.is_libc(path)
            for finding in self.facts.inspected(path).get("findings", ())
            if finding["rule"] in _INSPECTED
        }
        return [{"rule": rule, "object": clean(path)} for rule, path in found]


def _log_rule(message):
    """The rule of doctor_log.py that a message is of; None."""
    return doctor_log.rule_of(message.encode()) if message else None
