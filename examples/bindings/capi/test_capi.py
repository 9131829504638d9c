import homefree
from library.behaviour import Behaviour
from words_capi import Words

homefree.install()  # CPython's raw memory is the heap's too, so that what CPython frees is seen


class TestCapi(Behaviour):
    Words = Words
    library = "words_capi"
    giver = "python3"

    def test_cpython_frees_the_string(self):
        self.check_freed_by("python3", lambda words: words.join(", "))
