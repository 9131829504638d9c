# SPDX-License-Identifier: BSD-2-Clause
"""Page-locked host memory as NumPy arrays and torch tensors.

The memory has a record that frees it when the last view goes, on whatever thread. Which streams
still copy from or to it then is not known, so it is kept until all devices were idle once, unless
record_stream() has said which streams use it.

`_records` has the address of the record of each block that was handed out, for record_stream(),
because a tensor does not say whose memory it has. An entry may outlive its record; _homefree looks
at it before it believes it. Threads: any; the dict is shared.
"""

from __future__ import annotations

import sys

from .. import _homefree
from . import _dtypes, _space

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._types import Shape, T

_records = {}
_swept = 64


class _Memory:
    """What NumPy takes for an array, and keeps as its base."""

    __slots__ = ("__array_interface__", "_capsule")

    def __init__(self, capsule, address, size):
        self._capsule = capsule
        self.__array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


def _block(size):
    """(capsule, address) of page-locked memory."""
    global _swept
    capsule, address = _space.new("empty_pinned()", _space.PINNED, 0, size, 0, _space.ANY)
    if len(_records) > _swept:
        for block, number in list(_records.items()):
            if not _homefree.record_is(number, block):
                _records.pop(block, None)
        _swept = 2 * len(_records) + 64
    _records[address] = _homefree.record_number(capsule)
    return capsule, address


def _numpy_array(shape, dtype):
    import numpy

    dtype = numpy.dtype(dtype)
    if dtype.hasobject:
        raise TypeError(
            f"homefree.cuda: {dtype!r} holds Python objects, which no device can read; choose a "
            "type of plain numbers"
        )
    lengths, count = _dtypes.shape_of(shape)
    if count * dtype.itemsize == 0:
        return numpy.empty(lengths, dtype)
    size = count * dtype.itemsize
    memory = numpy.asarray(_Memory(*_block(size), size))
    return numpy.ndarray(lengths, dtype, memory)


def _torch_tensor(shape, dtype):
    torch = sys.modules["torch"]
    if not hasattr(torch, "from_dlpack"):  # as old as views of elements as any others
        raise RuntimeError(
            f"homefree.cuda: torch {torch.__version__} makes no tensors of page-locked memory; use "
            "torch 1.10 or later"
        )
    lengths, count = _dtypes.shape_of(shape)
    itemsize = torch.empty((), dtype=dtype).element_size()
    if count == 0:
        return torch.empty(lengths, dtype=dtype)
    size = count * itemsize
    capsule, address = _block(size)
    tensor = _homefree.dlpack_answer(
        capsule, address, (1, 0), _dtypes.dlpack("uint8"), (size,), 0, _space.DONE, {}
    )
    return torch.utils.dlpack.from_dlpack(tensor).view(dtype).reshape(lengths)


def empty_pinned(shape: Shape, dtype: Any = None, *, like: Any = None) -> Any:
    """An array in page-locked memory, from and to which devices copy at full speed.

    shape: an integer or a tuple. dtype: NumPy's type, or a torch.dtype for a torch tensor. like: an
    array or tensor whose type, and kind where dtype is None, the result has. The memory has exactly
    the bytes asked for, and its contents are undefined. It is freed when the last view goes; a copy
    that is under way then is waited for (see record_stream()).

    Raises Unavailable without a device, MemoryError without room, TypeError and ValueError for
    wrong arguments, RuntimeError for a torch before 1.10. Threads: any. Fork: Unavailable in the
    child. Since 1.0.
    """
    if dtype is None and like is not None:
        dtype = like.dtype
    if _dtypes.is_torch(dtype):
        return _torch_tensor(shape, dtype)
    return _numpy_array(shape, dtype)


def _pinned_already(address):
    space = _homefree.space_of(address)
    return space is not None and space[0] == _space.PINNED


def pin_memory(obj: T) -> T:
    """A copy in page-locked memory, for a DataLoader's batches.

    Copies NumPy arrays and torch tensors of the host, also in dicts, lists, tuples and named tuples
    however nested, which keep their type. Other objects are returned as they are, and so is what is
    page-locked already; an object that has a method pin_memory() of its own answers for itself.

    Raises as empty_pinned() does. Threads: any. Since 1.0.
    """
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if torch is not None and isinstance(obj, torch.Tensor):
        if obj.device.type != "cpu" or obj.layout != torch.strided or obj.numel() == 0:
            return obj
        if _pinned_already(obj.data_ptr()):
            return obj
        pinned = _torch_tensor(tuple(obj.shape), obj.dtype)
        with torch.no_grad():
            pinned.copy_(obj)
        return pinned
    if numpy is not None and isinstance(obj, numpy.ndarray):
        if obj.dtype.hasobject or obj.size == 0 or _pinned_already(obj.ctypes.data):
            return obj
        pinned = _numpy_array(obj.shape, obj.dtype)
        pinned[...] = obj
        return pinned
    if isinstance(obj, (str, bytes)):
        return obj
    if isinstance(obj, dict):
        pairs = {key: pin_memory(value) for key, value in obj.items()}
        return pairs if type(obj) is dict else _same_type(obj, pairs)
    if isinstance(obj, tuple) and hasattr(obj, "_fields"):
        return type(obj)(*(pin_memory(value) for value in obj))
    if isinstance(obj, (list, tuple)):
        values = [pin_memory(value) for value in obj]
        return values if type(obj) is list else _same_type(obj, values)
    own = getattr(obj, "pin_memory", None)
    return own() if callable(own) else obj


def _same_type(obj, values):
    """A container of obj's type, or the plain one if its type takes other arguments."""
    try:
        return type(obj)(values)
    except TypeError:
        return values


def _address(obj):
    """Where an array's or a tensor's elements are."""
    if isinstance(obj, int):
        return obj
    for find in (
        lambda: obj.data_ptr(),
        lambda: obj.__cuda_array_interface__["data"][0],
        lambda: obj.__array_interface__["data"][0],
    ):
        try:
            return find()
        except (AttributeError, TypeError):
            pass
    raise TypeError(
        f"homefree.cuda: {type(obj).__name__} says no address; pass a NumPy array, a torch tensor, "
        "an array with __cuda_array_interface__, or the address"
    )


def record_stream(obj: Any, stream: Any) -> None:
    """Says that a stream uses memory of homefree's: once it is freed, it is kept until what the
    stream has by then is done.

    obj: an array or a tensor of empty_pinned(), pin_memory() or empty(), a view of one, or an
    address. Page-locked memory then waits for the recorded streams alone, and no longer for all
    devices to be idle: record each stream that uses it. Raises ValueError if the memory is not
    homefree's. Threads: any. Since 1.0.
    """
    block = _space.use("record_stream()", _address(obj), _space.stream_number(stream))
    number = _records.get(block)
    if number is not None:
        _homefree.record_done(number, block)
