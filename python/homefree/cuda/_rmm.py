# SPDX-License-Identifier: BSD-2-Clause
"""A memory resource for RMM. Nothing here keeps state. Threads: any."""

from __future__ import annotations

from . import _space

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def rmm_resource(device: Any = 0) -> Any:
    """An rmm.mr.DeviceMemoryResource that allocates from a device's memory.

    RMM calls it with the stream on which it allocates and frees. Each call goes through Python.
    Raises MemoryError without room. Threads: any. Since 1.0.
    """
    import rmm.mr

    number = _space.device_number(device)

    def allocate(size, stream):
        return _space.alloc(
            "RMM's resource", _space.DEVICE, number, size, _space.stream_number(stream)
        )

    def deallocate(address, size, stream):
        _space.free("RMM's resource", address, _space.stream_number(stream))

    return rmm.mr.CallbackMemoryResource(allocate, deallocate)


def use_rmm(device: Any = 0) -> Any:
    """Makes homefree the current resource of a device for RMM, and so for cuDF, cuML and others.

    Returns the resource. Raises Unavailable without a device. Threads: any. Since 1.0.
    """
    import rmm.mr

    number = _space.device_number(device)
    if not _space.available(number):
        raise _space.unavailable("use_rmm()", _space.DEVICE, number)
    resource = rmm_resource(number)
    rmm.mr.set_per_device_resource(number, resource)
    return resource
