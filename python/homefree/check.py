# SPDX-License-Identifier: BSD-2-Clause
"""Assertions about boundaries: who owns memory, who freed it, and what crossed. And allocation
failure on demand.

    from homefree import check

    with check.watch() as seen:
        text = greet.greet("you")
        del text
    assert seen.crossed(allocated_by="greet", freed_by="python")

A *crossing* is a block that one shared object allocated from the heap and another freed or resized,
or a block of another allocator that was freed through the heap. An object is identified by the call
of malloc, free, new or delete that it contains. CPython's own functions count as the interpreter's,
whoever called them, once homefree.install() was called; before that, PyMem_RawFree() is a jump to
free() and counts as its caller's. A block that was allocated before the watch began has no known
allocator, and freeing it is no crossing. Memory that was never the heap's, such as pymalloc's small
objects, is seen only if it is freed through the heap.

A watch sees all threads. It costs time while it is open, and nothing otherwise. Up to 16 watches
may be open at once.

    for failing in check.each_failure():  # the first call for memory fails, then the second, ...
        with failing:
            greet.greet("you")

A *call* is one request for a block of the heap, by a module on the heap or, after
homefree.install(), by CPython and NumPy; requests that pymalloc serves from memory that it has, and
libc's own, are none. One that fails raises MemoryError where the code around it handles it.
"""

import contextlib
import os
from typing import NamedTuple, get_args

from . import _homefree
from ._homefree import owner_of
from ._types import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from typing import Any

__all__ = [
    "Crossing",
    "Failing",
    "Left",
    "Watch",
    "assert_balanced",
    "assert_freed_by",
    "assert_freed_once",
    "assert_no_crossing",
    "assert_owner",
    "each_failure",
    "fail_at",
    "watch",
]


_KINDS = get_args(Kind)


class Crossing(NamedTuple):
    """Blocks that one object allocated and another freed; paths, or "" if unknown. Since 1.0."""

    allocated_by: str
    freed_by: str
    count: int
    bytes: int


class Left(NamedTuple):
    """Blocks that one object allocated and nobody freed; a path, or "" if unknown. Since 1.0."""

    allocated_by: str
    count: int
    bytes: int


class Watch:
    """A record of the heap's calls between entering and leaving a with statement.

    It can be entered once, and queried at any time after entering. Threads: any; a query during the
    watch describes that moment. Fork: the child has a copy of its own. Since 1.0.
    """

    def __init__(self, room: int = 0) -> None:
        if not isinstance(room, int) or isinstance(room, bool):
            raise TypeError(f"watch(): room must be a number of addresses, not {room!r}")
        if not 0 <= room <= 1 << 26:
            raise ValueError(
                f"watch(): room must be between 0 (the default) and {1 << 26}, not {room}"
            )
        self._room = room
        self._watch = None

    def __enter__(self) -> "Watch":
        if self._watch is not None:
            raise RuntimeError("watch(): this watch was entered before; create a new one")
        self._watch = _homefree.watch_begin(self._room)
        return self

    def __exit__(self, *_: object) -> None:
        _homefree.watch_end(self._watch)

    def _report(self):
        if self._watch is None:
            raise RuntimeError(
                "watch(): nothing was recorded yet; use it as `with watch() as seen:`"
            )
        return _homefree.watch_report(self._watch)

    def _at(self, address):
        self._report()
        return _homefree.watch_at(self._watch, _address(address))

    @property
    def crossings(self) -> "list[Crossing]":
        """A list of Crossing, one for each pair of objects."""
        return [Crossing(*values) for values in self._report()[0]]

    @property
    def allocations(self) -> int:
        """How many blocks the heap allocated."""
        return self._report()[1]

    @property
    def frees(self) -> int:
        """How many blocks the heap freed."""
        return self._report()[2]

    @property
    def left(self) -> "list[Left]":
        """A list of Left, one for each object: the blocks of the heap that it allocated, or resized
        last, since the watch began, and that were not freed before it ended. What a cache keeps is
        left, too."""
        self._report()
        return [Left(*values) for values in _homefree.watch_left(self._watch)]

    @property
    def dropped(self) -> int:
        """How many calls were not recorded because the room was used up; 0 if none."""
        return self._report()[5]

    def crossed(self, allocated_by: "str | None" = None, freed_by: "str | None" = None) -> int:
        """How many blocks crossed from one object to another.

        Each argument is a part of the object's file name, without its directory; None matches all.
        """
        return sum(
            crossing.count
            for crossing in self.crossings
            if _matches(crossing.allocated_by, allocated_by)
            and _matches(crossing.freed_by, freed_by)
        )

    def freed(self, address: int) -> int:
        """How often a block at this address was freed."""
        return self._at(address)[1]


