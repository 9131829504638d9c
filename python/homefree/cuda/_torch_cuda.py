# SPDX-License-Identifier: BSD-2-Clause
"""torch's allocators. `_made` is the one allocator of the process, which torch may call until its
end. Threads: any; `_lock` guards `_made`."""

from __future__ import annotations

import ctypes
import os
import threading

from . import _space

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FUNCTIONS = {
    "set_record_stream_fn": "hf_torch_record_stream",
    "set_reset_fn": "hf_torch_empty_cache",
    "set_memory_fraction_fn": "hf_torch_memory_fraction",
}
_lock = threading.Lock()
_made = None
_in_use = False


def _library():
    here = os.path.dirname(os.path.abspath(__file__))
    return os.path.join(os.path.dirname(here), "_torch_allocator.so")


def torch_allocator() -> Any:
    """homefree's allocator for torch, a torch.cuda.memory.CUDAPluggableAllocator.

    For torch.cuda.memory.change_current_allocator(), which use_torch() calls, or as the argument
    of a torch.cuda.MemPool. Tensor.record_stream(), torch.cuda.empty_cache() and
    set_per_process_memory_fraction() work with it. It is the same at each call, and needs no
    device. Raises ImportError without torch, RuntimeError for one before 2.0 or without CUDA.
    Threads: any. Since 1.0.
    """
    global _made
    import torch

    pluggable = getattr(torch.cuda.memory, "CUDAPluggableAllocator", None)
    if pluggable is None:
        raise RuntimeError(
            f"homefree.cuda: torch {torch.__version__} takes no allocator of others; use torch 2.0 "
            "or later"
        )
    if not hasattr(torch._C, "_cuda_customAllocator"):  # the class exists all the same
        raise RuntimeError(
            f"homefree.cuda: torch {torch.__version__} is built without CUDA; use a build for CUDA"
        )
    with _lock:
        if _made is None:
            path = _library()
            made = pluggable(path, "hf_torch_alloc", "hf_torch_free")
            library, inner = ctypes.CDLL(path), made.allocator()
            for setter, function in _FUNCTIONS.items():
                if hasattr(inner, setter):  # since different versions of torch
                    address = ctypes.cast(getattr(library, function), ctypes.c_void_p).value
                    getattr(inner, setter)(address)
            _made = made
    return _made


def torch_mem_pool() -> Any:
    """A torch.cuda.MemPool whose memory is homefree's.

        with torch.cuda.use_mem_pool(homefree.cuda.torch_mem_pool()):
            tensor = torch.empty(1 << 20, device="cuda")

    torch's own allocator divides what the pool takes from homefree, and everything else stays
    torch's. Raises Unavailable without a device, RuntimeError for a torch without such pools.
    Threads: any. Since 1.0.
    """
    import torch

    if not _space.available():
        raise _space.unavailable("torch_mem_pool()")
    pool = getattr(torch.cuda, "MemPool", None)
    if pool is None:
        raise RuntimeError(
            f"homefree.cuda: torch {torch.__version__} has no torch.cuda.MemPool; use torch 2.5 or "
            "later, or use_torch()"
        )
    return pool(torch_allocator().allocator())


def use_torch() -> None:
    """Makes torch allocate all CUDA tensors of the process from homefree.

    Call it before torch allocates its first CUDA tensor: torch cannot change its allocator later,
    and never changes it back. torch's own counters (torch.cuda.memory_allocated() and its kind) do
    not work with an allocator that is not torch's: see stats(). A second call does nothing.

    Raises Unavailable without a device, RuntimeError if CUDA was initialized before or torch is
    built without it. Threads: any. Since 1.0.
    """
    global _in_use
    import torch

    if _in_use:
        return
    if not _space.available():
        raise _space.unavailable("use_torch()")
    late = (
        "homefree.cuda: torch has initialized CUDA with another allocator, which it cannot change "
        "any more; call use_torch() right after importing torch, before any tensor is on a device, "
        "or take a torch_mem_pool()"
    )
    if torch.cuda.is_initialized():
        raise RuntimeError(late)
    allocator = torch_allocator()
    try:
        torch.cuda.memory.change_current_allocator(allocator)
    except RuntimeError as error:
        raise RuntimeError(f"{late} ({error})") from None
    _in_use = True
