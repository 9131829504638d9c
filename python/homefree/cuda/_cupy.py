# SPDX-License-Identifier: BSD-2-Clause
"""CuPy's allocator. Nothing here keeps state. Threads: any."""

from __future__ import annotations

from . import _space

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def cupy_allocator() -> Callable[[int], Any]:
    """An allocator for cupy.cuda.set_allocator() and cupy.cuda.using_allocator().

    A block belongs to the stream that is current when it is allocated, and is freed on it when the
    last array lets go, from whatever stream. An array that is used on another stream meanwhile
    needs record_stream(), or an event before it goes, as with CuPy's own pools.

    Raises Unavailable when it allocates without a device, MemoryError without room. Threads: any.
    Since 1.0.
    """
    import cupy

    def allocate(size):
        stream = cupy.cuda.get_current_stream()
        device = cupy.cuda.device.get_device_id()
        on = _space.stream_number(stream)
        capsule, address = _space.new(
            "CuPy's allocator", _space.DEVICE, device, max(size, 0), on, on
        )
        # The stream is kept until the block is freed on it.
        memory = cupy.cuda.UnownedMemory(address, size, (capsule, stream), device)
        return cupy.cuda.MemoryPointer(memory, 0)

    return allocate


def use_cupy() -> None:
    """Makes CuPy allocate all arrays of the process from homefree from now on.

    Raises Unavailable without a device. Threads: any. Since 1.0.
    """
    import cupy

    if not _space.available():
        raise _space.unavailable("use_cupy()")
    cupy.cuda.set_allocator(cupy_allocator())
