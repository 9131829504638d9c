import homefree
from homefree import check
from library.behaviour import TEXT, Behaviour
from words_capi import Words

homefree.install()  # CPython's raw memory is the heap's too, so that what CPython frees is seen


class TestCapi(Behaviour):
    Words = Words
    library = "words_capi"
    giver = "python3"

    def test_cpython_frees_the_string(self):
        words = Words(TEXT)
        with check.watch() as seen:
            words.join(", ")
        assert seen.crossed(allocated_by=self.library, freed_by="python3") == 1
