# SPDX-License-Identifier: BSD-2-Clause
"""Page-locked memory and devices' memory: the spaces of homefree/space.h, for Python.

Importing this package neither loads nor needs CUDA. The first allocation looks for a CUDA runtime
that is loaded already, then for libcudart.so.13, .12 and .11, or for the file that the option
`cuda` names. Where there is none, or no device, available() is False, and what allocates raises
Unavailable, which says why.

Everything here may be called from any thread and any interpreter. After fork() the child cannot use
CUDA. Since 1.0.
"""

from .._lazy import attributes
from ._space import Unavailable, available, limit, reason, stats, trim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._array import DeviceArray, empty, from_dlpack
    from ._cuda_core import cuda_core_resource
    from ._cupy import cupy_allocator, use_cupy
    from ._numba import use_numba
    from ._pinned import empty_pinned, pin_memory, record_stream
    from ._rmm import rmm_resource, use_rmm
    from ._torch_cuda import torch_allocator, torch_mem_pool, use_torch

__all__ = [
    "DeviceArray",
    "Unavailable",
    "available",
    "cuda_core_resource",
    "cupy_allocator",
    "empty",
    "empty_pinned",
    "from_dlpack",
    "limit",
    "pin_memory",
    "reason",
    "record_stream",
    "rmm_resource",
    "stats",
    "torch_allocator",
    "torch_mem_pool",
    "trim",
    "use_cupy",
    "use_numba",
    "use_rmm",
    "use_torch",
]

# Modules that are imported when one of their names is first used, and these names.
_LAZY = {
    "_array": "DeviceArray empty from_dlpack",
    "_cuda_core": "cuda_core_resource",
    "_cupy": "cupy_allocator use_cupy",
    "_numba": "use_numba",
    "_pinned": "empty_pinned pin_memory record_stream",
    "_rmm": "rmm_resource use_rmm",
    "_torch_cuda": "torch_allocator torch_mem_pool use_torch",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = attributes(__name__, _LAZY, globals())
