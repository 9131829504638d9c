# SPDX-License-Identifier: BSD-2-Clause
"""Numba's memory manager is chosen here; numba_plugin.py has it. Threads: any."""

from . import _space


def use_numba() -> None:
    """Makes Numba allocate devices' memory from homefree: numba.cuda.set_memory_manager().

    Call it before anything uses CUDA through Numba; or set NUMBA_CUDA_MEMORY_MANAGER to
    homefree.cuda.numba_plugin. Raises Unavailable without a device. Threads: any. Since 1.0.
    """
    from numba import cuda

    from . import numba_plugin

    if not _space.available():
        raise _space.unavailable("use_numba()")
    cuda.set_memory_manager(numba_plugin.HomefreeManager)
