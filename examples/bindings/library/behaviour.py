"""What every binding does, whatever made it: each directory's tests begin with these."""

import gc

import homefree
import numpy
import pytest
from homefree import check

WORDS = ["allocate-anywhere-in-this-process", "free-anywhere-else-in-this-process", "go-home"]
TEXT = " ".join(WORDS)


class Behaviour:
    Words = None  # the class of the binding
    library = None  # how the file that holds the library begins
    giver = "libc.so"  # whose memory add() gives to the library

    def test_a_string(self):
        assert self.Words(TEXT).join(", ") == ", ".join(WORDS)

    def test_an_array_is_the_library_s_memory(self):
        lengths = self.Words(TEXT).lengths()
        assert type(lengths) is numpy.ndarray and lengths.tolist() == [len(word) for word in WORDS]
        check.assert_owner(lengths.ctypes.data, "heap")

    def test_an_empty_list(self):
        words = self.Words("")
        assert len(words) == 0 and words.join(", ") == "" and words.lengths().tolist() == []

    def test_an_array_is_freed_with_its_last_view(self):
        lengths = self.Words(TEXT).lengths()
        address = lengths.ctypes.data
        last = lengths[-1:]
        del lengths
        gc.collect()
        assert homefree.owner_of(address).block == address and last.tolist() == [len(WORDS[-1])]
        with check.assert_freed_once(address):
            del last

    def test_the_collector_deletes_an_object(self):
        cycle = [self.Words("word " * 200_000)]
        cycle.append(cycle)
        before = homefree.stats()["allocated"]
        del cycle
        gc.collect()
        assert homefree.stats()["allocated"] < before - 200_000 * 8

    def test_a_callback(self):
        seen = []
        self.Words(TEXT).each(seen.append)
        assert seen == WORDS

    def test_an_exception_ends_the_walk(self):
        calls = []

        def refuse(word):
            calls.append(word)
            raise KeyError(word)

        with pytest.raises(KeyError):
            self.Words(TEXT).each(refuse)
        assert calls == WORDS[:1]

    def test_a_callback_may_add_words(self):
        words = self.Words(TEXT)
        words.each(lambda word: words.add(word.upper()))
        assert words.join(" ") == TEXT + " " + TEXT.upper()

    def test_the_library_keeps_what_is_added(self):
        words = self.Words(TEXT)
        words.add("a-word-of-somebody-else-s")
        assert len(words) == 4 and words.join(" ") == TEXT + " a-word-of-somebody-else-s"

    def test_libstdcxx_and_the_library_free_each_other_s_memory(self):
        with check.watch() as seen:
            self.Words(TEXT)
        assert seen.crossed(allocated_by=self.library, freed_by="libstdc++") == 1
        assert seen.crossed(allocated_by="libc.so", freed_by=self.library) == 1

    def test_the_library_frees_what_it_is_given(self):
        words = self.Words(TEXT)
        with check.watch() as seen:
            words.add("a-word-of-somebody-else-s")
        assert seen.crossed(allocated_by=self.giver, freed_by=self.library) == 1

    def check_freed_by(self, taker, *methods):
        """What these methods give is freed by `taker` (a part of its file's name)."""
        words = self.Words(TEXT)
        with check.watch() as seen:
            for method in methods:
                method(words)
        assert seen.crossed(allocated_by=self.library, freed_by=taker) == len(methods)
