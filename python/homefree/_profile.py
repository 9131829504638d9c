# SPDX-License-Identifier: BSD-2-Clause
"""Which code has how much of the heap, by samples. Nothing here keeps state. Threads: any."""

from __future__ import annotations

from typing import NamedTuple

from . import _homefree

MEAN = 512 << 10


class PythonFrame(NamedTuple):
    """A function of Python, and the line of it that ran. Since 1.0."""

    function: str
    file: str
    line: int  # 0: unknown


class NativeFrame(NamedTuple):
    """A call in a shared object. Since 1.0."""

    object: str | None  # its path; None: it is not loaded any more
    symbol: str | None  # the exported function that the call is in, if there is one
    address: int  # to which the call returns


class ProfileRow(NamedTuple):
    """What the calls of one stack allocated, and still lives: estimates. Since 1.0."""

    bytes: float
    blocks: float
    samples: int  # that the estimate is made of; its relative error is about 1 / sqrt(samples)
    object: str  # path of the shared object that asked for it; "": unknown
    python: tuple[PythonFrame, ...]  # innermost first, as below
    native: tuple[NativeFrame, ...]


def profile_begin(mean: int = MEAN) -> None:
    """Begins a profile of the heap, and forgets what earlier ones sampled.

    Of `mean` allocated bytes, one makes its block a sample, with the stack of the call. At the
    usual rate, programs take less than a hundredth longer. What lives already is not seen, nor are
    objects in CPython's own arenas: `install(python="full")` brings them to the heap.

    RuntimeError if a profile has begun already, or in diagnostics mode. Since 1.0.
    """
    _homefree.profile_begin(mean)


def profile_end() -> None:
    """Ends the profile: nothing more becomes a sample. `profile()` shows what is left of them.

    RuntimeError if there is none. Since 1.0.
    """
    _homefree.profile_end()


def profile() -> list[ProfileRow]:
    """What was allocated since the profile began and still lives, by stack, most bytes first.

    The sums are estimates without bias, of bytes and of blocks. Since 1.0.
    """
    sums = {}
    for _, _, weight_bytes, weight_blocks, *stack in _homefree.profile_samples():
        key = tuple(stack)
        old_bytes, old_blocks, samples = sums.get(key, (0.0, 0.0, 0))
        sums[key] = (old_bytes + weight_bytes, old_blocks + weight_blocks, samples + 1)
    frames = {}

    def native(address):
        frame = frames.get(address)
        if frame is None:
            object_, symbol, _ = _homefree.profile_symbol(address) or (None, None, 0)
            frame = frames[address] = NativeFrame(object_, symbol, address)
        return frame

    rows = [
        ProfileRow(
            *numbers,
            object_,
            tuple(PythonFrame(*frame) for frame in python),
            tuple(native(address) for address in addresses),
        )
        for (object_, python, addresses), numbers in sums.items()
    ]
    rows.sort(key=lambda row: -row.bytes)
    return rows
