"""sort(text), in C: from the wheel if this is one, else compiled when it is imported."""

from pathlib import Path

from homefree import extension

_words = extension.load(
    "words._words", [Path(__file__).with_name("words.c")], prebuilt=Path(__file__).parent
)


def sort(text):
    return _words.sort(text)