def watch(room: int = 0) -> "Watch":
    """Create a Watch, for `with watch() as seen:`.

    room: the number of different addresses that it can record; 0 means half a million. Calls beyond
    that are counted in `dropped`.

    Raises TypeError and ValueError for an invalid room. Entering it raises MemoryError, or
    RuntimeError if 16 watches are open. Threads: any. Since 1.0.
    """
    return Watch(room)


def _matches(path, part):
    return part is None or part in os.path.basename(path)


def _address(value):
    if not isinstance(value, int):
        raise TypeError(
            f"an address must be an int, not {type(value).__name__}; for an object, pass its id()"
        )
    if not 0 <= value < 1 << 64:
        raise ValueError(f"{value} is not an address: it is negative or has more than 64 bits")
    return value


def _describe(owner):
    allocator = owner.allocator if owner.allocator is not None else "no known allocator"
    place = f" in {owner.object}" if owner.object is not None else ""
    size = f", {owner.size} bytes" if owner.size is not None else ""
    domain = f", domain {owner.domain}" if owner.domain is not None else ""
    return f"{owner.kind} ({allocator}{place}{size}{domain})"


def _refuse_dropped(seen, what):
    dropped = seen.dropped
    if dropped:
        raise AssertionError(
            f"{what} is unknown: {dropped} calls were not recorded, because the watch had no room "
            "for them; watch a shorter block, or give it more room"
        )


def assert_owner(obj_or_address: "Any", kind: Kind) -> None:
    """Assert that an address has an owner of this kind; for an object, its id() is the address.

    kind: "heap", "pymalloc", "libc", "allocator", "stack", "static", "unmapped", "pinned",
    "device", "cuda" or "unknown", as homefree.owner_of() names it.

    Raises AssertionError, which names the owner; ValueError for another kind. Threads: any. Since
    1.0.
    """
    if kind not in _KINDS:
        raise ValueError(f"assert_owner(): {kind!r} is not a kind; use one of {', '.join(_KINDS)}")
    owner = owner_of(obj_or_address)
    if owner.kind != kind:
        address = obj_or_address if isinstance(obj_or_address, int) else id(obj_or_address)
        raise AssertionError(f"{address:#x} belongs to {_describe(owner)}, expected {kind}")


@contextlib.contextmanager
def _freed_once(address, part, seen):
    owner = owner_of(address)
    block = _describe(owner)
    if owner.kind == "heap" and owner.block != address:
        raise AssertionError(f"no live block begins at {address:#x}: {block}")
    with seen:
        yield seen
    _, _, freed, _, freed_by = seen._at(address)
    if freed != 1:
        _refuse_dropped(seen, f"how often {address:#x} was freed")
        times = "never freed" if freed == 0 else f"freed {freed} times"
        by = f", last by {freed_by}" if freed > 1 and freed_by else ""
        raise AssertionError(f"{address:#x}, {block}, was {times}{by}; expected once")
    if not _matches(freed_by, part):
        raise AssertionError(
            f"{address:#x}, {block}, was freed by {freed_by or 'unknown code'}; expected {part}"
        )


@contextlib.contextmanager
def _no_crossing(seen):
    with seen:
        yield seen
    crossings = seen.crossings
    if crossings:
        lines = [
            f"\n  {c.count} ({c.bytes} bytes) allocated by {c.allocated_by or 'unknown code'}, "
            f"freed by {c.freed_by or 'unknown code'}"
            for c in crossings
        ]
        total = sum(c.count for c in crossings)
        raise AssertionError(f"{total} blocks crossed a boundary; expected none:" + "".join(lines))
    _refuse_dropped(seen, "whether anything crossed")


@contextlib.contextmanager
def _balanced(allocated_by, seen):
    with seen:
        yield seen
    left = [one for one in seen.left if _matches(one.allocated_by, allocated_by)]
    if left:
        lines = [
            f"\n  {one.count} ({one.bytes} bytes) allocated by {one.allocated_by or 'unknown code'}"
            for one in left
        ]
        raise AssertionError("blocks are left; expected none:" + "".join(lines))
    _refuse_dropped(seen, "whether anything is left")


def assert_balanced(
    allocated_by: "str | None", *, room: int = 0
) -> "AbstractContextManager[Watch]":
    """`with assert_balanced("greet"):` asserts that every block of the heap that objects with this
    text in their file name, without the directory, allocate in its body is freed before it ends, by
    whichever object.

    allocated_by: a part of the name; None for any object. room: as for watch(). What an object
    keeps on purpose, such as a cache, counts as left: run the code once before.

    The value of `with` is the Watch. Raises AssertionError, which lists what is left. Threads: any;
    blocks of all threads count. Since 1.0.
    """
    if allocated_by is not None and not isinstance(allocated_by, str):
        raise TypeError(
            f"assert_balanced(): allocated_by must be a str or None, not {allocated_by!r}"
        )
    return _balanced(allocated_by, Watch(room))


