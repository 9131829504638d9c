# SPDX-License-Identifier: BSD-2-Clause
"""Whose the process's memory is.

State: which allocators live in which files, for as long as the process. Threads: any.
"""

from __future__ import annotations

import os
import tempfile

from . import _homefree
from .command import memory_table
from .command.memory_metrics import metrics
from .command.memory_owners import Facts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

    from ._types import AnyPath

_ASKED_MOST = 4096  # addresses of a range whose owner is asked for
_STEP_LEAST = 64 << 10
_OWN_FILES = {__file__, os.path.join(os.path.dirname(__file__), "_profile.py")}
_MALLINFO = (
    "arena",
    "ordblks",
    "smblks",
    "hblks",
    "hblkhd",
    "usmblks",
    "fsmblks",
    "uordblks",
    "fordblks",
    "keepcost",
)
_UNLIMITED = (1 << 64) - 1
_IN_FILES: dict[str, list[str]] = {}


def _region() -> tuple[int, int] | None:
    """The heap's addresses, which the library exports; None without ctypes."""
    try:
        import ctypes
    except ImportError:
        return None

    class Range(ctypes.Structure):
        _fields_ = [("base", ctypes.c_size_t), ("size", ctypes.c_size_t)]

    found = Range.in_dll(ctypes.CDLL(_homefree.__file__), "hf_region_range")
    return found.base, found.base + found.size


def libc_heap() -> tuple[int, int] | None:
    """Bytes in live blocks of libc's malloc, and in free ones; None before glibc 2.33."""
    try:
        import ctypes

        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except (ImportError, AttributeError):
        return None

    class Info(ctypes.Structure):
        _fields_ = [(name, ctypes.c_size_t) for name in _MALLINFO]

    mallinfo2.restype = Info
    info = mallinfo2()
    return info.uordblks + info.hblkhd, info.fordblks


def live_in_python() -> int:
    """Bytes in live blocks of CPython's pymalloc and mimalloc; 0 where it has another allocator."""
    from .command.memory_owners import Looking
    from .command.memory_process import Process

    with Process() as process:
        return Looking(process, Facts()).live_in_python()


def _of_others() -> dict[tuple[str, str], int]:
    """{allocator and object: bytes in live blocks}, of those that tell."""
    try:
        return {row[:2]: row[2] for row in _homefree.stats_of_others()}
    except OSError:  # the heap is another version's
        return {}


class _Inside(Facts):
    """What homefree says in this process."""

    def __init__(self):
        stats = _homefree.stats()
        self.region = _region()
        self.live, self.books = stats["allocated"], stats["metadata"]
        self._others = _of_others()

    def live_in(self, name, path):
        return self._others.get((name, path))

    def asked(self, mappings):
        return _asked()

    def allocator_at(self, start, end):
        step = max(_STEP_LEAST, (end - start) // _ASKED_MOST // _STEP_LEAST * _STEP_LEAST)
        begun = last = None
        for at in range(start, end, step):
            owner = _homefree.owner_of(at)
            name = (owner.allocator, owner.object) if owner.kind == "allocator" else None
            if name != last:
                if last is not None:
                    yield begun, at, *last
                begun, last = at, name
        if last is not None:
            yield begun, end, *last

    def limits(self):
        return [
            {
                "name": name.decode("utf-8", "replace"),
                "limit": most if most != _UNLIMITED else None,
                "used": used,
                "peak": peak,
                "refused": refused,
            }
            for name, most, used, peak, refused, *_ in _homefree.limits()
        ]

    def allocators_in(self, path):
        if path not in _IN_FILES:
            try:
                _IN_FILES[path] = sorted(set(_homefree.file_facts(path, "")["allocators"]))
            except OSError:
                _IN_FILES[path] = []
        return _IN_FILES[path]


def memory(file: TextIO | None = None) -> dict[str, Any]:
    """Whose this process's resident memory is: every byte of it, by allocator and by file.

    file: a text file, such as sys.stdout, to print the table to as well; None prints nothing.

    Returns the document of `homefree memory --json` as a dict. "resident" bytes are those of
    "rows", one for each allocator and object that it lives in, and of "rest": code, files, stacks,
    and what nobody is known to own, so "attributed" (0 to 1) says how much has an owner. A row's
    "live" and "free" are bytes in blocks of the program and in unused ones; None where that is
    unknown. "asked" lists who asked for live memory of the heap, by stack, from profile_begin() on;
    without it, it is empty. "limits" lists what libraries may have (limit()), and have.

    It reads /proc/self/smaps and headers in the process's memory, and takes from a hundredth of a
    second to one, by how much there is; the GIL is held for most of it. Raises OSError if /proc
    cannot be read. Threads: any; what they do meanwhile may be seen or not. Since 1.0.
    """
    from .command.memory_process import Gone

    libc = libc_heap()
    try:
        document = memory_table.document("self", _Inside(), libc)
    except Gone as why:
        raise OSError(f"homefree: {why}") from None
    if file is not None:
        from .command.memory_text import text

        file.write(text(document, path="").decode("utf-8", "replace"))
    return document


def _asked() -> list[dict[str, Any]] | None:
    """Who asked for live memory, as the document has it."""
    from ._profile import profile

    try:
        rows = profile()
    except (OSError, RuntimeError):  # the heap is another version's
        return None
    return [
        {
            "object": row.object or None,
            "bytes": round(row.bytes),
            "blocks": round(row.blocks),
            "samples": row.samples,
            "python": [list(frame) for frame in row.python],
            "native": [list(frame) for frame in row.native],
        }
        for row in rows
        if not any(frame.file in _OWN_FILES for frame in row.python)
    ]


def memory_diff(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """What grew between two results of memory(), by allocator, by object, and by stack.

    Returns the document of `homefree memory --diff --json` as a dict: "grown" bytes in "seconds";
    "rows" and "rest" as memory() has them, with "grown" for the resident bytes and, in "rows",
    "live" for those in live blocks; and "asked" if both have it. What shrank is negative. Threads:
    any. Since 1.0.
    """
    return memory_table.diff(before, after)


def openmetrics() -> str:
    """memory() as text for Prometheus, and for whoever else reads OpenMetrics.

    Threads: any. Since 1.0.
    """
    return metrics(memory()).decode()


def openmetrics_file(path: AnyPath) -> None:
    """Writes openmetrics() to a file, which appears as a whole: for node_exporter's textfile
    collector, which reads PATH.prom. Raises OSError. Threads: any. Since 1.0."""
    path = os.fspath(path)
    text = openmetrics()
    directory, name = os.path.split(os.fsdecode(path))
    descriptor, beside = tempfile.mkstemp(prefix=f".{name}.", dir=directory or ".")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(beside, 0o644)  # the collector is another user
        os.rename(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
