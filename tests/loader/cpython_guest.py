"""Runs inside an interpreter that test_cpython.py found: loads the heap late, and uses it.

Usage: cpython_guest.py LIBHOMEFREE [MODULE…]

The modules are loaded first. Prints "fine" and ends normally: what follows then, the interpreter's
end with routed slots, belongs to the test. Works with every CPython from 3.6 on.
"""

import contextlib
import ctypes
import gc
import importlib
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from threads import joined, started

# Extensions of the standard library, many of which need other libraries; some may be missing.
LATE = (
    "_decimal",
    "_hashlib",
    "_ssl",
    "_sqlite3",
    "_bz2",
    "_lzma",
    "zlib",
    "_elementtree",
    "pyexpat",
    "readline",
    "_curses",
    "_json",
    "_pickle",
    "_datetime",
    "_socket",
    "unicodedata",
    "multiprocessing.pool",
    "asyncio",
    "xml.dom.minidom",
    "uuid",
)


class RouteReport(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t)] + [
        (name, ctypes.c_uint64)
        for name in ("objects", "changed", "refused", "out_of_reach", "passes", "nanoseconds")
    ]


def declare(library, prefix, spell=str):
    for name, result, parameters in (
        ("malloc", ctypes.c_void_p, [ctypes.c_size_t]),
        ("realloc", ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t]),
        ("free", None, [ctypes.c_void_p]),
    ):
        function = getattr(library, prefix + spell(name))
        function.restype, function.argtypes = result, parameters
    return library


def report(heap):
    sums = RouteReport(size=ctypes.sizeof(RouteReport))
    assert heap.hf_route_report(ctypes.byref(sums), None, None) == 0
    return sums


def crossings(heap, libc, raw, rounds=20):
    """Blocks of each allocator, freed and resized through the others."""
    for i in range(rounds):
        size = 1 + i * i * 37
        for allocate in (heap.hf_malloc, libc.malloc, raw.PyMem_RawMalloc):
            for resize in (heap.hf_realloc, libc.realloc, raw.PyMem_RawRealloc):
                for free in (heap.hf_free, libc.free, raw.PyMem_RawFree):
                    block = allocate(size)
                    assert block
                    owned = heap.hf_owns(block)
                    assert owned == (allocate is heap.hf_malloc)
                    ctypes.memset(block, 1, size)
                    block = resize(block, 3 * size)
                    assert heap.hf_owns(block) == owned
                    assert ctypes.string_at(block, size) == b"\1" * size
                    free(block)


def in_threads(work):
    failures = []

    def run():
        try:
            work()
        except BaseException as error:
            failures.append(error)

    joined(started(4, run))
    assert not failures, failures


def in_child(work):
    """Forks while other threads use the allocators."""
    over = threading.Event()

    def churn():
        while not over.is_set():
            work()

    threads = started(2, churn)
    for _ in range(3):
        child = os.fork()
        if child == 0:
            try:
                work()
                work()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
    over.set()
    joined(threads)


class Late:
    """Blocks that the end of the interpreter frees."""

    def __init__(self, free, block):
        self.free, self.block = free, block

    def __del__(self):
        self.free(self.block)


def main():
    modules = [ctypes.CDLL(path) for path in sys.argv[2:]]
    heap = declare(ctypes.CDLL(sys.argv[1]), "hf_")
    heap.hf_owns.restype, heap.hf_owns.argtypes = ctypes.c_bool, [ctypes.c_void_p]
    libc = declare(ctypes.CDLL(None), "")
    raw = declare(ctypes.pythonapi, "PyMem_Raw", str.capitalize)

    first = report(heap)
    assert first.changed > 3, first.changed
    assert first.objects > len(modules), first.objects

    def work():
        crossings(heap, libc, raw, 4)

    crossings(heap, libc, raw)
    in_threads(work)
    in_child(work)
    loaded = []
    for name in LATE:
        with contextlib.suppress(ImportError):
            loaded.append(importlib.import_module(name))
    assert loaded
    later = report(heap)
    assert later.changed >= first.changed, (later.changed, first.changed)
    crossings(heap, libc, raw)
    for module in modules[::2]:
        ctypes.CDLL(module._name)
    gc.collect()
    main.kept = [Late(libc.free, heap.hf_malloc(1000)), Late(heap.hf_free, libc.malloc(1000))]
    main.kept.append(main.kept)
    print("fine")


if __name__ == "__main__":
    main()
