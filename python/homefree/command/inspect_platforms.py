# SPDX-License-Identifier: BSD-2-Clause
"""`homefree inspect` of objects for macOS (Mach-O) and Windows (PE), on any system: what is in
them, and what that means for the process that loads them.

Read with macho.py and pe.py. The members are those of the document for objects of ELF, and:
`platform`, "macOS" or "Windows"; `tls_slots`, the system's slots of thread-local storage that an
allocator in it takes for itself; `runtimes`, the C runtimes that it uses;
`joined`, functions of LLVM's OpenMP of which dyld takes one for all copies (weak names).

The rules are those of loader/inspect/rules.def. inspect_together.py has what several objects do to
each other.

State: none.
"""

import os
import re
import stat
import struct

from . import macho, pe
from ._tables import ALLOCATORS
from .binary import Bytes, Damaged
from .start import READ_ONLY

_NAMED = re.compile(r"\.(so|dylib|bundle|dll|pyd)\Z", re.IGNORECASE)
_NAMES_SHOWN = 5
_JOINED_MOST = 100
_READS_MOST = 1_000_000  # of the thread's register, after which no more is looked at
_CODE = re.compile(r"__text|__stubs|\.text|\.nv_fatb|\.nvFatBi")

# Of libc's family and of C++: what others find by name if it is exported.
_FAMILY = re.compile(
    r"(?:malloc|free|calloc|realloc|reallocf|valloc|posix_memalign|aligned_alloc|malloc_size"
    r"|_Zn[wa]m\w*|_Zd[la]Pv\w*)\Z"
)
# What hands out memory that free() takes back.
_HANDING = re.compile(
    r"(?:strn?dup|v?asprintf|getline|getdelim|realpath|getcwd|scandir|open_memstream)(?:\$\w+)?\Z"
)
_OPERATORS = re.compile(r"_Z(n[wa]m|d[la]Pv)")
_REGISTERS, _UNREGISTERS = "malloc_zone_register", "malloc_zone_unregister"

# mimalloc's include/mimalloc/prim.h: 89 until 2.x and in its first 3.x, 108 and 109 from there, 126
# and 127 from 3.4 on.
_SLOTS = {
    89: "which system frameworks use as well (mimalloc 1072, catboost 3086)",
    108: "which Apple keeps for Swift (mimalloc 1327)",
    109: "which Apple keeps for Swift (mimalloc 1327)",
    126: "which system frameworks use as well (mimalloc 1333)",
    127: "which system frameworks use as well (mimalloc 1333)",
}
_SLOT_OF_ARM64 = b"\xd0\x3b\xd5"  # the end of mrs xN, TPIDRRO_EL0
_SLOT_OF_X86_64 = re.compile(
    rb"\x65[\x48\x4c]\x8b[\x04\x0c\x14\x1c\x24\x2c\x34\x3c]\x25(..)\0\0", re.S
)

_JEMALLOCS = re.compile(rb"\d+\.\d+\.\d+-\d+-g[0-9a-f]{40}")

_C_RUNTIMES = (
    (re.compile(r"(ucrtbase|vcruntime\w*|msvcp\w*|concrt\w*|msvcr\d+)d\.dll\Z"), "debugging", None),
    (
        re.compile(r"ucrtbase\.dll\Z|api-ms-win-crt-[\w-]+\.dll\Z"),
        "ucrt",
        "the Universal C Runtime",
    ),
    (re.compile(r"msvcrt\.dll\Z"), "msvcrt", "msvcrt.dll"),
    (re.compile(r"(msvcr\d+)\.dll\Z"), None, None),
)
# What the runtime that is linked statically calls of Windows, and Python's modules do not.
_STATIC_CALLS = {"GetProcessHeap", "HeapAlloc", "HeapReAlloc", "HeapSize"}
_PATCHES = re.compile(r"(mimalloc-redirect\w*|tbbmalloc_proxy\w*|libtcmalloc\w*)(\.dll)?\Z")
# Functions of C++ that return a container by value, as Microsoft's compiler mangles them: one of a
# namespace (YA) or of a class (QEAA), and its result (?A…).
_BY_VALUE = re.compile(
    r"@@(?:Y[A-Z]|[A-Z]E?[A-Z]?[A-Z])\?A[VU]\?\$(?:basic_string|vector|map|unordered_map|shared_ptr|"
    r"unique_ptr|list|deque|set|function)@"
)

