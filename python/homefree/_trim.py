# SPDX-License-Identifier: BSD-2-Clause
"""Giving unused memory back to the system. Nothing here keeps state. Threads: any. Imports no
module that is not part of every Python: a child of fork() may wait for ever for one that another
thread of its parent was importing.
"""

import gc
import os
import sys

from . import _homefree
from ._homefree import Trimmed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def tell_of_exception() -> None:
    """Hands what a callback has raised to threading.excepthook, as if it had ended its thread."""
    import threading

    arguments = (*sys.exc_info(), threading.current_thread())
    threading.excepthook(threading.ExceptHookArgs(arguments))


def _resident() -> int:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    except OSError:  # no /proc, or no descriptor left
        return 0


def _of_pyarrow(pyarrow) -> "Iterator[tuple[str, Callable[[], object]]]":
    for backend in pyarrow.supported_memory_backends():
        pool = getattr(pyarrow, backend + "_memory_pool")()
        yield f"{backend}_memory_pool().release_unused", pool.release_unused


def _of_torch(torch) -> "Iterator[tuple[str, Callable[[], object]]]":
    if torch.cuda.is_initialized():
        yield "cuda.empty_cache", torch.cuda.empty_cache
        host = getattr(torch._C, "_host_emptyCache", None)  # since torch 2.5
        if host is not None:
            yield "_C._host_emptyCache", host


def _of_cuda(cuda) -> "Iterator[tuple[str, Callable[[], object]]]":
    for device in range(_DEVICES):
        counts = cuda.stats(device)
        if counts["reserved"] > counts["allocated"]:

            def give_back(device: int = device) -> None:
                try:
                    cuda.trim(device)
                except cuda.Unavailable:
                    return  # CUDA has ended meanwhile

            yield f"trim({device})", give_back


# Modules with caches above their allocators, which come first: what they give back, the allocators
# can give to the system. Only those are asked that the process has imported.
_MODULES = {"pyarrow": _of_pyarrow, "torch": _of_torch, "homefree.cuda": _of_cuda}
_DEVICES = 16  # the most that homefree.cuda has


def _ways() -> "Iterator[tuple[str, str, Callable[[], object]]]":
    for name, ways_of in _MODULES.items():
        module = sys.modules.get(name)
        if module is None:
            continue
        try:
            ways = list(ways_of(module))
        except AttributeError:  # another thread imports it, it is an older one, or a stand-in
            continue
        for how, function in ways:
            yield name, how, function


def give_back() -> None:
    """Empties the caches of imported modules, in the middle of an allocation perhaps."""
    for _, _, function in _ways():
        try:
            function()
        except Exception:
            continue


def trim() -> "list[Trimmed]":
    """Asks every allocator of the process to give unused memory back to the system.

    A row for each, in the order in which they were asked: CPython (the garbage collector), the
    caches of pyarrow, torch and homefree.cuda if they are imported, each known allocator that lives
    in a shared object (jemalloc, mimalloc, tcmalloc, …), homefree's page-locked memory and heap,
    and libc. polars and DuckDB have no function of their own for it (polars 2.1, DuckDB 2.0);
    polars' jemalloc is asked as an allocator, DuckDB's has no name. Memory that other threads have
    at hand in caches of their own stays. It takes from milliseconds to half a second, by how much
    there is to give, and what is needed again takes page faults: call it before a process becomes
    idle. With homefree.cuda it waits for the devices.

    Threads: any; the GIL is released while allocators in C are asked. Fork: in a child, other
    allocators' own rules hold. Since 1.0.
    """
    rows = []

    def ask(allocator, how, function):
        before = _resident()
        function()
        rows.append(Trimmed((allocator, None, how, before, _resident())))

    ask("CPython", "gc.collect", gc.collect)
    for name, how, function in _ways():
        ask(name, how, function)
    return rows + _homefree.trim()
