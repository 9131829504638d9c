"""The core through its module: libstdc++ frees what the core allocated, and the other way."""

import sys

sys.path.insert(0, "build/module")

import words  # noqa: E402
from homefree import check  # noqa: E402

LONG = "donaudampfschifffahrtsgesellschaftskapitaen"  # longer than the core reserves


def read(text):
    index = words.Index()
    index.read(text)
    return index


def test_words_are_counted():
    assert read("To be or not to be").count("to") == 2


def test_the_most_common_words_come_first():
    assert read("b a c c b c").common(2) == ["c", "b"]


def test_long_words_arrive_whole():
    assert read(f"{LONG} " * 1000).common(1) == [LONG]


def test_libstdcxx_frees_what_the_core_reserved_when_a_word_is_longer():
    with check.watch() as seen:
        read(LONG)
    assert seen.crossed(allocated_by="words", freed_by="libstdc++") == 1


def test_the_core_frees_what_libstdcxx_had_from_libc():
    with check.watch() as seen:
        read(LONG)
    assert seen.crossed(allocated_by="libc.so", freed_by="words") == 1