def assert_freed_once(address: int, *, room: int = 0) -> "AbstractContextManager[Watch]":
    """`with assert_freed_once(address):` asserts that its body frees this block exactly once.

    address: the start of a live block of any owner. If the heap does not own it, only frees through
    the heap are seen. Later blocks at the same address do not count.
    room: as for watch().

    The value of `with` is the Watch. Raises AssertionError: on entering if no live block starts
    there, on leaving if it was not freed once. Threads: any; frees of all threads count. Since 1.0.
    """
    return _freed_once(_address(address), None, Watch(room))


def assert_freed_by(
    address: int, freed_by: "str | None", *, room: int = 0
) -> "AbstractContextManager[Watch]":
    """`with assert_freed_by(address, "greet"):` asserts that its body frees this block once, and
    that the object that does has this text in its file name, without the directory.

    address, room: as for assert_freed_once(). freed_by: a part of the name; None for any object.

    The value of `with` is the Watch. Raises AssertionError as assert_freed_once() does, and on
    leaving if another object freed it. Threads: any; frees of all threads count. Since 1.0.
    """
    if freed_by is not None and not isinstance(freed_by, str):
        raise TypeError(f"assert_freed_by(): freed_by must be a str or None, not {freed_by!r}")
    return _freed_once(_address(address), freed_by, Watch(room))


def assert_no_crossing(*, room: int = 0) -> "AbstractContextManager[Watch]":
    """`with assert_no_crossing():` asserts that no block crosses a boundary during its body, in any
    thread.

    room: as for watch(). The value of `with` is the Watch. Raises AssertionError, which lists the
    crossings. Threads: any. Since 1.0.
    """
    return _no_crossing(Watch(room))


class Failing:
    """Calls for memory, counted between entering and leaving a with statement, of which one fails.

    From fail_at() or each_failure(). Entered and left on the same thread, unless it counts the
    whole process's calls. It can be entered once. Since 1.0.
    """

    def __init__(self, n: int, process: bool = False, expected: bool = False) -> None:
        if not isinstance(n, int) or isinstance(n, bool):
            raise TypeError(f"fail_at(): n must be the number of a call, not {n!r}")
        if not 0 <= n < 1 << 64:
            raise ValueError(
                f"fail_at(): n must be 0 (none fails) or the number of a call, not {n}"
            )
        self._n = n
        self._flags = 1 if process else 0
        self._expected = expected
        self._state = "new"
        self._counts = (0, 0)

    def __enter__(self) -> "Failing":
        if self._state != "new":
            raise RuntimeError("fail_at(): this was entered before; create a new one")
        self._state = "counting"
        _homefree.fail_at(self._n, self._flags)
        return self

    def __exit__(
        self, kind: "type[BaseException] | None", value: object, traceback: object
    ) -> bool:
        self._counts = _homefree.fail_counts(self._flags, True) or self._counts
        self._state = "left"
        return (
            self._expected
            and self._counts[1] > 0
            and kind is not None
            and issubclass(kind, MemoryError)
        )

    def _now(self):
        if self._state != "counting":
            return self._counts
        return _homefree.fail_counts(self._flags, False) or self._counts

    @property
    def calls(self) -> int:
        """How many calls were made, the failed one included."""
        return self._now()[0]

    @property
    def failed(self) -> int:
        """How many of them were made to fail: 0 or 1."""
        return self._now()[1]


def fail_at(n: int, *, process: bool = False) -> "Failing":
    """`with fail_at(n):` makes the nth call for memory in its body fail; 1 is the first one.

    n: the number of the call; 0 fails none, and counts.
    process: whether calls of all threads count, instead of this thread's alone.

    The value of `with` is a Failing, which tells how many calls there were. Raises TypeError and
    ValueError for a wrong n, RuntimeError on entering if 16 threads do the same. Threads: any; one
    inside another on the same thread ends the outer one. Since 1.0.
    """
    return Failing(n, process)


def each_failure(*, process: bool = False) -> "Iterator[Failing]":
    """`for failing in each_failure():` with `with failing:` as its body runs that with statement
    with the first call for memory failing, then with the second, and so on, until nothing fails.

    A MemoryError that leaves the with statement is expected, if a call was made to fail, and ends
    there. Other exceptions go on.

    process: as for fail_at(). Raises RuntimeError if the loop's body does not enter `failing`.
    Threads: any. Since 1.0.
    """
    n = 0
    while True:
        n += 1
        failing = Failing(n, process, expected=True)
        yield failing
        if failing._state != "left":
            raise RuntimeError("each_failure(): write `with failing:` around the code to be tested")
        if failing.failed == 0:
            return
