from homefree import check
from library.behaviour import TEXT, Behaviour
from words_ctypes import Words


class TestCtypes(Behaviour):
    Words = Words
    library = "libwords"

    def test_libc_s_free_frees_the_string_and_the_array(self):
        with check.watch() as seen:
            Words(TEXT).join(", ")
            Words(TEXT).lengths()
        assert seen.crossed(allocated_by=self.library, freed_by="libffi") == 2

    def test_the_library_frees_what_strdup_gave(self):
        words = Words(TEXT)
        with check.watch() as seen:
            words.add("a-word-of-libc")
        assert seen.crossed(allocated_by="libc.so", freed_by=self.library) == 1
