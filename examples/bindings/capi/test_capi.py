from homefree import check
from library.behaviour import TEXT, Behaviour
from words_capi import Words


class TestCapi(Behaviour):
    Words = Words
    library = "words_capi"

    def test_cpython_frees_the_string(self):
        words = Words(TEXT)
        with check.watch() as seen:
            words.join(", ")
        assert seen.crossed(allocated_by=self.library, freed_by="python3") == 1