# Where homefree itself can do nothing, in place of what the rules say.
REMEDIES = {
    "exported-allocator": "Hide them with the linker's -exported_symbols_list.",
    "own-free": "Build its allocator so that it does not replace free() (mimalloc: "
    "MI_OVERRIDE=OFF), or let it free such memory with a function of the library that handed it "
    "out.",
    "several-allocators": "Nothing, unless memory of one is freed by the other.",
}


class NoObject(Exception):
    """A file that is nobody's business: a program, or .NET's."""


def is_object(start, name):
    """Whether what begins so, and has this name, is one of those objects. Class files of Java begin
    as Mach-O files do, and programs as DLLs, but none has such a name."""
    return bool(_NAMED.search(name)) and begins(start)


def begins(start):
    return start[:4] in macho.MAGICS or start[:2] == pe.MAGIC


def file(path):
    """What is known of a file. The errors are NoObject, Damaged and OSError."""
    descriptor = os.open(path, READ_ONLY)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Damaged("it is no file")
        return inspect(descriptor, 0, status.st_size, path)
    finally:
        os.close(descriptor)


def inspect(descriptor, at, size, name):
    """What is known of an object in a file. Its findings are without severity and remedy."""
    data = Bytes(descriptor, at, size)
    if data.read(0, min(2, size)) == pe.MAGIC:
        return _of_windows(pe.image(data), data, name)
    images = [_of_macos(image, data) for image in macho.images(data)]
    return _joined(images)


def _found(platform, image):
    return {
        "kind": image.kind,
        "platform": platform,
        "machine": image.machine,
        "soname": image.name,
        "module": None,
        "homefree": {"itself": False, "linked": False, "needed": None},
        "glibc_needed": None,
        "allocates": False,
        "tls": {"bytes": 0, "static": False},
        "tls_slots": [],
        "runtimes": [],
        "joined": [],
        "imports": 0,
        "exports": 0,
        "libraries": [],
        "allocators": [],
        "members": None,
        "findings": [],
    }


def _add(found, rule, message, names=()):
    names = sorted(names)
    finding = {"rule": rule, "message": message, "count": len(names)}
    found["findings"].append({**finding, "names": names[:_NAMES_SHOWN]})


# ---- allocators ----------------------------------------------------------------------------------


class _Allocators:
    """Recognises them by the patterns and texts of loader/foreign/known_allocators.def."""

    def __init__(self):
        self.found = {}
        self.version = None  # of jemalloc
        self._whole, self._starts, self._ends = {}, [], []
        for allocator in ALLOCATORS:
            for pattern in allocator["symbols"]:
                name = allocator["name"]
                if pattern.startswith("*"):
                    self._ends.append((pattern[1:], name))
                elif pattern.endswith("*"):
                    self._starts.append((pattern[:-1], name))
                else:
                    self._whole[pattern] = name
        self._starts_any = tuple(start for start, _ in self._starts)
        self._ends_any = tuple(end for end, _ in self._ends)

    def symbol(self, name, exported):
        """A symbol that it defines."""
        allocator, prefix = self._whole.get(name), ""
        if allocator is None and name.startswith(self._starts_any):
            allocator = next(one for start, one in self._starts if name.startswith(start))
        elif allocator is None and name.endswith(self._ends_any) and name[:2] not in ("_Z", "_R"):
            end, allocator = next(pair for pair in self._ends if name.endswith(pair[0]))
            prefix = name[: -len(end)]
        if allocator is not None:
            known = self.found.setdefault(allocator, _allocator(allocator, "symbol", name, prefix))
            known["exported"] = known["exported"] or exported

    def texts(self, sections, size):
        """What its data contains. size: of all sections, or they overlap."""
        needles = [(text.encode(), one["name"]) for one in ALLOCATORS for text in one["strings"]]
        for name, section in sections:
            size -= section.size
            if size < 0:
                raise Damaged("its sections overlap")
            if _CODE.match(name):
                continue
            for _, piece in section.pieces(128):
                for text, allocator in needles:
                    if allocator not in self.found and text in piece:
                        self.found[allocator] = _allocator(allocator, "string", text.decode(), "")
                if self.version is None and "jemalloc" in self.found:
                    match = _JEMALLOCS.search(piece)
                    self.version = match and match[0].decode().partition("-")[0]

    def told(self):
        for one in self.found.values():
            if one["name"] == "jemalloc":
                one["version"] = self.version
        return list(self.found.values())


