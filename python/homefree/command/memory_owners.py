# SPDX-License-Identifier: BSD-2-Clause
"""Whose each page of a process is: every resident byte gets one owner.

Files, and what the kernel names, are known by their mappings. Anonymous memory is known by what
lies in it, one rule after the other, the surest first: the heap's region; glibc's heaps, which
begin with a header; the stacks of threads, below which a guard lies and in which the thread's
record is; CPython's pools, and the segments of its mimalloc; glibc's mapped chunks; pages of which
homefree saw an allocator map them; memory to which the data of a shared object points; and what
lies beside pages of one allocator. What no rule knows is nobody's.

Constraint: memory_process.py's. A header that contradicts itself is none, so a process that lies
gets wrong rows and nothing worse.

State: none between calls. One thread.
"""

import bisect
import collections
import re

from . import libc_chunks
from .memory_process import PAGE

# kind: "allocator", and then `name` is the allocator's and `object` where it lives; or what else it
# is ("code", "file", "shared", "stack", "kernel", "device", "anonymous", "unknown"), and then
# `object` is a path.
Owner = collections.namedtuple("Owner", "kind name object how")
Piece = collections.namedtuple("Piece", "start end owner")

UNKNOWN = Owner("unknown", None, None, "mapped")
STACK = Owner("stack", None, None, "mapped")
KERNEL = Owner("kernel", None, None, "mapped")

_ARENA = libc_chunks.ARENA
_CHUNKS_MOST = 300_000  # that a look has time for
_CHUNK_LEAST = 64 << 10
_MISSED_MOST = 4096  # pages in which no chunk begins
_POOL_HEADER = 48
_GRANULE = 16  # of pymalloc's sizes
# Of CPython's mimalloc (loader/host/mimalloc_segments.h): a segment, a slice of it, and the words
# of its header, behind which an entry for each slice lies.
_SEGMENT, _SLICE, _SEGMENT_HEADER, _SLICES_MOST = 32 << 20, 64 << 10, 33, 512
_STACK_SIZES = 64 << 20, 16 << 20, 8 << 20, 4 << 20, 2 << 20, 1 << 20, 512 << 10, 256 << 10
_RECORD_PAGES_MOST = 512  # resident ones in which a thread's record is looked for
_RECORD_LEAST = 0x700  # bytes of it
_SCANNED_MOST = 32 << 20
_SOURCE_MOST = 4 << 20
_AREA = 20  # bits: of addresses that are looked up together
_ROUNDS = 4
_LOOKED_MOST = 64 << 30  # of addresses in a row
_BSS_MOST = 1 << 20  # where no header says how large it is
_PYTHON = re.compile(r"/(?:libpython|python)(?:3(?:\.(\d+)(t?))?)?(?:\.so[.\d]*)?$")
_PYTHON_FILES = re.compile(r"/python3\.(\d+)(t?)/")
_LIBC = re.compile(r"/libc(?:-2\.\d+)?\.so(?:\.6)?$")


class Facts:
    """What is known about homefree in a process; here: it is not in it, or cannot be asked."""

    region = None  # (start, end)
    live = books = None  # bytes of the heap

    def asked(self, mappings):
        """Who asked for live memory (homefree-memory(1)); None: unknown."""
        del mappings
        return None

    def limits(self):
        """What libraries may have (homefree-memory(1)); None: unknown."""
        return None

    def live_in(self, name, path):
        """Bytes in live blocks of another allocator, which lives in an object; None: unknown."""
        del name, path
        return None

    def allocator_at(self, start, end):
        """[(start, end, name, object)]: pages of other allocators between two addresses."""
        del start, end
        return []

    def allocators_in(self, path):
        """Names of the allocators inside of an object, as far as they are known."""
        del path
        return []


