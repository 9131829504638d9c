"""shout() shouts, and nothing that it takes from one allocator goes to another."""

import homefree
import words
from homefree import check

homefree.install()


def test_it_shouts():
    assert words.shout("home") == "HOME"


def test_nothing_crosses():
    words.shout("home")  # what is made once
    with check.assert_no_crossing():
        words.shout("home")
