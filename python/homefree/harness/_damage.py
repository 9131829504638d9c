# SPDX-License-Identifier: BSD-2-Clause
"""Making damage show: blocks of many sizes around the memory that crosses, filled and checked.

Runs in hosts. A block that is handed out twice, or that somebody writes to after it was freed,
differs from what it was filled with. Python objects alone are used where ctypes is missing.
"""

import gc

try:
    import _ctypes
    import ctypes
except ImportError:
    ctypes = None

_SIZES = (16, 24, 32, 48, 64, 100, 128, 200, 256, 512, 1000, 1024, 2048, 4096, 5000)
_LARGE = (70000, 150000)
_EACH = 4

if ctypes is not None:
    _libc = ctypes.CDLL(None)
    _allocate = _libc.malloc
    _allocate.restype = ctypes.c_void_p
    _allocate.argtypes = [ctypes.c_size_t]
    _release = _libc.free
    _release.restype = None
    _release.argtypes = [ctypes.c_void_p]
    _raw_allocate = ctypes.pythonapi.PyMem_RawMalloc
    _raw_allocate.restype = ctypes.c_void_p
    _raw_allocate.argtypes = [ctypes.c_size_t]
    _raw_release = ctypes.pythonapi.PyMem_RawFree
    _raw_release.restype = None
    _raw_release.argtypes = [ctypes.c_void_p]
    _free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


# Functions of objects with a hidden allocator: each uses that, and returns whether it was damaged.
turns = []


class Damaged(Exception):
    """Memory has not the contents that were written to it."""


def release(address):
    """Frees a block as the host's code would: by the `free` that a lookup finds now. No type may be
    made for that: a free-threaded CPython 3.13 with threads never frees one."""
    _free(_ctypes.dlsym(_libc._handle, "free"))(address)


def _native(allocate, release, sizes):
    blocks = []
    for number, size in enumerate(sizes):
        address = allocate(size)
        if address:
            ctypes.memset(address, 0xA0 + number % 16, size)
            blocks.append((address, size, 0xA0 + number % 16))
    bad = [
        size
        for address, size, byte in blocks
        if ctypes.string_at(address, size) != bytes([byte]) * size
    ]
    for address, _, _ in blocks:
        release(address)
    return bad


def scribble(size=None):
    """Allocates, fills, checks and frees blocks of libc's and of Python's allocators. `size`: a
    size to try as well. Raises Damaged."""
    sizes = _SIZES * _EACH + _LARGE
    if size is not None and 0 < size <= 1 << 20:
        sizes += (size,) * _EACH
    bad = []
    if ctypes is not None:
        bad = _native(_allocate, _release, sizes) + _native(_raw_allocate, _raw_release, sizes)
    things = [(bytearray(bytes([number % 251])) * size) for number, size in enumerate(sizes)]
    bad += [
        len(thing)
        for number, thing in enumerate(things)
        if thing.count(bytes([number % 251])) != len(thing)
    ]
    del things
    if any(turn() for turn in turns):
        raise Damaged("a block of the hidden allocator beside it was overwritten")
    if bad:
        raise Damaged(f"a new block of {bad[0]} bytes was overwritten by somebody else")


_INFO = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


def _mallinfo():
    """glibc's function that counts what its heap has in use, or None. Before 2.33 the counts have
    32 bits; what grows past 4 GiB is then no leak as far as is known."""
    for name, number in ("mallinfo2", "c_size_t"), ("mallinfo", "c_uint"):
        function = getattr(_libc, name, None) if ctypes is not None else None
        if function is not None:
            fields = [(field, getattr(ctypes, number)) for field in _INFO.split()]
            function.restype = type("_Info", (ctypes.Structure,), {"_fields_": fields})
            return function
    return None


_info = _mallinfo()


def live():
    """(bytes of the heap and libc, blocks of Python) that are in use."""
    import sys

    gc.collect()
    used = 0
    homefree = sys.modules.get("homefree")
    if homefree is not None:
        used += homefree.stats()["allocated"]
    if _info is not None:
        found = _info()
        used += found.uordblks + found.hblkhd
    return used, sys.getallocatedblocks()
