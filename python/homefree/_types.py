# SPDX-License-Identifier: BSD-2-Clause
"""Types that several modules name in annotations. Importing it imports typing, so that only type
checkers do, and homefree.check."""

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Literal, TypeVar, Union

T = TypeVar("T")
AnyPath = Union[str, bytes, PathLike[str], PathLike[bytes]]
Patterns = Union[str, Iterable[str]]
Shape = Union[int, Sequence[int]]
# What install() takes, and the kinds of owner_of().
Mode = Literal["arena", "full", "off"]
Kind = Literal[
    "heap",
    "pymalloc",
    "libc",
    "allocator",
    "stack",
    "static",
    "unmapped",
    "pinned",
    "device",
    "cuda",
    "unknown",
]
