# SPDX-License-Identifier: BSD-2-Clause
"""The stack of a thread in a core file, and names of functions and variables, by elfutils' libdw.

libdw unwinds with the call frame information that every library has, debug symbols or not, of any
machine; `homefree report` takes lines from it as well. gdb would need more memory than the core
file has, and prints what would have to be parsed again.

What libdw reads is hostile, so it does that in a process of its own, which may not take more memory
or time than it needs; if it dies, there is no stack.

State: none. One thread.
"""

import ctypes
import json
import os
import resource
import select
import signal
import time

_LIBRARY = "libdw.so.1"
_FRAMES_MOST = 256
_SYMBOLS_MOST = 1 << 21
_TIME, _MEMORY = 60, 400 << 20
_ANSWER_MOST = 4 << 20
# DWARF's numbers of what a call preserves, and of the stack pointer.
_REGISTERS = {
    "x86-64": {"rbx": 3, "rbp": 6, "rsp": 7, "r12": 12, "r13": 13, "r14": 14, "r15": 15},
    "aarch64": {**{f"x{number}": number for number in range(19, 30)}, "sp": 31},
}


class Answer:
    """frames: [{"pc", "exact", "symbol", "start", "registers"}], the innermost first; exact: the
    address is that of an instruction, not of what follows a call; start: where the function begins.
    variables: {(path, name): address}; names: {address: [symbol, offset]}. why: why frames are
    missing; None."""

    def __init__(self, frames=(), variables=(), names=(), why=None):
        self.frames, self.why = list(frames), why
        self.variables = {(path, name): address for path, name, address in variables}
        self.names = {address: (symbol, offset) for address, symbol, offset in names}


def ask(core, objects, variables=(), addresses=()):
    """variables: [(path, name)] of which the addresses are wanted; addresses: of which the names
    are. Result: an Answer, of the thread that died."""
    theirs, ours = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(theirs)
            _confine()
            data = json.dumps(_Session(core, objects).answer(variables, addresses)).encode()
            with open(ours, "wb") as file:
                file.write(data)
            status = 0
        finally:
            os._exit(status)
    os.close(ours)
    data = _receive(theirs)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    try:
        return Answer(**json.loads(data))
    except (ValueError, TypeError):
        return Answer(why=f"{_LIBRARY} could not read the core file")


def _confine():
    for what, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, _TIME),
        (resource.RLIMIT_DATA, _MEMORY),
    ):
        hard = resource.getrlimit(what)[1]
        if hard == resource.RLIM_INFINITY or hard >= most:
            resource.setrlimit(what, (most, hard))
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)


def _receive(descriptor):
    parts, size, end = [], 0, time.monotonic() + _TIME
    with open(descriptor, "rb", buffering=0) as file:
        while size < _ANSWER_MOST and (left := end - time.monotonic()) > 0:
            if not select.select([file], [], [], left)[0]:
                break
            part = file.read(1 << 16)
            if not part:
                break
            parts.append(part)
            size += len(part)
    return b"".join(parts)


# ---- in the process that does it -----------------------------------------------------------------

_word, _pointer = ctypes.c_uint64, ctypes.c_void_p
_Frame = ctypes.CFUNCTYPE(ctypes.c_int, _pointer, _pointer)


class _Callbacks(ctypes.Structure):
    _fields_ = [(name, _pointer) for name in ("elf", "debug", "section", "path")]


class _Symbol(ctypes.Structure):
    """GElf_Sym."""

    _fields_ = [
        ("name", ctypes.c_uint32),
        ("info", ctypes.c_uint8),
        ("other", ctypes.c_uint8),
        ("section", ctypes.c_uint16),
        ("value", _word),
        ("size", _word),
    ]


