"""The library through cffi: compiled (API mode), and libc beside it as it is (ABI mode)."""

import cffi
import numpy
from _words_cffi import ffi, lib

_libc_ffi = cffi.FFI()
_libc_ffi.cdef("char *strdup(const char *text); void free(void *block);")
_libc = _libc_ffi.dlopen(None)


@ffi.def_extern()
def words_visit(word, context):
    return ffi.from_handle(context)(ffi.string(word).decode())


class Words:
    """A list of words, deleted by ffi.gc."""

    def __init__(self, text):
        self._list = ffi.gc(lib.words_new(text.encode()), lib.words_delete)

    def __len__(self):
        return lib.words_count(self._list)

    def join(self, separator):
        """A string of the library's, which libc's free() frees."""
        text = ffi.gc(lib.words_join(self._list, separator.encode()), _libc.free)
        return ffi.string(text).decode()

    def lengths(self):
        """An array over the library's memory, which libc's free() frees with the last view."""
        numbers = ffi.gc(lib.words_lengths(self._list), _libc.free)
        size = len(self) * ffi.sizeof("int64_t")
        return numpy.frombuffer(ffi.buffer(numbers, size), dtype=numpy.int64)

    def each(self, visit):
        """The library calls visit(word) for each word; an exception ends the walk."""
        errors = []

        def call(word):
            try:
                visit(word)
            except BaseException as error:
                errors.append(error)
            return len(errors)

        handle = ffi.new_handle(call)
        lib.words_each(self._list, lib.words_visit, handle)
        if errors:
            raise errors[0]

    def add(self, word):
        """libc allocates a copy; the library frees it."""
        lib.words_take(self._list, _libc.strdup(word.encode()))