def _allocator(name, by, evidence, prefix):
    found = {"name": name, "by": by, "evidence": evidence, "prefix": prefix}
    return {**found, "exported": False, "published": False, "version": None}


def _tell_allocators(found):
    for one in found["allocators"]:
        version = f" {one['version']}" if one["version"] else ""
        what = "the text" if one["by"] == "string" else "the symbol"
        _add(
            found,
            "private-allocator",
            f"it contains {one['name']}{version} ({what} {one['evidence'].strip()!r})",
        )


# ---- macOS ---------------------------------------------------------------------------------------


def _of_macos(image, data):
    found = _found("macOS", image)
    allocators = _Allocators()
    imports, exports, hidden = set(), set(), set()
    joined = set()
    for symbol, what, weak in image.symbols():
        plain = symbol[1:] if symbol.startswith("_") else symbol
        if weak and what == "export" and "__kmp_" in plain and len(joined) < _JOINED_MOST:
            joined.add(plain)
        found["imports"] += what == "import"
        found["exports"] += what == "export"
        if what != "import":
            allocators.symbol(plain, what == "export")
        if plain.startswith("PyInit_") and what == "export":
            found["module"] = plain[len("PyInit_") :]
        if _FAMILY.match(plain) or _HANDING.match(plain) or plain in (_REGISTERS, _UNREGISTERS):
            {"import": imports, "export": exports}.get(what, hidden).add(plain)
    sections = [(name, part) for _, name, part in image.sections if part is not None]
    allocators.texts(sections, data.size)
    found["joined"] = sorted(joined)
    found["allocators"] = allocators.told()
    found["allocates"] = any(map(_FAMILY.match, imports | exports | hidden))
    found["libraries"] = [
        {"name": library, "state": None, "path": None} for library in image.libraries
    ]
    _tell_allocators(found)
    if _REGISTERS in imports:
        moves = _UNREGISTERS in imports
        rule = "default-malloc-zone" if moves else "malloc-zone"
        more = " and unregisters others, by which its own becomes the default" if moves else ""
        _add(found, rule, f"it registers a malloc zone{more}", imports & {_REGISTERS, _UNREGISTERS})
    interposing = sum(part.size for name, part in sections if name == "__interpose")
    if interposing:
        _add(found, "interposes", f"it has {interposing} bytes of __interpose")
    family = set(filter(_FAMILY.match, exports))
    if family and not _is_runtime(image.name):
        message = f"it exports {len(family)} of an allocator's functions"
        if any(map(_OPERATORS.match, family)):
            message += "; dyld joins operators new and delete with those of other objects"
        _add(found, "exported-allocator", message, family)
    called = set(filter(_FAMILY.match, imports))
    if image.flat and called:
        _add(found, "flat-namespace", "any object may serve its calls", called)
    _own_free(found, imports, exports | hidden)
    if any(one["name"] == "mimalloc" for one in found["allocators"]):
        _tls_slots(found, image)
    return found


def _is_runtime(name):
    """A C++ runtime defines the operators for all."""
    return bool(name) and bool(re.search(r"lib(c\+\+(abi)?|stdc\+\+)\.[\d.]*dylib\Z", name))


def _own_free(found, imports, own):
    handing = {name.partition("$")[0] for name in imports if _HANDING.match(name)}
    if "free" in own and found["allocators"] and handing:
        message = "it frees with its own free() what functions of the system hand out"
        _add(found, "own-free", message, handing)


def _tls_slots(found, image):
    """The fixed slots of thread-local storage that its code uses. mimalloc reads them from the
    thread's register; libc's own slots have functions."""
    slots = {}
    for _, name, part in image.sections:
        if name == "__text" and part is not None:
            for slot, where in _slots_in(part, image.machine):
                slots.setdefault(slot, where)
    mine = found["tls_slots"] = sorted(slot for slot in slots if slot in _SLOTS)
    if mine:
        places = " and ".join(f"{slot} (at {slots[slot]:#x} of its code)" for slot in mine)
        _add(
            found,
            "fixed-tls-slot",
            f"its mimalloc keeps pointers in each thread's slot {places}, {_SLOTS[mine[0]]}",
        )