class _Session:
    def __init__(self, core, objects):
        self._core, self._objects = core, objects
        self._modules, self._session = {}, None
        try:
            self._dw = ctypes.CDLL(_LIBRARY)
        except OSError:
            self._dw = None
            return
        for name, result, *parameters in (
            ("dwfl_begin", _pointer, ctypes.POINTER(_Callbacks)),
            ("dwfl_report_begin", None, _pointer),
            (
                *("dwfl_report_elf", _pointer, _pointer, ctypes.c_char_p, ctypes.c_char_p),
                *(ctypes.c_int, _word, ctypes.c_bool),
            ),
            ("dwfl_report_end", ctypes.c_int, _pointer, _pointer, _pointer),
            ("dwfl_addrmodule", _pointer, _pointer, _word),
            ("dwfl_core_file_attach", ctypes.c_int, _pointer, _pointer),
            ("dwfl_getthread_frames", ctypes.c_int, _pointer, ctypes.c_int, _Frame, _pointer),
            (
                *("dwfl_frame_pc", ctypes.c_bool, _pointer, ctypes.POINTER(_word)),
                ctypes.POINTER(ctypes.c_bool),
            ),
            (
                *("dwfl_module_addrinfo", ctypes.c_char_p, _pointer, _word, ctypes.POINTER(_word)),
                *(ctypes.POINTER(_Symbol), _pointer, _pointer, _pointer),
            ),
            ("dwfl_module_getsymtab", ctypes.c_int, _pointer),
            (
                *("dwfl_module_getsym_info", ctypes.c_char_p, _pointer, ctypes.c_int),
                *(ctypes.POINTER(_Symbol), ctypes.POINTER(_word), _pointer, _pointer, _pointer),
            ),
            ("elf_version", ctypes.c_uint, ctypes.c_uint),
            ("elf_begin", _pointer, ctypes.c_int, ctypes.c_int, _pointer),
            ("dwfl_frame_reg", ctypes.c_int, _pointer, ctypes.c_uint, ctypes.POINTER(_word)),
        ):
            # libelf.so.1 has come with it. The last is missing before elfutils 0.188.
            function = getattr(self._dw, name, None)
            if function is None:
                function = getattr(ctypes.CDLL("libelf.so.1"), name, None)
            if function is not None:
                function.restype, function.argtypes = result, parameters
            setattr(self, name, function)
        self._begin()

    def _begin(self):
        root = self._objects.root
        path = None if root is None else os.fsencode(os.path.join(root, "usr/lib/debug"))
        self._path = ctypes.c_char_p(path)  # where debug files are; None: where libdw looks
        self._callbacks = callbacks = _Callbacks(
            ctypes.cast(self._dw.dwfl_build_id_find_elf, _pointer).value,
            ctypes.cast(self._dw.dwfl_standard_find_debuginfo, _pointer).value,
            None,
            ctypes.cast(ctypes.pointer(self._path), _pointer).value,
        )
        os.environ.pop("DEBUGINFOD_URLS", None)
        self._session = self.dwfl_begin(ctypes.byref(callbacks))
        self.dwfl_report_begin(self._session)
        for path, start in self._objects.starts.items():
            file = self._objects.here[path]
            if file is not None:
                name = os.fsencode(file)
                module = self.dwfl_report_elf(self._session, name, name, -1, start, False)
                if module:
                    self._modules[path] = module
        self.dwfl_report_end(self._session, None, None)

    def answer(self, variables, addresses):
        if self._dw is None:
            return {"why": f"stacks need elfutils' {_LIBRARY} (Debian: apt install libdw1)"}
        frames, why = self._frames()
        return {
            "frames": frames,
            "why": why,
            "variables": [
                (path, name, address)
                for path in dict(variables)
                for name, address in self._variables(path, {n for p, n in variables if p == path})
            ],
            "names": [(each, *self._name(each)) for each in addresses],
        }

    def _frames(self):
        self.elf_version(1)
        core = os.open(self._core.path, os.O_RDONLY)
        image = self.elf_begin(core, 8, None)  # mapped, not read
        if not image or not self._modules:
            return [], "the program's files are not here: --root and --exe say where they are"
        if self.dwfl_core_file_attach(self._session, image) < 0:
            return [], f"{_LIBRARY} cannot read the core file"
        frames = []
        numbers = _REGISTERS[self._core.machine] if self.dwfl_frame_reg else {}

        def take(state, _):
            pc, exact, value = _word(), ctypes.c_bool(), _word()
            if not self.dwfl_frame_pc(state, ctypes.byref(pc), ctypes.byref(exact)):
                return 1
            # libdw forgets rbx where a function leaves it alone (x86_64_cfi.c has another number).
            registers = dict(frames[-1]["registers"]) if frames else {}
            registers.update(
                (name, value.value)
                for name, number in numbers.items()
                if self.dwfl_frame_reg(state, number, ctypes.byref(value)) == 0
            )
            place = pc.value if exact.value else pc.value - 1
            symbol, offset = self._name(place)
            frames.append(
                {
                    "pc": pc.value,
                    "exact": exact.value,
                    "symbol": symbol,
                    "start": place - offset if symbol else 0,
                    "registers": registers,
                }
            )
            return 0 if len(frames) < _FRAMES_MOST else 1

        thread = self._core.threads_all[0].id
        self.dwfl_getthread_frames(self._session, thread, _Frame(take), None)
        return frames, None if frames else "the stack could not be unwound"

    def _name(self, address):
        module = self.dwfl_addrmodule(self._session, address)
        if not module:
            return None, 0
        offset, symbol = _word(), _Symbol()
        name = self.dwfl_module_addrinfo(
            module, address, ctypes.byref(offset), ctypes.byref(symbol), None, None, None
        )
        if name is None or (symbol.size and offset.value >= symbol.size):
            return None, 0
        return name.decode("utf-8", "replace")[:400], offset.value

    def _variables(self, path, wanted):
        module = self._modules.get(path)
        count = self.dwfl_module_getsymtab(module) if module else 0
        symbol, address = _Symbol(), _word()
        for number in range(min(count, _SYMBOLS_MOST)):
            name = self.dwfl_module_getsym_info(
                module, number, ctypes.byref(symbol), ctypes.byref(address), None, None, None
            )
            if name and symbol.section and name.decode("utf-8", "replace") in wanted:
                yield name.decode(), address.value
