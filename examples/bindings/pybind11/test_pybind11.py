from homefree import check
from library.behaviour import TEXT, Behaviour
from words_pybind11 import Words


class TestPybind11(Behaviour):
    Words = Words
    library = "words_pybind11"

    def test_the_library_frees_what_cpython_allocated(self):
        words = Words(TEXT)
        with check.watch() as seen:
            words.add("a-word-of-cpython")
        assert seen.crossed(allocated_by="python", freed_by=self.library) == 1
