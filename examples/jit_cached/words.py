"""sort(text), in C, which is compiled when this is imported for the first time."""

from pathlib import Path

from homefree import extension

_words = extension.load("_words", [Path(__file__).with_name("words.c")])


def sort(text):
    return _words.sort(text)
