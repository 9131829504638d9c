from homefree import check
from library.behaviour import TEXT, Behaviour
from words_cython import Words


class TestCython(Behaviour):
    Words = Words
    library = "words_cython"

    def test_numpy_frees_the_array(self):
        words = Words(TEXT)
        with check.watch() as seen:
            words.lengths()
        assert seen.crossed(allocated_by=self.library, freed_by="multiarray") == 1
