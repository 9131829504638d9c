"""Loads libraries of operators, and makes a Python function of each operator they register."""

import ctypes
import functools
import inspect
from array import array
from pathlib import Path

TEXT, NUMBER, NUMBERS = 1, 2, 3
TYPES = {TEXT: str, NUMBER: float, NUMBERS: array}


class Value(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("size", ctypes.c_size_t), ("data", ctypes.c_void_p)]

    @classmethod
    def of(cls, kind, value):
        """The value for C, and what must live as long."""
        if kind == TEXT:
            data = value.encode()
            return cls(kind, len(data), ctypes.cast(data, ctypes.c_void_p)), data
        numbers = array("d", [value] if kind == NUMBER else value)
        address, count = numbers.buffer_info()
        return cls(kind, count, address), numbers

    def take(self):
        """The value for Python; its memory, some library's, is freed by libc's free()."""
        try:
            data = ctypes.string_at(self.data, self.size * (1 if self.kind == TEXT else 8))
        finally:
            libc().free(self.data)
        if self.kind == TEXT:
            return data.decode()
        numbers = array("d", data)
        return numbers[0] if self.kind == NUMBER else numbers


class Op(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("doc", ctypes.c_char_p),
        ("result", ctypes.c_int),
        ("parameters", ctypes.c_size_t),
        ("names", ctypes.POINTER(ctypes.c_char_p)),
        ("kinds", ctypes.POINTER(ctypes.c_int)),
        ("call", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Value))),
    ]


@functools.cache
def libc():
    """Looked up once a library is there: ctypes keeps the function that it has found, and homefree,
    which comes with the first library, can only route what is looked up after that."""
    found = ctypes.CDLL(None)
    found.free.argtypes = [ctypes.c_void_p]
    found.free.restype = None
    return found


class Registry:
    """The operators of libops.so, which lies beside the libraries that use it."""

    def __init__(self, directory):
        self._directory = Path(directory).resolve()
        self._list = ctypes.CDLL(str(self._directory / "libops.so")).ops_list
        self._list.argtypes = [ctypes.POINTER(ctypes.POINTER(Op)), ctypes.c_size_t]
        self._list.restype = ctypes.c_size_t

    def load(self, name):
        """Loads a library; returns the names of the operators that it brought. Each is an attribute
        of the registry from then on."""
        ctypes.CDLL(str(self._directory / f"lib{name}.so"))
        found = (ctypes.POINTER(Op) * self._list(None, 0))()
        self._list(found, len(found))
        new = [op for op in found if not hasattr(self, op.contents.name.decode())]
        for op in new:
            setattr(self, op.contents.name.decode(), wrapper(op.contents))
        return [op.contents.name.decode() for op in new]


def wrapper(op):
    """A function with the operator's name, docstring and signature."""
    kinds = op.kinds[: op.parameters]
    signature = inspect.Signature(
        [
            inspect.Parameter(name.decode(), inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=t)
            for name, t in zip(op.names[: op.parameters], map(TYPES.get, kinds))
        ],
        return_annotation=TYPES[op.result],
    )

    def call(*args, **keywords):
        given = signature.bind(*args, **keywords).arguments.values()
        values = [Value.of(kind, value) for kind, value in zip(kinds, given)]
        result = Value()
        failed = op.call((Value * len(values))(*(value for value, _ in values)), result)
        if failed:
            raise ValueError(f"{call.__name__}: {result.take()}")
        return result.take()

    call.__name__ = call.__qualname__ = op.name.decode()
    call.__doc__ = op.doc.decode()
    call.__signature__ = signature
    return call
