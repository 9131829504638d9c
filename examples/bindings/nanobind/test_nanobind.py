from homefree import check
from library.behaviour import TEXT, Behaviour
from words_nanobind import Words


class TestNanobind(Behaviour):
    Words = Words
    library = "words_nanobind"

    def test_the_library_frees_what_cpython_allocated(self):
        words = Words(TEXT)
        with check.watch() as seen:
            words.add("a-word-of-cpython")
        assert seen.crossed(allocated_by="python", freed_by=self.library) == 1
