"""Assertions about boundaries: who owns memory, who freed it, and what crossed.

    from homefree import check

    with check.watch() as seen:
        text = greet.greet("you")
        del text
    assert seen.crossed(allocated_by="greet", freed_by="python")

A *crossing* is a block that one shared object got from the heap and another one freed or resized,
or memory of another allocator that was freed through the heap. "Who" is the object that holds the
call of malloc, free, new or delete; for what CPython's own functions do, whoever called them, it is
the interpreter, once homefree.install() was called. (Before, PyMem_RawFree() is a jump to free(),
and counts as its caller's.) What was allocated before a watch began has no known allocator, and
freeing it is no crossing. Memory that was never the heap's, such as pymalloc's small objects, is
seen only where it is freed through the heap.

Watching sees all threads. It costs time while a watch is open, and nothing otherwise. Watches may
overlap, up to 16 of them.
"""

import os
from typing import NamedTuple

from . import _homefree
from ._homefree import owner_of

__all__ = ["Crossing", "Watch", "assert_freed_once", "assert_no_crossing", "assert_owner", "watch"]


_KINDS = ("heap", "pymalloc", "libc", "allocator", "stack", "static", "unmapped", "unknown")


class Crossing(NamedTuple):
    """Blocks that one object allocated and another freed; paths, "" where one is not known."""

    allocated_by: str
    freed_by: str
    count: int
    bytes: int


class Watch:
    """What the heap saw between entering and leaving; it may be asked at any time after entering.

    It can be entered once. Threads: any; what is asked meanwhile is of that moment. A child of
    fork() has a copy of its own.
    """

    def __init__(self, room=0):
        if not isinstance(room, int) or isinstance(room, bool):
            raise TypeError(f"watch(): room is a number of addresses, not {room!r}")
        if not 0 <= room <= 1 << 26:
            raise ValueError(f"watch(): room is from 0 (the default) to {1 << 26}, not {room}")
        self._room = room
        self._watch = None

    def __enter__(self):
        if self._watch is not None:
            raise RuntimeError("watch(): this watch was entered before; make another one")
        self._watch = _homefree.watch_begin(self._room)
        return self

    def __exit__(self, *_):
        _homefree.watch_end(self._watch)

    def _report(self):
        if self._watch is None:
            raise RuntimeError("watch(): nothing was seen yet; use it as `with watch() as seen:`")
        return _homefree.watch_report(self._watch)

    def _at(self, address):
        self._report()
        return _homefree.watch_at(self._watch, _address(address))

    @property
    def crossings(self):
        """A list of Crossing, one for each pair of objects."""
        return [Crossing(*values) for values in self._report()[0]]

    @property
    def allocations(self):
        """How many blocks the heap handed out."""
        return self._report()[1]

    @property
    def frees(self):
        """How many blocks the heap took back."""
        return self._report()[2]

    @property
    def dropped(self):
        """How many calls were not recorded because the room was used up; 0 when all is known."""
        return self._report()[5]

    def crossed(self, allocated_by=None, freed_by=None):
        """How many blocks crossed from one object to another.

        Each is a part of the object's file name (not of its folder); None means any object.
        """
        return sum(
            crossing.count
            for crossing in self.crossings
            if _matches(crossing.allocated_by, allocated_by)
            and _matches(crossing.freed_by, freed_by)
        )

    def freed(self, address):
        """How often a block that begins at this address was freed."""
        return self._at(address)[1]


def watch(room=0):
    """A Watch, for `with watch() as seen:`.

    room: how many different addresses it has room for; 0 means half a million. What does not fit is
    counted in `dropped`. Entering raises MemoryError, or RuntimeError where 16 are open.
    """
    return Watch(room)


def _matches(path, part):
    return part is None or part in os.path.basename(path)


def _address(value):
    if not isinstance(value, int):
        raise TypeError(
            f"an address is an int, not {type(value).__name__}; for an object itself, pass its id()"
        )
    if not 0 <= value < 1 << 64:
        raise ValueError(f"{value} is no address: it is negative or has more than 64 bits")
    return value


def _describe(owner):
    allocator = owner.allocator if owner.allocator is not None else "nobody known"
    place = f" in {owner.object}" if owner.object is not None else ""
    size = f", {owner.size} bytes" if owner.size is not None else ""
    domain = f", domain {owner.domain}" if owner.domain is not None else ""
    return f"{owner.kind} ({allocator}{place}{size}{domain})"


def _refuse_dropped(seen, what):
    dropped = seen.dropped
    if dropped:
        raise AssertionError(
            f"{what} cannot be told: {dropped} calls were not recorded, because the watch had no "
            "room for them; watch a shorter block, or give it more room"
        )


def assert_owner(obj_or_address, kind):
    """Assert what owns an address; an object means the address that id() gives.

    kind: "heap", "pymalloc", "libc", "allocator", "stack", "static", "unmapped" or "unknown", as
    homefree.owner_of() names it. Raises AssertionError, or ValueError for another kind.
    """
    if kind not in _KINDS:
        raise ValueError(f"assert_owner(): {kind!r} is no kind; use one of {', '.join(_KINDS)}")
    owner = owner_of(obj_or_address)
    if owner.kind != kind:
        address = obj_or_address if isinstance(obj_or_address, int) else id(obj_or_address)
        raise AssertionError(f"{address:#x} belongs to {_describe(owner)}, expected {kind}")


class _Assertion:
    def __init__(self, room):
        self._seen = Watch(room)

    def __enter__(self):
        self._before()
        return self._seen.__enter__()

    def __exit__(self, kind, value, traceback):
        self._seen.__exit__()
        if kind is None:
            self._after()

    def _before(self):
        pass


class _FreedOnce(_Assertion):
    def __init__(self, address, room):
        self._address = _address(address)
        super().__init__(room)

    def _before(self):
        owner = owner_of(self._address)
        self._owner = _describe(owner)
        if owner.kind == "heap" and owner.block != self._address:
            raise AssertionError(f"no live block begins at {self._address:#x}: {self._owner}")

    def _after(self):
        _, _, freed, _, freed_by = self._seen._at(self._address)
        if freed == 1:
            return
        _refuse_dropped(self._seen, f"how often {self._address:#x} was freed")
        times = "never freed" if freed == 0 else f"freed {freed} times"
        by = f", last by {freed_by}" if freed > 1 and freed_by else ""
        raise AssertionError(f"{self._address:#x}, {self._owner}, was {times}{by}; expected once")


class _NoCrossing(_Assertion):
    def _after(self):
        crossings = self._seen.crossings
        if crossings:
            lines = [
                f"  {c.count} ({c.bytes} bytes) allocated by {c.allocated_by or 'unknown code'}, "
                f"freed by {c.freed_by or 'unknown code'}"
                for c in crossings
            ]
            total = sum(c.count for c in crossings)
            raise AssertionError(
                f"{total} blocks crossed a boundary; expected none:\n" + "\n".join(lines)
            )
        _refuse_dropped(self._seen, "whether anything crossed")


def assert_freed_once(address, *, room=0):
    """`with assert_freed_once(address):` asserts that its body frees this block exactly once.

    address: where a live block begins, whoever owns it; of a block that the heap does not own, only
    frees through the heap are seen. What is allocated there afterwards, and freed, does not count.
    The value of `with` is the Watch. Raises AssertionError.
    """
    return _FreedOnce(address, room)


def assert_no_crossing(*, room=0):
    """`with assert_no_crossing():` asserts that nothing crosses a boundary in its body, in any
    thread. The value of `with` is the Watch. Raises AssertionError, which lists what crossed.
    """
    return _NoCrossing(room)
