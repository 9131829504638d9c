"""libwords.so through ctypes."""

import ctypes
import pathlib
import weakref

import numpy

_lib = ctypes.CDLL(str(pathlib.Path(__file__).with_name("libwords.so")))
_libc = ctypes.CDLL(None)

# Addresses, not c_char_p: ctypes would copy the string and lose the pointer that must be freed.
_VISIT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
for _function, _result, *_arguments in (
    (_lib.words_new, ctypes.c_void_p, ctypes.c_char_p),
    (_lib.words_delete, None, ctypes.c_void_p),
    (_lib.words_count, ctypes.c_size_t, ctypes.c_void_p),
    (_lib.words_join, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p),
    (_lib.words_lengths, ctypes.c_void_p, ctypes.c_void_p),
    (_lib.words_each, ctypes.c_int, ctypes.c_void_p, _VISIT, ctypes.c_void_p),
    (_lib.words_take, None, ctypes.c_void_p, ctypes.c_void_p),
    (_libc.strdup, ctypes.c_void_p, ctypes.c_char_p),
    (_libc.free, None, ctypes.c_void_p),
):
    _function.restype, _function.argtypes = _result, _arguments


class Words:
    """A list of words."""

    def __init__(self, text):
        self._list = _lib.words_new(text.encode())
        weakref.finalize(self, _lib.words_delete, self._list)

    def __len__(self):
        return _lib.words_count(self._list)

    def join(self, separator):
        """A string of the library's, which libc's free() frees."""
        text = _lib.words_join(self._list, separator.encode())
        try:
            return ctypes.string_at(text).decode()
        finally:
            _libc.free(text)

    def lengths(self):
        """An array over the library's memory, which libc's free() frees with the last view."""
        address = _lib.words_lengths(self._list)
        memory = (ctypes.c_int64 * len(self)).from_address(address)
        weakref.finalize(memory, _libc.free, address)
        return numpy.frombuffer(memory, dtype=numpy.int64)

    def each(self, visit):
        """The library calls visit(word) for each word; an exception ends the walk."""
        error = None

        def call(word, context):
            nonlocal error
            try:
                visit(word.decode())
            except BaseException as raised:
                error = raised
            return error is not None

        _lib.words_each(self._list, _VISIT(call), None)
        if error is not None:
            raise error

    def add(self, word):
        """libc allocates a copy; the library frees it."""
        _lib.words_take(self._list, _libc.strdup(word.encode()))
