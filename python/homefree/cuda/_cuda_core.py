# SPDX-License-Identifier: BSD-2-Clause
"""A memory resource for cuda.core. Keeps the class that it makes when it is first asked for one,
because its base class is cuda.core's. Threads: any."""

from __future__ import annotations

import functools

from . import _space

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@functools.cache
def _class():
    try:
        from cuda.core import Buffer, MemoryResource
    except ImportError:
        from cuda.core.experimental import Buffer, MemoryResource  # before 1.0

    class Resource(MemoryResource):
        """homefree's memory of a device, or page-locked memory, for cuda.core."""

        def __init__(self, device):
            self._kind = _space.PINNED if device is None else _space.DEVICE
            self._device = -1 if device is None else _space.device_number(device)

        def allocate(self, size, stream=None):
            on = _space.stream_number(stream)
            address = _space.alloc(
                "cuda.core's resource", self._kind, max(self._device, 0), size, on
            )
            # The buffer owns the address from here on, also if it cannot be made.
            if stream is None:
                return Buffer.from_handle(address, size, self)
            try:
                return Buffer.from_handle(address, size, self, stream=stream)
            except TypeError:  # before 1.0 there is no such argument
                return Buffer.from_handle(address, size, self)

        def deallocate(self, ptr, size, stream=None):
            # Page-locked memory of an unknown stream waits until all devices were idle.
            unknown = stream is None and self._kind == _space.PINNED
            on = _space.ANY if unknown else _space.stream_number(stream)
            _space.free("cuda.core's resource", int(ptr), on)

        @property
        def is_device_accessible(self):
            return True

        @property
        def is_host_accessible(self):
            return self._kind == _space.PINNED

        @property
        def is_managed(self):
            return False

        @property
        def device_id(self):
            return self._device

    return Resource


def cuda_core_resource(device: Any = 0) -> Any:
    """A cuda.core MemoryResource: of a device's memory or, for None, of page-locked memory.

    Its buffers are freed on the stream that cuda.core passes: that of close(), of
    set_deallocation_stream(), or of the allocation. Raises MemoryError without room and Unavailable
    without a device when it allocates. Threads: any. Since 1.0.
    """
    return _class()(device)
