# SPDX-License-Identifier: BSD-2-Clause
"""`@pytest.mark.homefree_growth`: a test fails if its body leaves more memory behind each time.

The body runs several times. After each, the bytes in live blocks are counted: of homefree's heap,
of libc's malloc, and of CPython's pools. Caches grow at first, or in a few steps; what leaks grows
steadily. So the first quarter and the largest step do not count, and the growth is the median of
the slopes between any two of the other cycles (Theil and Sen's estimate).

State: none between tests. The main thread.
"""

from __future__ import annotations

import gc
import itertools
import linecache
import os
import statistics

import pytest

from .. import _homefree
from .._limit import bytes_of
from .._memory import libc_heap, live_in_python, memory, memory_diff

_MEAN = 16 << 10  # bytes of which one is sampled, so that stacks have names
_CYCLES_LEAST = 8
_ROWS_MOST = 10
_FRAMES_MOST = 6


def growth(live):
    """Bytes a cycle, of the live bytes after each."""
    counted = live[len(live) // 4 :]
    steps = [after - before for before, after in zip(counted, counted[1:])]
    largest = max(range(len(steps)), key=lambda at: abs(steps[at]))
    steps[largest] = 0
    sums = [0, *itertools.accumulate(steps)]
    slopes = [
        (sums[after] - sums[before]) / (after - before)
        for before, after in itertools.combinations(range(len(sums)), 2)
    ]
    return statistics.median(slopes)


def _live():
    gc.collect()
    libc = libc_heap()
    return _homefree.stats()["allocated"] + (libc[0] if libc else 0) + live_in_python()


def run(item, marker, body):
    """Calls body() again and again, and fails the test if memory grows."""
    cycles, limit = _arguments(item, **marker.kwargs)
    sampled = _begin_profile()
    live, before = [0] * cycles, None
    try:
        for cycle in range(cycles):
            body()
            live[cycle] = _live()
            if cycle == cycles // 4:
                before = memory()
        slope = growth(live)
        if slope * cycles > limit:
            lines = _what_grew(before, memory()) + _python_blocks(body, cycles // 4)
            pytest.fail(_message(slope, cycles, limit, live) + lines, pytrace=False)
    finally:
        if sampled:
            _homefree.profile_end()


def _arguments(item, cycles=20, limit="64 KiB", **unknown):
    try:
        least = bytes_of(limit)
    except (TypeError, ValueError):
        least = None
    if unknown or not isinstance(cycles, int) or cycles < _CYCLES_LEAST or least is None:
        pytest.fail(
            f"{item.nodeid}: homefree_growth takes cycles, {_CYCLES_LEAST} or more, and limit, "
            "such as '64 KiB' or 65536",
            pytrace=False,
        )
    return cycles, least


def _begin_profile():
    try:
        _homefree.profile_begin(_MEAN)
    except (OSError, RuntimeError):  # built without it, or the test's own is running
        return False
    return True


def _message(slope, cycles, limit, live):
    from ..command.terminal import size

    return (
        f"memory grows by {size(slope)} a cycle, {size(slope * cycles)} in {cycles} cycles "
        f"(limit {size(limit)}); live after each: {', '.join(map(size, live))}\n"
    )


def _what_grew(before, after):
    from ..command.memory_text import growth_lines

    document = memory_diff(before, after)
    return "\n".join(growth_lines(document, _ROWS_MOST))


def _python_blocks(body, cycles):
    """Which lines of Python leave blocks behind, by running the body some more."""
    import tracemalloc

    if tracemalloc.is_tracing():  # the test's own
        return ""
    tracemalloc.start(_FRAMES_MOST)
    try:
        before = tracemalloc.take_snapshot()
        for _ in range(cycles):
            body()
        gc.collect()
        after = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    found = [
        each
        for each in after.compare_to(before, "traceback")[:_ROWS_MOST]
        if each.size_diff > 0 and tracemalloc.__file__ != each.traceback[-1].filename
    ]
    lines = [f"\nWhat {cycles} more cycles left behind, of Python's:"] if found else []
    for each in found:
        lines.append(f"{each.size_diff:>11} bytes in {each.count_diff} blocks")
        for frame in reversed(each.traceback):
            if f"{os.sep}_pytest{os.sep}" in frame.filename:
                break
            line = linecache.getline(frame.filename, frame.lineno).strip()
            lines.append(f"{'':>11} {frame.filename}:{frame.lineno}: {line}")
    return "\n".join(lines)
