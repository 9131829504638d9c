from library.behaviour import Behaviour
from words_swig import Words


class TestSwig(Behaviour):
    Words = Words
    library = "_words_swig"