class Looking:
    """One look at one process. pieces: each page that may be resident, by address; live: bytes in
    live blocks, by owner; last_of_libc: those of the live block that lies at the end of glibc's
    main heap, None where that is unknown."""

    def __init__(self, process, facts):
        self.process, self.facts = process, facts
        self.pieces, self.live = [], collections.Counter()
        self.last_of_libc = None
        self._heaps, self._mapped_chunks = [], 0  # glibc's, and bytes
        self._break = self._cookie = None
        self._find_objects()

    # ---- shared objects --------------------------------------------------------------------

    def _find_objects(self):
        """What each file takes: its mappings, and the zeroed memory behind them (bss)."""
        code = {m.file for m in self.process.mappings if m.file and "x" in m.mode}
        self._ends, self._data = {}, collections.defaultdict(list)
        self._code, self._python, self._libc = code, None, None
        last = named = None
        for mapping in self.process.mappings:
            if mapping.file in code:
                if last is None or mapping.file != last.file or mapping.offset == 0:
                    self._ends[mapping.file] = self._end_of(mapping)
                if _LIBC.search(mapping.path):
                    self._libc = mapping.path
                found = _PYTHON.search(mapping.path)
                if found and (self._python is None or "libpython" in mapping.path):
                    self._python = mapping.path
                    named = found
                last = mapping
        if self._python is not None and not named[1]:  # a link's name, or a copy's
            found = (_PYTHON_FILES.search(mapping.path) for mapping in self.process.mappings)
            named = next(filter(None, found), named)
        if self._python is not None:
            self._small_pools = named[1] is not None and int(named[1]) < 10
            self._free_threaded = bool(named[2])
        self._pooled = self._python is not None and not self._free_threaded
        self._segmented = self._python is not None and int(named[1] or 0) >= 13

    def _end_of(self, mapping):
        """Where the memory of an object ends, by its program headers; 0: unknown."""
        if mapping.offset != 0:
            return 0
        head = self.process.bytes_at(mapping.start, 64)
        if head[:6] != b"\x7fELF\x02\x01":
            return 0
        count = min(int.from_bytes(head[56:58], "little"), 64)
        table = mapping.start + int.from_bytes(head[32:40], "little")
        end, least = 0, None
        for at in range(count):
            row = self.process.bytes_at(table + 56 * at, 56)
            if row[:4] == b"\1\0\0\0":  # PT_LOAD
                address = int.from_bytes(row[16:24], "little")
                least = address if least is None else min(least, address)
                end = max(end, address + int.from_bytes(row[40:48], "little"))
        if least is None:
            return 0
        return -(-(mapping.start + end - least // PAGE * PAGE) // PAGE) * PAGE

    # ---- all mappings ------------------------------------------------------------------------

    def own(self):
        """Finds the owner of everything."""
        pointers = self.process.threads().values()
        self._stack_pointers = sorted(pointer for pointer in pointers if pointer)
        before = None  # the mapping that ends where this one begins
        holder = None  # the last mapping of an object's file
        runs = []  # of anonymous memory: the kernel may have split what one allocator has mapped
        for mapping in self.process.mappings:
            if before is not None and before.end != mapping.start:
                before = None
            if mapping.file in self._code:
                holder = mapping
            owner = self._by_name(mapping)
            if owner is not None and mapping.path == "[heap]":  # others may use brk, too
                left = self._apply([(mapping.start, mapping.end)], self._foreign)
                self.pieces += [Piece(start, end, owner) for start, end in left]
                self._note_break(mapping, before)
            elif owner is not None:
                self.pieces.append(Piece(mapping.start, mapping.end, owner))
                if owner.kind == "code" and "w" in mapping.mode and mapping.rss:
                    self._data[mapping.path].append((mapping.start, mapping.end))
            elif mapping.rss or "w" in mapping.mode:
                start = self._take_bss(mapping, holder)
                if runs and runs[-1][1] == start and runs[-1][2] == mapping.mode:
                    runs[-1][1] = mapping.end
                elif start < mapping.end:
                    runs.append([start, mapping.end, mapping.mode, self._guard(before, start)])
            before = mapping
        left = []
        for start, end, _, guard in runs:
            left += self._look_inside(start, end, guard)
        self._follow_pointers(left)
        self._count_libc()
        self.pieces.sort()

    def _take_bss(self, mapping, holder):
        """Where what follows an object's bss begins."""
        if holder is None or "w" not in mapping.mode:
            return mapping.start
        end = self._ends.get(holder.file, 0)
        if end == 0 and mapping.start == holder.end and "w" in holder.mode:
            end = mapping.end if mapping.end - mapping.start <= _BSS_MOST else 0
        end = min(end, mapping.end)
        if end <= mapping.start:
            return mapping.start
        owner = Owner("code", None, holder.path, "mapped")
        self.pieces.append(Piece(mapping.start, end, owner))
        self._data[holder.path].append((mapping.start, end))
        return end

    def _by_name(self, mapping):
        """The owner that a mapping's name says; None if it has none."""
        path = mapping.path
        if mapping.file is not None:
            if path.startswith("/dev/") and not path.startswith(("/dev/shm/", "/dev/zero")):
                return Owner("device", None, path, "mapped")
            if mapping.file in self._code:
                return Owner("code", None, path, "mapped")
            shared = path.startswith(("/memfd:", "/dev/shm/", "/dev/zero", "/SYSV"))
            return Owner("shared" if shared else "file", None, path, "mapped")
        if path.startswith("[anon_shmem:"):
            return Owner("shared", None, path[12:-1], "mapped")
        if path.startswith("[anon:"):
            return self._by_given_name(path[6:-1])
        if path.startswith("[stack"):
            return STACK
        if path == "[heap]":
            return self._of_break(mapping)
        if path.startswith("["):
            return KERNEL
        return Owner("device", None, path, "mapped") if path else None

    def _by_given_name(self, name):
        """By what prctl(PR_SET_VMA_ANON_NAME) was told, which some allocators do."""
        if "pthread stack" in name:
            return STACK
        for word, allocator in (
            ("glibc: malloc", "libc"),
            ("pymalloc", "pymalloc"),
            ("jemalloc", "jemalloc"),
            ("tcmalloc", "tcmalloc"),
            ("mimalloc", "mimalloc"),
            ("scudo", "scudo"),
        ):
            if word in name:
                return Owner("allocator", allocator, self._home(allocator), "mapped")
        return Owner("anonymous", None, name, "mapped")

    def _home(self, allocator):
        return {"libc": self._libc, "pymalloc": self._python}.get(allocator)

    def _of_break(self, mapping):
        """glibc's main arena begins with a chunk. The kernel splits the mapping, too."""
        if self._break is None:
            words = self.process.words_at(mapping.start, 2)
            chunk = not words or (words[0] == 0 and words[1] & 7 == 1 and words[1] < 1 << 20)
            self._break = Owner("anonymous", None, "[heap]", "mapped")
            if chunk and self._libc is not None:
                self._break = self._allocator("libc", self._libc)
        return self._break

    def _note_break(self, mapping, before):
        if self._heaps and before is not None and before.path == "[heap]":
            self._heaps[0][1] = mapping.end
        elif not self._heaps and self._break.name == "libc":
            self._heaps.append([mapping.start, mapping.end, [mapping.start]])

    def _count_libc(self):
        """What is live in glibc's heaps, if these have not too many blocks for a look."""
        live, left = self._mapped_chunks, _CHUNKS_MOST
        for _, end, firsts in self._heaps:
            sums = (libc_chunks.sums(self.process.words_at, first, end, left) for first in firsts)
            found = next(filter(None, sums), None)
            if found is None:
                return
            live += found.live
            left -= found.chunks
            if len(firsts) == 1:
                self.last_of_libc = found.last
        if self._libc is not None:
            self.live[self._allocator("libc", self._libc)] = live

    # ---- anonymous memory ----------------------------------------------------------------------

    @staticmethod
    def _guard(before, start):
        """Where a mapping begins that keeps a stack's end from what lies below; None: none does."""
        guards = before is not None and before.end == start and before.mode == "---p"
        return before.start if guards and not before.path else None

    def _look_inside(self, start, end, guard):
        """Applies the rules. Result: what they left."""
        left = self._apply([(start, end)], self._region)
        if end - start > _LOOKED_MOST:  # a sanitizer's shadow, or a trap
            self.pieces += [Piece(first, last, UNKNOWN) for first, last in left]
            return []
        rules = [self._arena]
        if guard is not None:
            left = self._apply(left, lambda first, last: self._stack(guard, first, last))
        if self._segmented:
            rules.append(self._segments)
        if self._pooled:
            rules.append(self._pools)
        rules += [self._chunks, self._foreign]
        for rule in rules:
            left = self._apply(left, rule)
        return left

    def _apply(self, left, rule):
        after = []
        for start, end in left:
            at = start
            for first, last, owner in rule(start, end):
                if first > at:
                    after.append((at, first))
                self.pieces.append(Piece(first, last, owner))
                at = last
            if at < end:
                after.append((at, end))
        return after

    def _present(self, start, end):
        """process.present(), or "all of it"."""
        return self.process.present(start, end) or b"\1" * ((end - start) // PAGE)

    def _region(self, start, end):
        if self.facts.region is None:
            return
        first, last = max(start, self.facts.region[0]), min(end, self.facts.region[1])
        if first >= last:
            return
        heap = Owner("allocator", "homefree", None, "counted")
        at = first
        lent = []
        if last - first < _LOOKED_MOST:
            lent += self._segments(first, last) if self._segmented else ()
            lent += self._pools(first, last) if self._pooled else ()
        for start_lent, end_lent, owner in sorted(lent):
            if start_lent > at:
                yield at, start_lent, heap
            if start_lent >= at:
                yield start_lent, end_lent, owner
                at = end_lent
        if at < last:
            yield at, last, heap

    def _arena(self, start, end):
        """Of glibc: 64 MiB each, of which what is used is writable."""
        for at in range(-(-start // _ARENA) * _ARENA, end, _ARENA):
            words = self.process.words_at(at, 4)
            if len(words) < 4:
                continue
            _, previous, size, writable = words
            fits = PAGE <= size <= writable <= _ARENA and size % PAGE == 0 == writable % PAGE
            if fits and at + size <= end and previous % _ARENA == 0:
                self._heaps.append([at, at + size, libc_chunks.starts(at, words)])
                yield at, min(at + writable, end), self._allocator("libc", self._libc)

    @staticmethod
    def _allocator(name, path, how="mapped"):
        return Owner("allocator", name, path, how)

    def _stack(self, guard, start, end):
        """A thread's, above its guard; what lies above may be another's, in the same mapping."""
        top = self._top_of_stack(start, end)
        if top == 0:
            index = bisect.bisect_left(self._stack_pointers, start)
            if index == len(self._stack_pointers) or self._stack_pointers[index] >= end:
                return
            tops = (guard + size + more for size in _STACK_SIZES for more in (0, PAGE))
            tops = (each for each in tops if self._stack_pointers[index] < each < end)
            top = min(tops, default=end)
        yield start, top, STACK

    def _top_of_stack(self, start, end):
        """Where a stack ends: glibc's record of the thread lies there, and points to itself; 0 if
        it is not found."""
        left = _RECORD_PAGES_MOST
        for first, last in self._runs(start, end):
            last = min(last, first + left * PAGE)
            left -= (last - first) // PAGE
            words = self.process.words_at(first, (last - first) // 8)
            for number in range(0, len(words) - 2, 2):
                address = first + 8 * number
                if words[number] == address == words[number + 2]:
                    return min(-(-(address + _RECORD_LEAST) // PAGE) * PAGE, end)
            if left <= 0:
                break
        return 0

    def _pools(self, start, end):
        """CPython's pools: 16 KiB, before 3.10 a page. What a pool must say of itself is seldom
        there by accident."""
        size = 4 << 10 if self._small_pools else 16 << 10
        owner = self._allocator("pymalloc", self._python, "counted")
        present, base = self._present(start, end), start // PAGE
        begun = at = None
        for pool in range(-(-start // size) * size, end - size + 1, size):
            live = self._pool(pool, size) if present[pool // PAGE - base] else None
            if live is None:
                continue
            self.live[owner] += live
            if at != pool:
                if begun is not None:
                    yield begun, at, owner
                begun = pool
            at = pool + size
        if begun is not None:
            yield begun, at, owner

    def _segments(self, start, end):
        """Segments of CPython's mimalloc. Their headers share a secret, each mixed with its own
        address; one that is left behind in a freed one is as good: nothing else lies there."""
        owner = self._allocator("mimalloc", self._python, "counted")
        at = -(-start // _SEGMENT) * _SEGMENT
        while at < end:
            size, live = self._segment(at)
            if size:
                yield at, min(at + size, end), owner
                self.live[owner] += live
            at += -(-size // _SEGMENT) * _SEGMENT or _SEGMENT

    def _segment(self, at):
        """Its size, in an arena in whole segments, and bytes in its live blocks; 0, 0 if none is
        there."""
        if not self._present(at, at + PAGE)[0]:
            return 0, 0
        words = self.process.words_at(at, _SEGMENT_HEADER)
        if len(words) < _SEGMENT_HEADER:
            return 0, 0
        size, used, cookie, slices, info, kind, entries, thread = words[4], *words[26:33]
        fits = size == slices * _SLICE and 3 <= words[2] >> 32 <= 6
        if not fits or kind & 0xFFFFFFFF > 1 or not 0 < info < entries <= _SLICES_MOST:
            return 0, 0
        live = self._live_in_segment(at, info, entries, kind & 0xFFFFFFFF == 0)
        if live is None or self._cookie not in (None, cookie ^ at):
            return 0, 0
        self._cookie = cookie ^ at
        if words[2] >> 32 == 6:  # in an arena
            size = -(-size // _SEGMENT) * _SEGMENT
        return (size, live) if used or thread else (min(size, _SEGMENT), 0)

    def _live_in_segment(self, at, info, entries, normal):
        """None: what follows the header is no list of its pages. Blocks that another thread has
        freed are live until the owner takes them back."""
        live, number, each = 0, info, 12 if self._free_threaded else 10
        words = self.process.words_at(at + 8 * _SEGMENT_HEADER, each * entries)
        while number < entries and len(words) == each * entries:
            slices = words[each * number] & 0xFFFFFFFF
            used, block = words[each * number + 3] & 0xFFFFFFFF, words[each * number + 3] >> 32
            if not slices or (normal and number + slices > entries):
                return None
            live += used * (slices * _SLICE if block >> 31 else block)
            number += slices
        return live if number >= entries else None

    def live_in_python(self):
        """Bytes in live blocks of CPython's pools and segments: a look at nothing else."""
        for mapping in self.process.mappings:
            if mapping.rss and not mapping.path and "w" in mapping.mode:
                for rule, there in ((self._pools, self._pooled), (self._segments, self._segmented)):
                    for _ in rule(mapping.start, mapping.end) if there else ():
                        pass
        return sum(self.live.values())

    def pool_at(self, address):
        """Where CPython's pool begins that has an address, and the size of its blocks; None: it has
        none."""
        size = 4 << 10 if self._small_pools else 16 << 10
        pool = address // size * size
        if self._pool(pool, size) is None:
            return None
        return pool, ((self.process.words_at(pool, 5)[4] >> 32) + 1) * _GRANULE

    def owner_at(self, address):
        """The Owner of an address, after own(); None: nothing is mapped there."""
        number = bisect.bisect_right(self.pieces, (address, 1 << 65)) - 1
        piece = self.pieces[number] if number >= 0 else None
        return piece.owner if piece is not None and address < piece.end else None

    def _pool(self, pool, size):
        """Bytes in its live blocks; None if there is no pool."""
        words = self.process.words_at(pool, _POOL_HEADER // 8)
        if len(words) < 6:
            return None
        count, free, index = words[0] & 0xFFFFFFFF, words[1], words[4]
        number, offsets = index >> 32, words[5]
        block = (number + 1) * _GRANULE
        if number >= 64 or offsets >> 32 != size - block or not 0 < offsets & 0xFFFFFFFF <= size:
            return None
        if count * block > size or (free and not pool < free < pool + size):
            return None
        return count * block

    def _chunks(self, start, end):
        """glibc's mapped chunks: each begins with its size, in whole pages, and a bit."""
        present, base, at = self._present(start, end), start // PAGE, start
        owner, missed = self._allocator("libc", self._libc), 0
        while missed < _MISSED_MOST:
            number = present.find(1, at // PAGE - base)
            if number < 0:
                return
            at = PAGE * (base + number)
            words = self.process.words_at(at, 2)
            size = words[1] & ~7 if len(words) == 2 else 0
            mapped = size and words[0] == 0 and words[1] & 7 == 2 and size % PAGE == 0
            if mapped and _CHUNK_LEAST <= size <= end - at:
                self._mapped_chunks += size
                yield at, at + size, owner
                at += size
            else:
                at += PAGE
                missed += 1

    def _foreign(self, start, end):
        for first, last, name, path in self.facts.allocator_at(start, end):
            yield first, last, self._allocator(name, path)

    # ---- by pointers -----------------------------------------------------------------------------

    def _follow_pointers(self, left):
        """Memory of hidden allocators and of pools that objects map for themselves: it belongs to
        the object whose data points to its beginning, or else the most often."""
        left = [(start, end) for start, end in sorted(left) if 1 in self._present(start, end)]
        sources = [(start, end, path) for path, all_ in self._data.items() for start, end in all_]
        budget = _SCANNED_MOST if self.process.readable else 0
        for _ in range(_ROUNDS):
            found, budget = self._points_to(sources, left, budget)
            sources, after = [], []
            for number, (start, end) in enumerate(left):
                hits = found.get(number)
                if not hits:
                    after.append((start, end))
                    continue
                path = max(hits, key=hits.get)
                self.pieces.append(Piece(start, end, self._mapped_by(path)))
                # Books lie at the end that was mapped first, or at the one that was mapped last.
                middle = max(start + _SOURCE_MOST, end - _SOURCE_MOST)
                sources.append((start, end, path))
                if middle < end:
                    sources.append((middle, end, path))
            left = after
            if not sources or not left:
                break
        self._take_between(left)

    def _take_between(self, left):
        """What touches pages of one allocator in the same mappings is that one's, too."""
        owners = {}
        for piece in self.pieces:
            if piece.owner.kind == "allocator" and piece.owner.object not in (None, self._libc):
                owners[piece.start] = owners[piece.end] = piece.owner
        for start, end in left:
            owner = owners.get(start, owners.get(end, UNKNOWN))
            owner = UNKNOWN if owner.object == self._python else owner
            self.pieces.append(Piece(start, end, owner))

    def _mapped_by(self, path):
        if re.search(r"/libhomefree[^/]*$", path):
            return self._allocator("homefree", None, "counted")
        names = self.facts.allocators_in(path) if path not in (self._libc, self._python) else []
        return self._allocator(" or ".join(names) or None, path)

    def _points_to(self, sources, left, budget):
        """{number of what is pointed to: {path: weight}}, and what is left of the budget."""
        found = {}
        starts = [start for start, _ in left]
        areas = {
            at for start, end in left for at in range(start >> _AREA, ((end - 1) >> _AREA) + 1)
        }
        for start, end, path in sources:
            for first, last in self._runs(start, min(end, start + _SOURCE_MOST)):
                if budget <= 0:
                    break
                budget -= last - first
                words = self.process.words_at(first, (last - first) // 8)
                for word in [word for word in words if word >> _AREA in areas]:
                    number = bisect.bisect_right(starts, word) - 1
                    if number >= 0 and word < left[number][1]:
                        hits = found.setdefault(number, collections.Counter())
                        hits[path] += 1000 if word == starts[number] else 1
        return found, budget

    def _runs(self, start, end):
        """What of a range is resident, in pieces."""
        present, at = self._present(start, end), 0
        while (at := present.find(1, at)) >= 0:
            stop = present.find(0, at)
            stop = len(present) if stop < 0 else stop
            for first in range(at, stop, 2048):
                yield start + PAGE * first, start + PAGE * min(first + 2048, stop)
            at = stop
