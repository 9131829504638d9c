from homefree import check
from library.behaviour import TEXT, Behaviour
from words_ctypes import Words


class TestCtypes(Behaviour):
    Words = Words
    library = "libwords"

    def test_libc_s_free_frees_the_string_and_the_array(self):
        words = Words(TEXT)
        with check.watch() as seen:
            words.join(", ")
            words.lengths()
        assert seen.crossed(allocated_by=self.library, freed_by="ffi") == 2
