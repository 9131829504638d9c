# SPDX-License-Identifier: BSD-2-Clause
"""What all of homefree.cuda shares: spaces by name, streams as numbers, errors that say what to do.

Nothing here keeps state. Threads: any.
"""

import errno
import operator

from .. import _homefree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HOST, PINNED, DEVICE = 0, 1, 2

# Streams that are none: HF_STREAM_DONE and HF_STREAM_ANY.
DONE, ANY = -1, -2


class Unavailable(RuntimeError):
    """There is no CUDA runtime or device that homefree could use. Since 1.0."""

    __module__ = "homefree.cuda"


def failed(error, what, kind, device=0):
    """The exception for an OSError of _homefree."""
    if error.errno in (errno.ENODEV, errno.ENOTSUP):
        return unavailable(what, kind, device)
    if error.errno == errno.ENOMEM:
        where = "of page-locked memory" if kind == PINNED else f"on CUDA device {device}"
        why = _homefree.space_reason(kind, device)
        return MemoryError(
            f"homefree.cuda: {what}: there is no room {where}{': ' + why if why else ''}; free "
            "arrays, call homefree.cuda.trim(), or raise homefree.cuda.limit()"
        )
    if error.errno == errno.EINVAL:
        return ValueError(
            f"homefree.cuda: {what}: the device, the stream or the size is not possible"
        )
    if error.errno == errno.EAGAIN:
        return RuntimeError(
            f"homefree.cuda: {what}: more streams have memory than homefree can tell apart; use "
            "fewer streams, or free what the others have"
        )
    if error.errno == errno.EBUSY:
        return RuntimeError(
            f"homefree.cuda: {what}: CUDA refuses it while a stream is captured into a graph; "
            "allocate what is needed before"
        )
    if error.errno == errno.EIO:
        why = _homefree.space_reason(kind, device)
        return RuntimeError(f"homefree.cuda: {what}: CUDA failed{': ' + why if why else ''}")
    if error.errno == errno.ECANCELED:
        return RuntimeError(
            f"homefree.cuda: {what}: the device cannot tell any more whether it is done, so the "
            "memory is leaked and counted (homefree.cuda.stats()); free it before the device is "
            "reset and before the process ends"
        )
    return error


def unavailable(what, kind=DEVICE, device=0):
    try:
        why = _homefree.space_reason(kind, device)
    except OSError:
        why = ""
    if "-Dcuda" not in why:  # else it says what to do
        why = (
            f"{why or 'there is no CUDA runtime or no device'}; install NVIDIA's driver and a CUDA "
            "runtime (libcudart), import what brings one (torch, CuPy) first, or name the file "
            "with HOMEFREE_CONF=cuda:PATH"
        )
    return Unavailable(f"homefree.cuda: {what}: {why}")


def device_number(device):
    """The index of a device: a number, or an object of torch, CuPy or cuda.core."""
    if device is None:
        return 0
    for name in ("index", "id", "device_id"):
        number = getattr(device, name, None)
        if isinstance(number, int):
            device = number
            break
    else:
        if str(device) == "cuda":
            return 0
        kind, _, number = str(device).partition(":")
        if kind == "cuda" and number.isdigit():
            device = int(number)
    try:
        number = operator.index(device)
    except TypeError:
        raise TypeError(
            f"homefree.cuda: {device!r} is no device; pass its index, or torch's, CuPy's or "
            "cuda.core's object"
        ) from None
    if not 0 <= number < 1 << 31:
        raise ValueError(f"homefree.cuda: {number} is no device's index")
    return number


def stream_number(stream):
    """A stream as a number: a cudaStream_t, None for the default one, or an object of torch
    (cuda_stream), CuPy (ptr), Numba or cuda.core (handle), or with __cuda_stream__()."""
    if stream is None:
        return 0
    if not isinstance(stream, int):
        protocol = getattr(stream, "__cuda_stream__", None)
        if protocol is not None:
            # A method since version 0 of the protocol; an attribute in early cuda.core.
            answer = protocol() if callable(protocol) else protocol
            stream = answer[1]
        else:
            for name in ("cuda_stream", "ptr", "handle"):
                found = getattr(stream, name, None)
                if found is not None:
                    stream = getattr(found, "value", found)
                    break
            else:
                raise TypeError(
                    f"homefree.cuda: {stream!r} is no stream; pass None, a cudaStream_t as an "
                    "integer, or torch's, CuPy's, Numba's or cuda.core's object"
                )
    number = int(stream or 0)
    if number < 0:
        raise ValueError(f"homefree.cuda: {number} is no stream; pass a cudaStream_t")
    return number


