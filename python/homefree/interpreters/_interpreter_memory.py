# SPDX-License-Identifier: BSD-2-Clause
"""memory(): what each interpreter has. leaks(): what those that have ended left.

State: none. Threads: any.
"""

from __future__ import annotations

from typing import NamedTuple

from .. import _homefree
from ._queue import places

__all__ = ["InterpreterLeak", "InterpreterMemory", "leaks", "memory"]


class InterpreterMemory(NamedTuple):
    """What memory() knows of an interpreter; in bytes. Since 1.0."""

    interpreter: int
    """CPython's number for it: 0 is the main one."""
    index: int | None
    """In its executor, or in its group in C; None: it is in none."""
    live: int
    """objects + blocks, and counted."""
    resident: int
    """What of arenas, blocks and counted is in physical memory."""
    objects: int
    """Live objects of pymalloc, of at most 512 bytes each. They are in arenas."""
    arenas: int
    """Address space of pymalloc's arenas."""
    blocks: int
    """Live memory of objects of more than 512 bytes, and pymalloc's own. 0 for the main
    interpreter and those of others, whose are not known."""
    counted: int | None
    """With memory_limit: NumPy's arrays that were made there and live, wherever they are, and the C
    memory of its private copies. None: nobody counts it."""
    limit: int | None
    """memory_limit while a task runs; None: any."""
    used: int
    """What counts for memory_limit: arenas, as a whole, blocks and counted; 0 without one."""
    peak: int
    """The most that was ever used."""
    refused: int
    """How many allocations were refused."""


def memory() -> list[InterpreterMemory]:
    """What memory each living interpreter has: the main one, those of executors and of groups in C,
    and those that called prepare().

    Counted are pymalloc's arenas (in interpreters of others, those since homefree.install()); in
    interpreters of executors and groups, what their objects have of more than 512 bytes; and with
    Executor(memory_limit=...), NumPy's arrays that were made there and what private copies of
    extension modules allocate in C. memory_limit="unlimited" counts and refuses nothing.

    Not counted: C memory of modules that are no private copies and of libraries; CPython's RAW
    domain; code and data of modules; threads' stacks; what modules map by themselves; caches in
    allocators other than homefree's; and what crossed by reference from another interpreter, which
    is that one's. A block of at most 32 KiB counts as resident. homefree.memory() has the process's
    whole memory.

    It looks at each block of the heap, which takes a second for some ten million, without a lock:
    what other threads do meanwhile is counted or not. In a free-threaded CPython, nothing is known
    of the one interpreter. Raises OSError if there is no memory. Threads: any. Fork: the child has
    the main interpreter alone. Since 1.0.
    """
    known = places()
    return [
        InterpreterMemory(number, known.get(number, index if grouped else None), *more)
        for number, index, grouped, *more in _homefree.interpreters_memory()
    ]


class InterpreterLeak(NamedTuple):
    """Because of what memory of ended interpreters stays, for leaks(). Since 1.0."""

    file: str
    """The module's, or another object's."""
    why: str
    """A sentence."""
    interpreters: int
    """How many have left something because of it."""
    bytes: int
    """Of all these interpreters together. If several modules keep an interpreter's, each has all
    of it."""

    @property
    def cycle(self) -> int:
        """Bytes of each interpreter."""
        return self.bytes // self.interpreters


def leaks() -> list[InterpreterLeak]:
    """Which modules keep the memory of interpreters that have ended, those of executors and of
    groups in C, and why. Most bytes come first.

    An interpreter's objects go back when it has ended, unless a module may still use them: one that
    has started threads which run on, one for all interpreters that has memory, or any object whose
    static data refers to something. What modules take from malloc() and never free is not counted:
    homefree run --diagnose --leaks has that. Threads: any. Fork: the child has what there was.
    Since 1.0.
    """
    rows = [InterpreterLeak(*row) for row in _homefree.interpreters_leaks()]
    return sorted(rows, key=lambda row: -row.bytes)
