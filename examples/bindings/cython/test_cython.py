from library.behaviour import Behaviour
from words_cython import Words


class TestCython(Behaviour):
    Words = Words
    library = "words_cython"

    def test_numpy_frees_the_array(self):
        self.check_freed_by("multiarray", Words.lengths)
