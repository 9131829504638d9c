# Begins the code that the diagnosed interpreters run: the library's functions with the GIL, and
# without it under names that end in _bare.
import ctypes
import sys

held, bare = ctypes.PyDLL(sys.argv[1]), ctypes.CDLL(sys.argv[1])
size_t, pointer = ctypes.c_size_t, ctypes.c_void_p


def function(library, name, result, *arguments):
    found = library[name]
    found.restype, found.argtypes = result, arguments
    return found


FAMILIES = "raw", "mem", "object", "plain"
for library, suffix in (held, ""), (bare, "_bare"):
    for family in FAMILIES:
        globals()[f"{family}_malloc{suffix}"] = function(
            library, f"{family}_malloc", pointer, size_t
        )
        globals()[f"{family}_calloc{suffix}"] = function(
            library, f"{family}_calloc", pointer, size_t
        )
        globals()[f"{family}_realloc{suffix}"] = function(
            library, f"{family}_realloc", pointer, pointer, size_t
        )
        globals()[f"{family}_free{suffix}"] = function(library, f"{family}_free", None, pointer)
