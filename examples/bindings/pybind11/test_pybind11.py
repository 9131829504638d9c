from library.behaviour import Behaviour
from words_pybind11 import Words


class TestPybind11(Behaviour):
    Words = Words
    library = "words_pybind11"
