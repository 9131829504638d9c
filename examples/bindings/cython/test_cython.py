from homefree import check
from library.behaviour import TEXT, Behaviour
from words_cython import Words


class TestCython(Behaviour):
    Words = Words
    library = "words_cython"

    def test_numpy_frees_the_array(self):
        lengths = Words(TEXT).lengths()
        assert lengths.flags.owndata
        with check.watch() as seen:
            lengths = Words(TEXT).lengths()
            del lengths
        assert seen.crossed(allocated_by=self.library, freed_by="multiarray") == 1

    def test_the_library_frees_what_cpython_allocated(self):
        words = Words(TEXT)
        with check.watch() as seen:
            words.add("a-word-of-cpython")
        assert seen.crossed(allocated_by="python", freed_by=self.library) == 1
