from library.behaviour import Behaviour
from words_cffi import Words


class TestCffi(Behaviour):
    Words = Words
    library = "_words_cffi"

    def test_libc_s_free_frees_the_string_and_the_array(self):
        self.check_freed_by("ffi", lambda words: words.join(", "), Words.lengths)
