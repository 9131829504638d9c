import ctypes

import homefree
import pytest
from homefree import check
from library.behaviour import TEXT, Behaviour
from words_rust import Words, give, take

homefree.install()  # CPython's raw memory is the heap's too, so that what CPython frees is seen

libc = ctypes.CDLL(None)
libc.free.argtypes = [ctypes.c_void_p]
libc.strdup.restype = ctypes.c_void_p


class TestRust(Behaviour):
    Words = Words
    library = "words_rust"
    giver = "python3"

    def test_libc_s_free_frees_what_rust_allocated(self):
        with check.watch() as seen:
            address = give(TEXT)
            assert ctypes.string_at(address) == TEXT.encode()
            libc.free(address)
        assert seen.crossed(allocated_by="words_rust", freed_by="ffi") == 1

    def test_cpython_frees_what_rust_allocated(self):
        ctypes.pythonapi.PyMem_RawFree(ctypes.c_void_p(give(TEXT)))

    def test_rust_frees_what_libc_s_strdup_returned(self):
        address = libc.strdup(TEXT.encode())
        owner = homefree.owner_of(address).kind
        with check.assert_freed_once(address):
            assert take(address) == TEXT
        assert owner == "libc"

    def test_bad_input_is_an_exception(self):
        with pytest.raises(ValueError, match="nul byte"):
            Words("a\0b")
        with pytest.raises(TypeError):
            Words(b"bytes")
