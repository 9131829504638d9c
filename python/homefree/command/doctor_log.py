# SPDX-License-Identifier: BSD-2-Clause
"""`homefree doctor --log`: the lines of a log in which allocators, loaders and interpreters say why
a process ended, and what the lines behind them name.

The rules are those of loader/record/process_record.def whose names begin with "log-". The log is
read once, in pieces, whatever it holds.

State: none.
"""

import re

from .start import Failure
from .terminal import clean

# What stands before the name of a signal that has ended a process, not of one that has a handler.
_BY_SIGNAL = "signal ", "Signals.", "sent ", "by ", "with "

# By rule: who says it, and what a line contains that says it. A line is of the first rule that has
# a text of it.
_LINES = {
    "log-double-free": {
        "glibc": (
            "free(): double free detected in tcache",
            "double free or corruption (fasttop)",
            "double free or corruption (top)",
            "double free or corruption (!prev)",
        ),
        "mimalloc": ("mimalloc: error: double free detected",),
        "tcmalloc": ("Possible double free detected",),
        "AddressSanitizer": ("ERROR: AddressSanitizer: attempting double-free",),
    },
    "log-foreign-free": {
        "glibc": (
            "free(): invalid pointer",
            "free(): invalid size",
            "realloc(): invalid pointer",
            "realloc(): invalid old size",
            "munmap_chunk(): invalid pointer",
            "mremap_chunk(): invalid pointer",
            "double free or corruption (out)",
        ),
        "mimalloc": (
            "pointer does not point to a valid heap space",
            "pointer might not point to a valid heap region",
            "mi_free: invalid",
            "mi_free: pointer",
        ),
        "tcmalloc": (
            "Attempt to free invalid pointer",
            "Attempt to realloc invalid pointer",
            "Attempt to get the size of an invalid pointer",
        ),
        "AddressSanitizer": (
            "ERROR: AddressSanitizer: attempting free on address which was not malloc()-ed",
            "ERROR: AddressSanitizer: alloc-dealloc-mismatch",
        ),
        "CPython": ("bad ID: Allocated using API",),
        "macOS": (
            "pointer being freed was not allocated",
            "pointer being realloc'd was not allocated",
        ),
    },
    "log-damaged-heap": {
        "glibc": (
            "corrupted double-linked list",
            "corrupted size vs. prev_size",
            "malloc(): corrupted",
            "malloc(): invalid",
            "malloc(): memory corruption",
            "malloc(): mismatching next->prev_size",
            "malloc(): unaligned",
            "malloc(): unsorted double linked list corrupted",
            "malloc(): smallbin double linked list corrupted",
            "malloc(): largebin double linked list corrupted",
            "malloc_consolidate(): ",
            "free(): corrupted unsorted chunks",
            "free(): invalid next size",
            "free(): unaligned chunk detected",
            "realloc(): invalid next size",
            "Fatal glibc error: malloc.c:",
            "malloc: Assertion `",  # sysmalloc's and _int_malloc's, before glibc 2.37
            "_int_free: Assertion `",
            "_int_realloc: Assertion `",
            "munmap_chunk: Assertion `",
        ),
        "mimalloc": ("mimalloc: error: corrupted", "mimalloc: error: buffer overflow"),
        "jemalloc": (
            "<jemalloc>: size mismatch detected",
            "<jemalloc>: Write-after-free detected",
            'Failed assertion: "',
        ),
        "tcmalloc": ("memory stomping bug", "memory corruption found"),
        "AddressSanitizer": (
            "ERROR: AddressSanitizer: heap-",
            "ERROR: AddressSanitizer: stack-buffer-",
            "ERROR: AddressSanitizer: global-buffer-",
        ),
        "CPython": ("Debug memory block at address p=",),
        "macOS": (
            "Incorrect checksum for freed object",
            "Heap corruption detected, free list is damaged",
        ),
    },
    "log-static-tls": {
        "the dynamic linker": ("cannot allocate memory in static TLS block",),
    },
    "log-not-loadable": {
        "the dynamic linker": (
            "undefined symbol: ",
            "cannot open shared object file: ",
            "cannot enable executable stack as shared object requires",
            "version `GLIBC",
            "version `CXXABI",
        ),
    },
    "log-loaded-twice": {
        "OpenMP": ("OMP: Error #15: ",),
        "protobuf": ("File already exists in database: ", "duplicate symbol 'google.protobuf."),
        "CPython": ("cannot load module more than once per process",),
    },
    "log-out-of-memory": {
        "C++": ("std::bad_alloc",),
        "Rust": ("memory allocation of ",),
        "mimalloc": ("mimalloc: error: unable to allocate", "mimalloc: error: out of memory"),
        "tcmalloc": ("Unable to allocate ",),
        "Linux": ("Out of memory: Killed process ", "oom-kill:constraint="),
    },
    "log-without-gil": {
        "CPython": (
            "the function must be called with the GIL held",
            "the function must be called with an active thread state",
            "Fatal Python error: Cannot recover from ",
            "Fatal Python error: PyThreadState_Get",
            "Fatal Python error: drop_gil",
            "Python memory allocator called without holding the GIL",
        ),
    },
    "log-crash": {
        "homefree": ("homefree: fatal: ",),
        "CPython": ("Fatal Python error: ",),
        "Linux": (
            " segfault at ",
            " general protection fault ip:",
            " general protection ip:",
            " trap invalid opcode ip:",
            " trap divide error ip:",
        ),
        "a shell or a test runner": (
            "Segmentation fault",
            "(core dumped)",
            "Bus error",
            *(f"{before}SIGSEGV" for before in (*_BY_SIGNAL, "11 ", "11 (", "11, ")),
            *(f"{before}SIGABRT" for before in (*_BY_SIGNAL, "6 ", "6 (", "6, ")),
            "exited with code 139",
            "exited with code 134",
            "exit code 139",
            "exit code 134",
            "exit code: 139",
            "exit code: 134",
            "exit status 139",
            "exit status 134",
        ),
    },
}
_FORMS = [
    (rule, who, text.encode())
    for rule, rows in _LINES.items()
    for who, texts in rows.items()
    for text in texts
]
# What stacks name: those of glibc, gdb and the sanitizers have paths of objects. A path begins a
# word, so that no word is read twice.
_WORD = rb"[^\s()\[\]{}'\"`<>:,;=|@]"
_OBJECT = re.compile(rb"(?<!%b)/%b{1,4095}\.so(?:\.\d+)*(?![\w.])" % (_WORD, _WORD))
_MODULES = re.compile(rb"Extension modules: ([\w., ]+)")
_FRAME = re.compile(rb'  File "([^"]+)", line (\d+) in (.+)')
_THREAD = b"Current thread "

