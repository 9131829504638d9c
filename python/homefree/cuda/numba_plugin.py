# SPDX-License-Identifier: BSD-2-Clause
"""A plugin for Numba's External Memory Management: NUMBA_CUDA_MEMORY_MANAGER names this module.

Numba does not say which streams use an array. So memory is allocated for the default stream, which
the streams that Numba makes wait for, and freed for any: it is used again when the device has once
been idle. Importing this imports numba.cuda. Since 1.0.
"""

from numba import cuda
from numba.core import config

from . import _space


class HomefreeManager(cuda.HostOnlyCUDAMemoryManager):
    """Devices' memory from homefree; page-locked memory stays Numba's own."""

    def initialize(self):
        pass

    def memalloc(self, size):
        device = self.context.device.id
        # 2: cudaStreamPerThread.
        on = 2 if getattr(config, "CUDA_PER_THREAD_DEFAULT_STREAM", 0) else 0
        capsule, address = _space.new("Numba's plugin", _space.DEVICE, device, size, on, _space.ANY)
        allocations = self.allocations
        allocations[address] = capsule

        def finalize():
            # A reset of the context has cleared it.
            allocations.pop(address, None)

        return cuda.MemoryPointer(self.context, _handle(address), size, finalizer=finalize)

    def get_ipc_handle(self, memory):
        raise NotImplementedError(
            "homefree.cuda: CUDA cannot share mapped memory with other processes by an IPC handle; "
            "copy into an array of Numba's own memory manager"
        )

    def get_memory_info(self):
        stats = _space.stats(self.context.device.id)
        return cuda.MemoryInfo(free=stats["total"] - stats["allocated"], total=stats["total"])

    @property
    def interface_version(self):
        return 1


def _handle(address):
    """A device's address as this Numba has them."""
    import ctypes

    return ctypes.c_void_p(address)


_numba_memory_manager = HomefreeManager
