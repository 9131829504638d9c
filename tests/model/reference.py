"""What homefree promises about ownership, as simply as it can be said.

A block belongs to who allocated it, for as long as it lives; any side may free, resize and measure
it, and it goes home. A World is one process; a fork copies it.
"""

import dataclasses

MALLOC, NEW, NEW_ARRAY = "malloc", "new", "new[]"  # groups: what fits together
KINDS = {  # the order is side.h's
    "malloc": MALLOC,
    "calloc": MALLOC,
    "aligned": MALLOC,
    "strdup": MALLOC,
    "new": NEW,
    "new[]": NEW_ARRAY,
}
CALLS = ("malloc", "calloc", "aligned")
SMALL_OBJECT = 512  # bytes: up to here pymalloc serves CPython's objects


@dataclasses.dataclass(frozen=True)
class Side:
    owner: str = "libc"  # of what it allocates
    kinds: tuple = tuple(KINDS)
    takes: tuple = ()  # owners whose blocks it may free; () means all
    resizes: bool = True
    file: bool = True  # loaded and unloaded by name
    pinned: bool = False  # homefree keeps it loaded
    adoptable: bool = False


SIDES = {
    "host": Side(kinds=(*CALLS, "strdup"), file=False),
    "heap": Side("heap", kinds=CALLS, file=False),
    "plain": Side(adoptable=True),
    "bound": Side(adoptable=True),
    "shim": Side("heap"),
    "runtime": Side(kinds=("new", "new[]"), resizes=False, pinned=True),
    # Their own free() is out of reach: only they may call it with their blocks.
    "hidden-jemalloc": Side("its jemalloc", takes=("its jemalloc",), pinned=True),
    "hidden-tcmalloc": Side("its tcmalloc", takes=("its tcmalloc",), pinned=True),
    "named-mimalloc": Side("mimalloc", kinds=CALLS, takes=("mimalloc", "heap")),
    "named-tcmalloc": Side("tcmalloc", kinds=CALLS, takes=("tcmalloc", "heap")),
    "raw": Side(kinds=("malloc", "calloc"), file=False),
    "object": Side(kinds=("malloc", "calloc"), takes=("pymalloc",), file=False),
}


@dataclasses.dataclass
class Block:
    owner: str
    group: str
    size: int
    by: str  # the side that allocated it
    last: str  # or that resized it last
    inside: bool  # in the region


@dataclasses.dataclass
class World:
    """One process."""

    libc: str = "libc"  # who serves libc's callers: "heap" if homefree is preloaded
    homefree: bool = False
    loaded: set = dataclasses.field(default_factory=set)
    adopted: set = dataclasses.field(default_factory=set)
    threads: set = dataclasses.field(default_factory=set)
    python: str = ""  # while it runs: what is installed
    installed: str = "off"  # in this interpreter or an earlier one
    blocks: dict = dataclasses.field(default_factory=dict)  # by slot

    def usable(self, side):
        if side in ("raw", "object"):
            return bool(self.python)
        if side == "heap":
            return self.homefree
        return side in self.loaded or not SIDES[side].file

    def install(self, mode, forgets):
        """CPython starts. What was installed once stays, unless this CPython forgets it then."""
        modes = ("off", "arena", "full")
        before = "off" if forgets else self.installed
        self.installed = self.python = max(before, mode, key=modes.index)

    def owner_of_new(self, side, kind, size):
        if side == "object" and size <= SMALL_OBJECT and self.python != "full":
            return "pymalloc"
        if side in ("raw", "object"):
            return self.libc if self.python == "off" else "heap"
        if side in self.adopted:
            return "heap"
        owner = SIDES[side].owner
        if kind == "strdup" and owner != "heap":  # libc allocates it
            return self.libc
        return self.libc if owner == "libc" else owner

    def may_take(self, side, block, thread):
        if not self.usable(side) or (side == "runtime" and block.group == MALLOC):
            return False
        if block.group not in {KINDS[kind] for kind in SIDES[side].kinds}:
            return False
        if block.owner == "pymalloc":  # its thread must be attached; others reach its arenas inside
            crosses = block.inside and not SIDES[side].takes and self.homefree
            return thread == 0 and bool(self.python) and (side == "object" or crosses)
        if side == "object":
            return block.by == "object" and thread == 0
        if SIDES[side].takes and block.owner not in SIDES[side].takes:
            return False
        return self.homefree or block.owner == "libc" or side == block.by  # else nothing crosses

    def left_in_heap(self):
        """How many blocks may be left there, but for CPython's own. Where homefree is not installed
        in CPython, its functions jump on to libc's, and count as their callers."""
        left = [block for block in self.blocks.values() if block.owner == "heap"]
        others = sum(block.last not in ("raw", "object") for block in left)
        return range(others, others + 1 if self.installed != "off" else len(left) + 1)
