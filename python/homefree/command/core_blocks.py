# SPDX-License-Identifier: BSD-2-Clause
"""Blocks in the memory of a process that died: where one begins, how large it is, and whether it is
free. glibc's are known by walking their heap from its beginning, CPython's by their pool.

Constraint: core_file.py's; and a heap may be damaged, which is why the process died. So what the
walk did not reach is unknown.

Owns: what was found, as long as the object lives. One thread.
"""

import bisect
from collections import namedtuple

from . import libc_chunks
from .memory_process import PAGE

# start: the pointer that malloc returned; live: None if that is unknown.
Block = namedtuple("Block", "start size live")

_CHUNKS_MOST = 3_000_000
_ARENA = libc_chunks.ARENA
# Words of glibc's struct malloc_state since 2.26: the fast bins, the top chunk, the empty bins'
# links, the next arena, and the bytes it has.
_FAST, _FASTS, _TOP, _BINS, _NEXT, _SYSTEM = 2, 10, 12, 14, 270, 273
_LISTED_MOST = 100_000
_MAPPED_MOST = 64 << 20  # bytes from the beginning of a block


class LibcHeap:
    """data: [(start, end)] of libc's writable data; arena: the address of main_arena, None:
    unknown."""

    def __init__(self, core, data, arena):
        self._core, self._data = core, data
        self._break = next((each for each in core.mappings if each.path == "[heap]"), None)
        self._walked, self._words = {}, None
        self._arena = arena if arena is not None else self._find_arena()

    def _data_words(self):
        if self._words is None:
            self._words = []
            for start, end in self._data:
                words = self._core.words_at(start, (end - start) // 8)
                self._words.append((start, words, frozenset(words)))
        return self._words

    def _find_arena(self):
        """main_arena, which has no symbol without debug information: its top chunk is in what
        brk(2) gave, and its list of arenas is a circle."""
        if self._break is None:
            return None
        for start, words, _ in self._data_words():
            for number in range(len(words) - _SYSTEM):
                if not self._break.start <= words[number + _TOP] < self._break.end:
                    continue
                address, next_ = start + 8 * number, words[number + _NEXT]
                links = words[number + _BINS : number + _NEXT - 2]
                own = sum(
                    word == address + 8 * _TOP + 8 * (at & ~1) for at, word in enumerate(links)
                )
                if own >= 100 and (next_ == address or next_ % _ARENA < PAGE):
                    return address
        return None

    def end_of_break(self):
        """Where libc's part of what brk(2) gave ends; None: unknown."""
        top = self._arena and self._core.word(self._arena + 8 * _TOP)
        if not top or self._break is None or not self._break.start <= top < self._break.end:
            return None
        size = self._core.word(top + 8)
        end = top + (size & ~7) if size else 0
        return end if end % PAGE == 0 and top < end <= self._break.end else None

    def block(self, address):
        """The Block that has an address; None: unknown."""
        chunk = self._chunk(address) or self._mapped(address)
        if chunk is None:
            return None
        start, end, free = chunk
        return Block(start + 16, end - start - 8, not (free or self._is_cached(start, end)))

    def _mapped(self, address):
        """(start, end, free) of a chunk that has pages of its own."""
        mapping = self._core.mapping_at(address)
        if mapping is None:
            return None
        first = (address - 16) // PAGE * PAGE
        for start in range(first, max(mapping.start, first - _MAPPED_MOST) - 1, -PAGE):
            words = self._core.words_at(start, 2)
            if len(words) == 2 and words[0] == 0 and words[1] & 7 == 2:
                size = words[1] & ~7
                if size % PAGE == 0 and size and address < start + size:
                    return start, start + size, False
        return None

    def is_overwritten(self, address):
        """Whether a block begins at an address, of which block() knew nothing, since the size in
        front of it makes no sense."""
        return any(address - 16 == end for _, end in self._walked.values())

    def _chunk(self, address):
        if self._break is not None and self._break.start <= address < self._break.end:
            starts = [self._break.start]
            top = self._arena and self._core.word(self._arena + 8 * _TOP)
        else:
            heap = address // _ARENA * _ARENA
            words = self._core.words_at(heap, 4)
            if len(words) < 4:
                return None
            top = self._core.word(words[0] + 8 * _TOP)
            starts = libc_chunks.starts(heap, words)
        for start in starts:
            chunks, end = self._walk(start, top or 0)
            if end is None:
                continue
            if not chunks or not chunks[0][0] <= address < end:
                continue
            number = bisect.bisect_right(chunks, (address - 16, 1 << 65)) - 1
            chunk, size, _ = chunks[max(number, 0)]
            free = number + 1 < len(chunks) and not chunks[number + 1][2]
            return chunk, chunk + size, free or chunk == top
        return None

    def _walk(self, start, top):
        """[(chunk, size, whether the one before it is in use)], and where the walk ended; None: not
        where it should."""
        if start not in self._walked:
            self._walked[start] = self._walk_from(start, top)
        return self._walked[start]

    def _walk_from(self, start, top):
        mapping = self._core.mapping_at(start)
        if mapping is None:
            return [], None
        chunks, end = [], start
        for at, size, used in libc_chunks.walk(self._core.words_at, start, mapping.end):
            if not size:  # damaged; what comes before is not
                return chunks, at if size == 0 else None
            chunks.append((at, size, used))
            end = at + size
            if at == top or size == 16 or len(chunks) == _CHUNKS_MOST:  # also of a part of it
                break
        return chunks, end

    def is_cached(self, address):
        """Whether a block is in a thread's cache: glibc puts a key behind its link."""
        key = self._core.word(address + 8)
        if not key:
            return False
        if any(key in words for _, _, words in self._data_words()):
            return key >= 1 << 32 and self._core.mapping_at(key) is None
        first = self._break.start + 16 if self._break is not None else None
        return key in (first, key // _ARENA * _ARENA + (48 + libc_chunks.STATE + 15 & ~15) + 16)

    def _is_cached(self, start, end):
        if self.is_cached(start + 16):
            return True
        kind = (end - start) // 16 - 2
        if self._arena is None or not 0 <= kind < _FASTS:
            return False
        at = self._core.word(self._arena + 8 * (_FAST + kind))
        for _ in range(_LISTED_MOST):
            if not at or at == start:
                return at == start
            link = self._core.word(at + 16)
            if link is None:
                return False
            mangled = link ^ (at + 16 >> 12)  # since 2.32
            at = mangled if not mangled or self._core.mapping_at(mangled) is not None else link
        return False


def pool_block(core, pool, size, address):
    """The Block of CPython's that has an address. pool: where its pool begins; size: of its
    blocks."""
    first = pool + 48
    if address < first:
        return None
    start = first + (address - first) // size * size
    head = core.words_at(pool, 6)
    if len(head) < 6:
        return None
    if start - pool >= head[5] & 0xFFFFFFFF:  # never handed out
        return Block(start, size, False)
    at = head[1]
    for _ in range(pool + (1 << 14) - first):
        if at == start:
            return Block(start, size, False)
        if not at or not pool <= at < pool + (1 << 14):
            break
        at = core.word(at)
    return Block(start, size, True)
