from library.behaviour import Behaviour
from words_nanobind import Words


class TestNanobind(Behaviour):
    Words = Words
    library = "words_nanobind"