def new(what, kind, device, size, stream, last):
    """A block with a record: (capsule, address)."""
    try:
        return _homefree.space_new(kind, device, size, stream, last)
    except OSError as error:
        raise failed(error, what, kind, device) from None


def alloc(what, kind, device, size, stream):
    """A block without one: its address."""
    try:
        return _homefree.space_alloc(kind, device, size, stream)
    except OSError as error:
        raise failed(error, what, kind, device) from None


def free(what, address, stream):
    try:
        _homefree.space_free(address, stream)
    except OSError as error:
        raise failed(error, what, DEVICE) from None


def use(what, address, stream):
    """Records that a stream uses the block that holds the address: the block's address."""
    space = _homefree.space_of(address)
    if space is None or not space[3]:
        raise ValueError(
            f"homefree.cuda: {what}: this memory is not homefree's, so its owner must keep it "
            "until the stream is done"
        )
    try:
        _homefree.space_use(space[3], stream)
    except OSError as error:
        raise failed(error, what, space[0], max(space[1], 0)) from None
    return space[3]


def _probe(device):
    """Looks for a runtime and a device, and orders nothing: None, or an OSError."""
    try:
        _homefree.space_order(device, DONE, 0)
    except OSError as error:
        return error
    return None


def available(device: "Any" = 0) -> bool:
    """Whether memory of a device can be had; reason() says why not.

    device: an index; None for page-locked memory. Looks for the CUDA runtime, and creates no
    context. Threads: any. Fork: False in the child. Since 1.0.
    """
    return _probe(_place(device)[1]) is None


def reason(device: "Any" = 0) -> str:
    """Why there is no memory of a device, in one line; "" if nothing is known to be wrong.

    device: an index; None for page-locked memory. Threads: any. Since 1.0.
    """
    kind, number = _place(device)
    error = _probe(number)
    try:
        why = _homefree.space_reason(kind, number)
    except OSError:
        why = ""
    return why or (f"there is no CUDA device {number}" if error else "")


def _place(device):
    return (PINNED, 0) if device is None else (DEVICE, device_number(device))


def stats(device: "Any" = None) -> "dict[str, int]":
    """The counters of a device's memory or, for None, of page-locked memory: a dict.

    total, limit, reserved, reserved_peak, allocated, allocated_peak, pending (freed, but a device
    may still use it) and leaked are bytes; leaked_blocks, streams and grown are numbers. A space
    that was never used has only zeros. Threads: any. Since 1.0.
    """
    kind, number = _place(device)
    try:
        return _homefree.space_stats(kind, number)
    except OSError as error:
        raise failed(error, "stats()", kind, number) from None


def trim(device: "Any" = None, keep: int = 0) -> int:
    """Gives unused memory back to the driver until `keep` bytes are reserved: the bytes given back.

    device: an index; None for page-locked memory. Waits for the device. Raises Unavailable.
    Threads: any. Since 1.0.
    """
    kind, number = _place(device)
    try:
        return _homefree.space_trim(kind, number, keep)
    except OSError as error:
        raise failed(error, "trim()", kind, number) from None


def limit(bytes: int, device: "Any" = None) -> None:
    """Limits how much a space may reserve; what is reserved stays.

    bytes: 0 for the default, which is a device's whole memory and half of the host's. device: an
    index; None for page-locked memory. Raises Unavailable. Threads: any. Since 1.0.
    """
    kind, number = _place(device)
    try:
        _homefree.space_limit(kind, number, bytes)
    except OSError as error:
        raise failed(error, "limit()", kind, number) from None
