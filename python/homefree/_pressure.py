# SPDX-License-Identifier: BSD-2-Clause
"""homefree.on_pressure(): callbacks before a memory limit is reached.

State: the handles that are in force, which a forked child takes over. Threads: any; each handle has
a daemon thread, which waits in C without the GIL.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import NamedTuple

from . import _homefree
from ._trim import tell_of_exception, trim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ._homefree import Trimmed


class Pressure(NamedTuple):
    """What was seen of the memory limit of the process's cgroups. Since 1.0."""

    usage: int  # bytes used, but for pages of files that can go at once
    limit: int  # of the limit that is nearest; 0: there is none
    stalled: bool  # the kernel tells that threads wait for memory


class PressureHandle:
    """A callback that is in force, until cancel(). Since 1.0."""

    def __init__(self, callback: Callable[[list[Trimmed], Pressure], object], at: float) -> None:
        self._callback = callback
        self._per_cent = max(1, round(at * 100))
        self._watch: object = None
        self._begin()

    def _begin(self) -> None:
        watch = self._watch = _homefree.pressure_begin(self._per_cent)
        thread = threading.Thread(
            target=self._run, args=(watch,), name="homefree pressure", daemon=True
        )
        thread.start()

    def _run(self, watch: object) -> None:
        while (seen := _homefree.pressure_wait(watch)) is not None:
            try:
                self._callback(trim(), Pressure(*seen))
            except BaseException:  # sys.exit() ends no more than the call
                tell_of_exception()

    def cancel(self) -> None:
        """No call begins any more. Any thread, the callback's own among them."""
        _in_force.discard(self)
        watch, self._watch = self._watch, None
        if watch is not None:
            _homefree.pressure_cancel(watch)


_in_force: set[PressureHandle] = set()


def _in_child() -> None:
    """The parent's threads and watches are not here."""
    for handle in list(_in_force):
        try:
            handle._begin()
        except (RuntimeError, OSError) as error:
            _in_force.discard(handle)
            print(f"homefree: on_pressure() ends in a forked child: {error}", file=sys.stderr)


os.register_at_fork(after_in_child=_in_child)


def on_pressure(
    callback: Callable[[list[Trimmed], Pressure], object], at: float = 0.9
) -> PressureHandle:
    """Calls a function when the process comes near the memory limit of its cgroup.

    callback(rows, pressure) is called in a daemon thread of its own, perhaps before on_pressure()
    returns, and after trim(), whose result `rows` is; `pressure` says what was used of which limit
    before. It is where a program drops caches, refuses work, or saves what it has. What it raises
    goes to threading.excepthook, and it is called again the next time.

    at: from how much of the limit on, above 0 and at most 1. The limit is the nearest of memory.max
    and memory.high of the process's cgroups up the tree (memory.limit_in_bytes with version 1). It
    is also called where the kernel tells that threads wait for memory (PSI). While usage stays
    there, it is called again after one second, two, and so on up to a minute.

    Returns a PressureHandle, whose cancel() ends it. It starts homefree's background thread (docs:
    Python, "Memory that becomes scarce").

    Raises ValueError for another `at`, TypeError if the callback cannot be called, and
    RuntimeError, with a remedy, if there can be no background thread. Threads: any. Fork: the child
    has the callback, too. Since 1.0.
    """
    if not callable(callback):
        raise TypeError(f"on_pressure(): a function is wanted, not {type(callback).__name__}")
    if not 0 < at <= 1:
        raise ValueError(f"on_pressure(): at must be above 0 and at most 1, not {at!r}")
    handle = PressureHandle(callback, at)
    _in_force.add(handle)
    return handle
