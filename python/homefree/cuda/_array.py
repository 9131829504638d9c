# SPDX-License-Identifier: BSD-2-Clause
"""Arrays of a device's memory.

An array has a record of homefree/deleter.h in a capsule, which frees the memory on a stream when
the last of the array, its views and its DLPack tensors goes. Threads: any; free() and the last use
of an array are the caller's to order.
"""

from __future__ import annotations

from .. import _homefree
from . import _dtypes, _space

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._types import Shape

# DLPack's device types.
_CUDA, _CUDA_HOST, _CUDA_MANAGED = 2, 3, 13


class DeviceArray:
    """Memory of a CUDA device, with a shape and a type; what empty() and from_dlpack() return.

    It has no arithmetic. CuPy, Numba, torch and others take it by `__cuda_array_interface__` or
    `__dlpack__`, without a copy: cupy.asarray(array), torch.from_dlpack(array). The memory is freed
    on the array's stream when the last of them lets go of it. If others' work on another stream may
    not be done by then, call record_stream(), as DLPack's exchange does by itself.

    Threads: any. Fork: the child must not use it. Since 1.0.
    """

    __module__ = "homefree.cuda"
    __slots__ = (
        "__weakref__",
        "_capsule",
        "_address",
        "_strides",
        "_readonly",
        "_stream_object",
        "_kind",
        "device",
        "dtype",
        "shape",
        "stream",
    )
    device: int
    dtype: str
    shape: tuple[int, ...]
    stream: int

    def __init__(self) -> None:
        raise TypeError("homefree.cuda: empty() and from_dlpack() make DeviceArray objects")

    @classmethod
    def _of(cls, capsule, address, place, dtype, shape, strides, readonly, stream):
        self = cls.__new__(cls)
        self._capsule, self._address, self._kind = capsule, address, place[0]
        self._strides, self._readonly = strides, readonly
        # Kept until the array is gone, because the memory is freed on it.
        self._stream_object = stream
        self.device, self.dtype, self.shape = place[1], dtype, shape
        self.stream = _space.stream_number(stream)
        return self

    def __repr__(self) -> str:
        if self._capsule is None:
            return f"<homefree.cuda.DeviceArray {self.shape} {self.dtype}, freed>"
        where = f"cuda:{self.device}"
        return f"<homefree.cuda.DeviceArray {self.shape} {self.dtype} on {where}>"

    def _live(self):
        if self._capsule is None:
            raise ValueError("homefree.cuda: this array was freed")
        return self._capsule

    @property
    def ptr(self) -> int:
        """The device's address of the first element. Since 1.0."""
        self._live()
        return self._address

    @property
    def size(self) -> int:
        """The number of elements. Since 1.0."""
        return _dtypes.shape_of(self.shape)[1]

    @property
    def nbytes(self) -> int:
        """The bytes of all elements. Since 1.0."""
        return self.size * _dtypes.size(self.dtype)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3 of the protocol. The consumer's work waits for `stream` (1: the legacy default
        one)."""
        self._live()
        if self._kind == _CUDA_HOST:
            raise AttributeError("page-locked memory has no __cuda_array_interface__")
        itemsize = _dtypes.size(self.dtype)
        strides = self._strides and tuple(step * itemsize for step in self._strides)
        return {
            "shape": self.shape,
            "typestr": _dtypes.typestr(self.dtype),
            "data": (self._address if self.size else 0, self._readonly),
            "version": 3,
            "strides": strides,
            "stream": self.stream or 1,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's (device type, index)."""
        return (self._kind, self.device)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule, as the Python array API standard 2023.12 says.

        stream: the consumer's, which is made to wait for the array's: 1 or None for the legacy
        default one, 2 for the per-thread one, -1 to wait for nothing. Raises BufferError for what
        would need a copy.
        """
        keywords = {
            "stream": stream,
            "max_version": max_version,
            "dl_device": dl_device,
            "copy": copy,
        }
        return _homefree.dlpack_answer(
            self._live(),
            self._address,
            (self._kind, self.device),
            _dtypes.dlpack(self.dtype),
            self.shape,
            int(self._readonly),
            self.stream,
            keywords,
        )

    def record_stream(self, stream: Any) -> None:
        """Keeps the memory, once it is freed, until what `stream` has by then is done.

        Since 1.0.
        """
        self._live()
        _space.use("record_stream()", self._address, _space.stream_number(stream))

    def free(self, stream: Any = None) -> None:
        """Frees the memory now, on `stream`, or on the array's own stream for None.

        Nobody may use it afterwards, neither on the host nor in work that is not in that stream
        yet. Raises ValueError if it was freed before. Since 1.0.
        """
        capsule = self._live()
        number = None if stream is None else _space.stream_number(stream)
        try:
            done = _homefree.record_run(capsule, number)
        except OSError as error:
            raise _space.failed(error, "free()", _space.DEVICE, self.device) from None
        finally:
            self._capsule = None
        if not done:
            raise ValueError("homefree.cuda: this array was freed")

    def __enter__(self) -> DeviceArray:
        self._live()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._capsule is not None:
            self.free()


def empty(shape: Shape, dtype: Any = None, device: Any = 0, stream: Any = None) -> DeviceArray:
    """An array of a device's memory, whose contents are undefined.

    shape: an integer or a tuple. dtype: a name ("float32", the default "float64"), NumPy's or
    torch's type. device: its index, or torch's, CuPy's or cuda.core's object. stream: a
    cudaStream_t, None for the default one, or an object of torch, CuPy, Numba or cuda.core: the
    stream that uses the array first, and on which it is freed.

    Raises Unavailable without a device, MemoryError without room, TypeError and ValueError for
    wrong arguments. Threads: any. Fork: Unavailable in the child. Since 1.0.
    """
    name = _dtypes.name_of(dtype)
    lengths, count = _dtypes.shape_of(shape)
    number = _space.device_number(device)
    on = _space.stream_number(stream)
    size = count * _dtypes.size(name)
    capsule, address = _space.new("empty()", _space.DEVICE, number, size, on, on)
    return DeviceArray._of(capsule, address, (_CUDA, number), name, lengths, None, False, stream)


def from_dlpack(obj: Any, *, stream: Any = None) -> DeviceArray:
    """A view of another library's device tensor, by DLPack; nothing is copied.

    stream: the stream that will use the array. The producer makes it wait for its own work. The
    producer's memory is given back when the last view is gone, so work that still uses it then must
    be known to the producer.

    Raises TypeError if obj does not speak DLPack, or if its memory is the host's without being
    page-locked. Threads: any. Since 1.0.
    """
    number = _space.stream_number(stream)
    capsule, address, place, dtype, shape, strides, flags = _homefree.dlpack_import(obj, number)
    if place[0] not in (_CUDA, _CUDA_HOST, _CUDA_MANAGED):
        raise TypeError(
            f"homefree.cuda: this tensor is on DLPack's device {place}, not on a CUDA device; "
            "use numpy.from_dlpack()"
        )
    name = _dtypes.from_dlpack(*dtype)
    return DeviceArray._of(capsule, address, place, name, shape, strides, bool(flags & 1), stream)
