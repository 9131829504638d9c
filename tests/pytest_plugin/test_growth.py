"""`@pytest.mark.homefree_growth`: what grows fails the test, and what a cache keeps does not.

Usage: see running.py.
"""

import re

from running import PluginTest, main

TESTS = """
import ctypes
import pytest

kept, cache = [], {}
malloc = ctypes.CDLL(None).malloc
malloc.restype = ctypes.c_void_p
runs = []

@pytest.mark.homefree_growth
def test_objects(): kept.append([object() for _ in range(1000)])

@pytest.mark.homefree_growth(cycles=12, limit="64 KiB")
def test_large(): kept.append(bytearray(20000))

@pytest.mark.homefree_growth
def test_libc(): malloc(5000)

@pytest.mark.homefree_growth(limit="1 MiB")
def test_less_than_the_limit(): malloc(5000)

@pytest.mark.homefree_growth
def test_cache(): cache.setdefault(len(cache) % 3, bytearray(500000))

@pytest.mark.homefree_growth
def test_a_late_step():
    kept.append(1)
    if len(kept) % 13 == 0:
        cache.setdefault("late", bytearray(10000000))

@pytest.mark.homefree_growth
def test_nothing(): [bytes(1000) for _ in range(1000)]

@pytest.mark.homefree_growth(cycles=9)
def test_runs(): runs.append(1)

def test_so_many_runs(): assert len(runs) == 9

@pytest.mark.homefree_growth
def test_fails_by_itself(): raise KeyError

@pytest.mark.homefree_growth(limit="much")
def test_wrong_limit(): pass

@pytest.mark.homefree_growth(cycles=3)
def test_too_few_cycles(): pass
"""


class Growth(PluginTest):
    def test_outcomes(self):
        self.write("test_it.py", TESTS)
        out = self.run_pytest("-v", "--tb=short", "test_it.py", status=1)
        growing = {"test_objects", "test_large", "test_libc"}
        failing = growing | {"test_fails_by_itself", "test_wrong_limit", "test_too_few_cycles"}
        outcomes = dict(re.findall(r"^test_it.py::(\w+) (PASSED|FAILED) ", out, re.MULTILINE))
        self.assertEqual(len(outcomes), 12, out)
        for name, outcome in outcomes.items():
            self.assertEqual(outcome, "FAILED" if name in failing else "PASSED", (name, out))
        self.assertEqual(len(re.findall("^memory grows by", out, re.MULTILINE)), len(growing))
        self.assertIn("kept.append([object() for _ in range(1000)])", out)
        self.assertEqual(len(re.findall("^test_it.*: homefree_growth takes", out, re.MULTILINE)), 2)


if __name__ == "__main__":
    main()
