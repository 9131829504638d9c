# SPDX-License-Identifier: BSD-2-Clause
"""How objects cross between interpreters: as a pickle, and the memory of their buffers beside it.

Pickle's protocol 5 leaves out the memory of NumPy arrays, pandas' frames and Arrow data, which then
crosses by reference. A memoryview and what has __dlpack__ do the same by the functions below.

CPython passes objects between interpreters itself, in concurrent.interpreters: what share() makes
crosses there in the same way, and so do NumPy's arrays after prepare().

State: which function reduces which type, written once for each type. Threads: any.
"""

from __future__ import annotations

import io
import math
import pickle
import sys

from .. import _homefree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._types import T

__all__ = ["pack", "reduce_message", "share", "unpack"]

_HOST = {1, 3, 11}  # DLPack's kinds of device that the host can read: CPU, pinned, unified


def pack(value):
    """The pickle of an object, and the list of buffers that it leaves out."""
    buffers = []
    file = io.BytesIO()
    Pickler(file, 5, buffer_callback=buffers.append).dump(value)
    return file.getvalue(), buffers


def unpack(pickled, buffers=()):
    """The object of what pack() returned, in whichever interpreter."""
    return pickle.loads(pickled, buffers=buffers)


# ---- what CPython passes between interpreters ----


def share(value: T) -> _homefree.Message[T]:
    """A Message of an object: it crosses between interpreters with its memory by reference.

    In the interpreter that receives it, it is the object again, on the same memory:

        queue = concurrent.interpreters.create_queue()
        queue.put(share({"weights": array, "rows": memoryview(rows)}))
        queue.get()["weights"]                          # in whichever interpreter: the same bytes

    It can be sent wherever CPython passes objects between interpreters: queues, Interpreter.call(),
    prepare_main(), arguments and results of InterpreterPoolExecutor's tasks; and it can be sent any
    number of times. What crosses by reference is what an Executor passes by reference. The memory
    is let go when the Message, what was received, and what was sent and not received are all gone;
    it outlives the interpreter that shared it.

    CPython 3.12, 3.13 and 3.14. How later ones pass objects is not known: there, and where pickle
    is used, a Message crosses as a copy. Raises what pickling raises. Threads: any. Since 1.0.
    """
    message = _homefree.Message(*pack(value))
    _homefree.register_crossing(_homefree.Message)
    return message


def reduce_message(pickled, buffers):
    """Reduces a Message, given its parts, to a call that makes the object."""
    return unpack, (pickle.PickleBuffer(pickled), [pickle.PickleBuffer(one) for one in buffers])


# ---- memoryview and Shared ----


def _reduce_view(view):
    # A format may name fields: "T{i:name:}".
    if "O" in "".join(view.format.split(":")[::2]):
        raise TypeError("a memoryview of Python's objects belongs to its interpreter")
    memory = view
    if not view.c_contiguous:
        memory = memoryview(bytes(view) if view.readonly else bytearray(view))
    return _view, (pickle.PickleBuffer(memory), view.format, view.itemsize, view.shape)


def _view(buffer, letters, size, shape):
    if letters == "B" and len(shape) == 1:
        return memoryview(buffer)
    return _homefree.view(buffer, letters, size, shape)


def _reduce_shared(memory):
    return _same, (pickle.PickleBuffer(memory),)


def _same(memory):
    return memory


# ---- DLPack ----


class _Tensor:
    """A tensor that arrived, as from_dlpack() functions ask for it."""

    def __init__(self, memory, device, kind, shape):
        self._memory = memory
        self._place = device, kind, shape

    def __dlpack_device__(self):
        return self._place[0]

    def __dlpack__(self, **keywords):
        capsule, address = _homefree.shared_record(self._memory)
        readonly = int(memoryview(self._memory).readonly)
        return _homefree.dlpack_answer(capsule, address, *self._place, readonly, 0, keywords)


def _reduce_tensor(value):
    """Reduces a tensor whose memory the host can read. Others pickle themselves, or say why not."""
    try:
        found = _homefree.dlpack_import(value, None)
    except (TypeError, ValueError, BufferError, RuntimeError, OSError):
        return NotImplemented
    capsule, address, device, kind, shape, strides, flags = found
    if device[0] not in _HOST or not _row_major(shape, strides):
        return NotImplemented
    size = math.prod(shape) * (kind[1] + 7) // 8
    memory = _homefree.shared(capsule, address, size, flags & 1)
    function = _from_dlpack(type(value))
    return _tensor, (function, pickle.PickleBuffer(memory), device, kind, shape)


def _row_major(shape, strides):
    expected = 1
    for length, stride in zip(reversed(shape), reversed(strides or ())):
        if length != 1 and stride != expected:
            return False
        expected *= length
    return True


def _tensor(function, memory, device, kind, shape):
    return function(_Tensor(memory, device, kind, shape))


def _from_dlpack(kind):
    """The from_dlpack() of the library that has a type, or None."""
    library = sys.modules.get(kind.__module__.partition(".")[0])
    return getattr(library, "from_dlpack", None)


# ---- which function reduces which type ----

_reducers = {memoryview: _reduce_view, _homefree.Shared: _reduce_shared}


def _reducer_of(kind):
    """The function for a type that was not seen before. NumPy's arrays pickle themselves."""
    tensor = hasattr(kind, "__dlpack__") and not hasattr(kind, "__array_priority__")
    reduce = _reduce_tensor if tensor and _from_dlpack(kind) is not None else None
    return _reducers.setdefault(kind, reduce)


class Pickler(pickle.Pickler):
    def reducer_override(self, value):
        try:
            reduce = _reducers[type(value)]
        except KeyError:
            reduce = _reducer_of(type(value))
        return NotImplemented if reduce is None else reduce(value)
