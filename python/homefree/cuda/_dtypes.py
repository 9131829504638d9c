# SPDX-License-Identifier: BSD-2-Clause
"""Types of elements, without NumPy: by name, by array interface's typestr, of NumPy and of torch.

Nothing here keeps state. Threads: any.
"""

import sys

_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6

# name: (typestr, bytes, DLPack's code). bfloat16 has no typestr; others take "<V2" for it.
_TYPES = {
    "bool": ("|b1", 1, _BOOL),
    "int8": ("|i1", 1, _INT),
    "int16": ("<i2", 2, _INT),
    "int32": ("<i4", 4, _INT),
    "int64": ("<i8", 8, _INT),
    "uint8": ("|u1", 1, _UINT),
    "uint16": ("<u2", 2, _UINT),
    "uint32": ("<u4", 4, _UINT),
    "uint64": ("<u8", 8, _UINT),
    "float16": ("<f2", 2, _FLOAT),
    "float32": ("<f4", 4, _FLOAT),
    "float64": ("<f8", 8, _FLOAT),
    "bfloat16": ("<V2", 2, _BFLOAT),
    "complex64": ("<c8", 8, _COMPLEX),
    "complex128": ("<c16", 16, _COMPLEX),
}
_NAMES = {typestr: name for name, (typestr, _, _) in _TYPES.items()}
_SHORT = {bool: "bool", int: "int64", float: "float64", complex: "complex128", None: "float64"}


def name_of(dtype):
    """The name of a type of elements; TypeError if it is none that a device has."""
    if dtype is None or dtype in (bool, int, float, complex):
        return _SHORT[dtype]
    if isinstance(dtype, str):
        name = _NAMES.get(dtype if dtype[:1] in "<|" else "<" + dtype, dtype)
    elif is_torch(dtype):
        name = str(dtype).partition(".")[2]
    else:
        name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
        if getattr(dtype, "byteorder", "=") == ">":
            name = f">{name}"
    if name not in _TYPES:
        raise TypeError(
            f"homefree.cuda: {dtype!r} is no type that DLPack and __cuda_array_interface__ share; "
            f"one of {', '.join(_TYPES)}"
        )
    return name


def is_torch(dtype):
    """Whether this is a torch.dtype; does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(dtype, torch.dtype)


def typestr(name):
    return _TYPES[name][0]


def size(name):
    return _TYPES[name][1]


def dlpack(name):
    """DLPack's (code, bits)."""
    _, length, code = _TYPES[name]
    return code, length * 8


def from_dlpack(code, bits, lanes):
    for name in _TYPES:
        if lanes == 1 and dlpack(name) == (code, bits):
            return name
    raise TypeError(
        f"homefree.cuda: the tensor's elements (DLPack's type {code}, {bits} bits, {lanes} lanes) "
        "have no name here"
    )


def shape_of(shape):
    """A shape as a tuple of integers, and its number of elements."""
    import operator

    try:
        lengths = (operator.index(shape),)
    except TypeError:
        lengths = tuple(operator.index(length) for length in shape)
    count = 1
    for length in lengths:
        if length < 0:
            raise ValueError(f"homefree.cuda: the shape {lengths} has a negative length")
        count *= length
    return lengths, count