def _slots_in(part, machine):
    left = _READS_MOST
    for start, piece in part.pieces(64):
        if machine == "arm64":
            at = piece.find(_SLOT_OF_ARM64)
            while at >= 0 and left > 0:
                left -= 1
                # An instruction is four bytes; the load is one of the next.
                if (start + at - 1) % 4 == 0 and piece[at - 1] & 0xE0 == 0x60:
                    end = min(len(piece), at + 3 + 24)
                    for (word,) in struct.iter_unpack(
                        "<I", piece[at + 3 : end - (end - at - 3) % 4]
                    ):
                        if word & 0xFF800000 == 0xF9000000:  # ldr or str xN, [xM, #8*slot]
                            yield word >> 10 & 0xFFF, start + at - 1
                            break
                at = piece.find(_SLOT_OF_ARM64, at + 1)
        elif machine == "x86-64":
            for match in _SLOT_OF_X86_64.finditer(piece):
                yield int.from_bytes(match[1], "little") // 8, start + match.start()


def _joined(images):
    """One for what a file has for several machines: where they differ, the first's, and what the
    others have more."""
    first, *others = images
    if not others:
        return first
    first["machine"] = ", ".join(image["machine"] for image in images)
    for image in others:
        for member in ("allocators", "tls_slots"):
            first[member] += [one for one in image[member] if one not in first[member]]
        # The same at another address, or of a few symbols more, is no second finding.
        known = {finding["rule"] for finding in first["findings"]}
        first["findings"] += [one for one in image["findings"] if one["rule"] not in known]
    return first


# ---- Windows -------------------------------------------------------------------------------------


def _of_windows(image, data, name):
    if image.managed:
        raise NoObject("it is for .NET")
    if image.kind != "shared object":
        raise NoObject("it is a program")
    found = _found("Windows", image)
    allocators = _Allocators()
    for symbol in image.exports:
        allocators.symbol(symbol, True)
        if symbol.startswith("PyInit_"):
            found["module"] = symbol[len("PyInit_") :]
    allocators.texts([(name, part) for name, part in image.sections if part is not None], data.size)
    called = {name for names in image.libraries.values() for name in names if name is not None}
    found["imports"] = sum(map(len, image.libraries.values()))
    found["exports"] = len(image.exports)
    found["allocates"] = bool(called & {"malloc", "free", "HeapAlloc", "??2@YAPEAX_K@Z"})
    found["allocators"] = allocators.told()
    found["libraries"] = [
        {"name": library, "state": None, "path": None} for library in image.libraries
    ]
    _tell_allocators(found)
    _runtimes(found, image, called)
    _patches(found, image, os.path.basename(name))
    family = {
        symbol for symbol in image.exports if _FAMILY.match(symbol) or symbol[:3] in ("??2", "??3")
    }
    by_value = {symbol for symbol in image.exports if _BY_VALUE.search(symbol)}
    runtime = " and ".join(found["runtimes"]) or "none"
    if family:
        message = f"it exports an allocator's functions; the C runtime behind them: {runtime}"
        _add(found, "exports-memory", message, family)
    if by_value:
        message = (
            f"functions that it exports return containers of C++ by value, made with: {runtime}"
        )
        _add(found, "exports-memory", message, by_value)
    return found


def _runtimes(found, image, called):
    names, debugging = [], []
    for library in map(str.lower, image.libraries):
        for pattern, short, _ in _C_RUNTIMES:
            match = pattern.match(library)
            if match and short == "debugging":
                debugging.append(library)
            elif match and (short or match[1]) not in names:
                names.append(short or match[1])
            if match:
                break
    if debugging:
        names.append("a debugging runtime")
        _add(found, "debugging-c-runtime", "it needs C runtimes for debugging", debugging)
    if not names and called >= _STATIC_CALLS:
        names.append("static")
    found["runtimes"] = names
    for name in names:
        if name == "static":
            _add(found, "other-c-runtime", "a C runtime is linked into it", _STATIC_CALLS)
        elif name not in ("ucrt", "a debugging runtime"):
            _add(found, "other-c-runtime", f"its C runtime is {name}.dll; Python's is the UCRT")


def _patches(found, image, name):
    names = (*image.libraries, name, image.name or "")
    patching = {name for name in names if _PATCHES.match(name.lower())}
    if patching:
        message = "it, or what it needs, redirects the process's malloc and free"
        _add(found, "patches-allocator", message, patching)