_PIECE = 1 << 20
_LINE_MOST = 16 << 10  # of a longer line, no more is looked at
_AFTER = 60  # a finding has the objects that so many lines behind it name
_NAMES_MOST, _SHOWN_MOST, _FINDINGS_MOST = 5, 160, 100


def read(path):
    """Reads the log; "-" is stdin. Result: what the document says of it, and its findings: rule,
    message, count, names, and line, that of the first."""
    log = _Log()
    try:
        with open(0 if path == "-" else path, "rb", closefd=path != "-") as file:
            for piece in _pieces(file):
                log.take(piece)
    except OSError as error:
        raise Failure(f"cannot read '{path}': {error.strerror}") from None
    facts = {"path": path, "lines": log.lines, "modules": log.modules, "frames": log.frames}
    return facts, list(log.found.values())


def _pieces(file):
    """The log in pieces of whole lines."""
    left = b""
    while data := file.read(_PIECE):
        data = left + data
        end = data.rfind(b"\n") + 1
        if end == 0 and len(data) > _PIECE:
            end = len(data)
        yield data[:end]
        left = data[end:]
    yield left


class _Log:
    """What was read so far."""

    def __init__(self):
        self.lines = 0
        self.found = {}
        self.modules, self.frames = [], []
        self._last, self._until = None, 0  # the finding that gets objects, and its last line
        self._in_thread = False
        self._in_line = False  # the last piece ended in the middle of one

    def take(self, piece):
        said = _said(piece)
        goes_on, self._in_line = self._in_line, piece[-1:] not in (b"\n", b"")
        watched = said or self._in_thread or self.lines < self._until
        if not watched and _THREAD not in piece and _MODULES.search(piece) is None:
            self.lines += piece.count(b"\n") + self._in_line - goes_on
            return
        start = 0
        while start < len(piece):
            end = piece.find(b"\n", start)
            end = len(piece) if end < 0 else end
            self.lines += start > 0 or not goes_on
            if start in said:
                rank, at = said[start]
                self._tell(rank, piece[at : min(end, at + _LINE_MOST)])
            line = piece[start : min(end, start + _LINE_MOST)]
            if self.lines <= self._until:
                self._take_objects(line)
            self._take_python(line)
            start = end + 1

    def _tell(self, rank, text):
        rule, who, _ = _FORMS[rank]
        text = clean(text.decode("utf-8", "replace").rstrip())[:_SHOWN_MOST]
        # Addresses and numbers differ each time.
        key = rule, re.sub(r"0x[0-9a-f]+|\d+", "0", text)
        if key not in self.found:
            if len(self.found) == _FINDINGS_MOST:
                return
            self.found[key] = {
                "rule": rule,
                "message": f"line {self.lines}: {who} says: {text}",
                "count": 0,
                "names": [],
                "line": self.lines,
            }
        self._last, self._until = self.found[key], self.lines + _AFTER
        self._last["count"] += 1

    def _take_objects(self, line):
        names = self._last["names"]
        for path in _OBJECT.findall(line):
            name = clean(path.decode("utf-8", "replace"))
            if name not in names and len(names) < _NAMES_MOST:
                names.append(name)

    def _take_python(self, line):
        """What faulthandler says: the frames of the thread that died, and extension modules."""
        modules = _MODULES.search(line)
        if modules and not self.modules:
            names = modules[1].decode().split(",")
            self.modules = sorted({name.strip().partition(".")[0] for name in names} - {""})
        if line.startswith(_THREAD):
            self._in_thread = not self.frames
        elif self._in_thread:
            frame = _FRAME.match(line)
            self._in_thread = frame is not None and len(self.frames) < _NAMES_MOST - 1
            if frame:
                file, number, function = (
                    clean(each.decode("utf-8", "replace")) for each in frame.groups()
                )
                self.frames.append(f"{file}:{number} in {function}")


def rule_of(line):
    """The rule that a line is of; None."""
    return next((rule for rule, _, text in _FORMS if text in line), None)


def _said(piece):
    """The lines that say something: where each begins, which of _FORMS it has, and where."""
    said = {}
    for rank, (_, _, text) in enumerate(_FORMS):
        at = piece.find(text)
        while at >= 0:
            said.setdefault(piece.rfind(b"\n", 0, at) + 1, (rank, at))
            end = piece.find(b"\n", at)
            at = piece.find(text, end) if end >= 0 else -1
    return said
