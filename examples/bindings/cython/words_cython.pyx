"""The library through Cython."""

cimport numpy
from cpython.mem cimport PyMem_RawMalloc
from libc.stdint cimport int64_t
from libc.stdlib cimport free
from libc.string cimport strcpy

cdef extern from "library/words.h":
    struct words:
        pass
    words *words_new(const char *text)
    void words_delete(words *list)
    size_t words_count(const words *list)
    char *words_join(const words *list, const char *separator)
    int64_t *words_lengths(const words *list)
    int words_each(const words *list, int (*visit)(const char *, void *) except -1,
                   void *context) except -1
    void words_take(words *list, char *word)

numpy.import_array()


cdef int visit(const char *word, void *function) except -1:
    (<object>function)(word.decode())
    return 0


cdef class Words:
    """A list of words."""

    cdef words *list

    def __cinit__(self, str text):
        self.list = words_new(text.encode())

    def __dealloc__(self):
        words_delete(self.list)

    def __len__(self):
        return words_count(self.list)

    def join(self, str separator):
        """A string of the library's, freed when it was copied."""
        cdef char *text = words_join(self.list, separator.encode())
        try:
            return text.decode()
        finally:
            free(text)

    def lengths(self):
        """An array over the library's memory, which NumPy owns: it frees it with the last view."""
        cdef numpy.npy_intp count = words_count(self.list)
        array = numpy.PyArray_SimpleNewFromData(
            1, &count, numpy.NPY_INT64, words_lengths(self.list))
        numpy.PyArray_ENABLEFLAGS(array, numpy.NPY_ARRAY_OWNDATA)
        return array

    def each(self, function):
        """The library calls function(word) for each word; an exception ends the walk."""
        words_each(self.list, visit, <void *>function)

    def add(self, str word):
        """CPython allocates a copy; the library frees it."""
        text = word.encode()
        cdef char *copy = <char *>PyMem_RawMalloc(len(text) + 1)
        if copy == NULL:
            raise MemoryError
        words_take(self.list, strcpy(copy, text))
