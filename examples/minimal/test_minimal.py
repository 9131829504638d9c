"""greet() greets, and frees the strings that libstdc++ made for it."""

import pathlib
import re

import greet
import pytest
from homefree import check


def test_it_greets():
    assert greet.greet("you") == "Hello, you!"


def test_text_that_is_no_short_string_arrives_whole():
    assert greet.greet("you " * 1000) == "Hello, " + "you " * 1000 + "!"


def test_a_string_that_libstdcxx_had_from_libc_is_freed_by_the_module():
    compilers = re.findall(rb"GCC: \([^)]*\) (\d+)", pathlib.Path(greet.__file__).read_bytes())
    if any(int(version) >= 16 for version in compilers):
        pytest.skip("GCC 16's C++20 takes libstdc++'s append() into the module")
    with check.watch() as seen:
        greet.greet("you " * 1000)
    assert seen.crossed(allocated_by="libc.so", freed_by="greet") > 0
