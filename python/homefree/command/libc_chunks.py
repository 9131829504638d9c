# SPDX-License-Identifier: BSD-2-Clause
"""glibc's heaps in the memory of a process: the chunks of which they consist, from the first to the
last.

Each begins with its size, whose lowest bit says whether the one before it is in use. What waits for
reuse in a cache of glibc's counts as in use. A heap may be damaged, or change while it is read: a
size that makes no sense ends a walk.

State: none.
"""

from collections import namedtuple

ARENA = 64 << 20  # HEAP_MAX_SIZE: where a heap begins that is not the main arena's
STATE = 2200  # bytes of struct malloc_state since 2.26
_HEAD_WORDS, _PIECE = 2, 1 << 17

# Bytes in live chunks, in free ones, and in the live one below what is free at the end; and how
# many chunks there are.
Sums = namedtuple("Sums", "live free last chunks")


def starts(heap, words):
    """Where the first chunk of a heap may begin that is not the main arena's. words: its first."""
    if words[0] // ARENA * ARENA == heap:  # the arena's first heap, which holds its state
        return [(words[0] + STATE + 15 & ~15) + at for at in (0, 8)]
    return [heap + size for size in (32, 48, 64)]


def walk(words_at, start, end):
    """[(chunk, its size, whether the one before it is in use)] of what words_at() reads. The last
    one's size is 0 if it makes no sense, and None if it cannot be read."""
    at, base, words, count = start, start, (), _HEAD_WORDS
    while at < end:
        number = (at - base) // 8 + 1
        if number >= len(words):
            # Few words where chunks are large, many where they are small.
            near = at - base < 32 * len(words)
            count = min(4 * count, _PIECE) if near else _HEAD_WORDS
            base, words, number = at, words_at(at, min(count, (end - at) // 8)), 1
            if number >= len(words):
                yield at, None, False
                return
        size = words[number] & ~7
        if size < 16 or size % 16 or size > end - at:
            yield at, 0, False
            return
        yield at, size, bool(words[number] & 1)
        at += size


def sums(words_at, start, end, most):
    """The Sums of a heap; None if there are more chunks than so many, or they make no sense."""
    free, size, last, count = 0, 0, 0, 0
    for at, next_, live in walk(words_at, start, end):
        count += 1
        if next_ == 0 and size == 16 and at + 16 == end:  # a fence: the arena goes on elsewhere
            return Sums(end - start - free, free, 0, count)
        if not next_ or count > most:
            return None
        if not live:
            free += size
        last, size = size if live else 0, next_
    if count == 0:
        return None
    return Sums(end - start - free - size, free + size, last, count)  # the last one is free
