"""Assertions about boundaries: who owns memory, who freed it, and what crossed.

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
"""

import os
from typing import NamedTuple

from . import _homefree
from ._homefree import owner_of

__all__ = ["Crossing", "Watch", "assert_freed_once", "assert_no_crossing", "assert_owner", "watch"]


_KINDS = ("heap", "pymalloc", "libc", "allocator", "stack", "static", "unmapped", "unknown")


class Crossing(NamedTuple):
    """Blocks that one object allocated and another freed; paths, or "" if unknown. Since 1.0."""

    allocated_by: str
    freed_by: str
    count: int
    bytes: int


class Watch:
    """A record of the heap's calls between entering and leaving a with statement.

    It can be entered once, and queried at any time after entering. Threads: any; a query during the
    watch describes that moment. Fork: the child has a copy of its own. Since 1.0.
    """

    def __init__(self, room=0):
        if not isinstance(room, int) or isinstance(room, bool):
            raise TypeError(f"watch(): room must be a number of addresses, not {room!r}")
        if not 0 <= room <= 1 << 26:
            raise ValueError(
                f"watch(): room must be between 0 (the default) and {1 << 26}, not {room}"
            )
        self._room = room
        self._watch = None

    def __enter__(self):
        if self._watch is not None:
            raise RuntimeError("watch(): this watch was entered before; create a new one")
        self._watch = _homefree.watch_begin(self._room)
        return self

    def __exit__(self, *_):
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
    def crossings(self):
        """A list of Crossing, one for each pair of objects."""
        return [Crossing(*values) for values in self._report()[0]]

    @property
    def allocations(self):
        """How many blocks the heap allocated."""
        return self._report()[1]

    @property
    def frees(self):
        """How many blocks the heap freed."""
        return self._report()[2]

    @property
    def dropped(self):
        """How many calls were not recorded because the room was used up; 0 if none."""
        return self._report()[5]

    def crossed(self, allocated_by=None, freed_by=None):
        """How many blocks crossed from one object to another.

        Each argument is a part of the object's file name, without its folder; None matches all.
        """
        return sum(
            crossing.count
            for crossing in self.crossings
            if _matches(crossing.allocated_by, allocated_by)
            and _matches(crossing.freed_by, freed_by)
        )

    def freed(self, address):
        """How often a block at this address was freed."""
        return self._at(address)[1]


def watch(room=0):
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


def assert_owner(obj_or_address, kind):
    """Assert that an address has an owner of this kind; for an object, its id() is the address.

    kind: "heap", "pymalloc", "libc", "allocator", "stack", "static", "unmapped" or "unknown", as
    homefree.owner_of() names it.

    Raises AssertionError, which names the owner; ValueError for another kind. Threads: any. Since
    1.0.
    """
    if kind not in _KINDS:
        raise ValueError(f"assert_owner(): {kind!r} is not a kind; use one of {', '.join(_KINDS)}")
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

    address: the start of a live block of any owner. If the heap does not own it, only frees through
    the heap are seen. Later blocks at the same address do not count.
    room: as for watch().

    The value of `with` is the Watch. Raises AssertionError: on entering if no live block starts
    there, on leaving if it was not freed once. Threads: any; frees of all threads count. Since 1.0.
    """
    return _FreedOnce(address, room)


def assert_no_crossing(*, room=0):
    """`with assert_no_crossing():` asserts that no block crosses a boundary during its body, in any
    thread.

    room: as for watch(). The value of `with` is the Watch. Raises AssertionError, which lists the
    crossings. Threads: any. Since 1.0.
    """
    return _NoCrossing(room)
