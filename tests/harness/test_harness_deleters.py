"""Taking the deleter of a capsule and calling it leaves nothing behind: what `homefree test` sees
stay behind is the module's.

usage: test_harness_deleters.py COMMAND PACKAGE-DIRECTORY MODULES-DIRECTORY [unittest's arguments]
"""

import ctypes
import sys
import unittest

import harness

sys.path[:0] = [str(harness.PACKAGE), str(harness.MODULES)]
from homefree.harness import _damage, _kinds  # noqa: E402

COUNT = 1000
LIBC = ctypes.CDLL(None)
NEW = ctypes.pythonapi.PyCapsule_New
NEW.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
NEW.restype = ctypes.py_object


def address(function):
    return ctypes.cast(function, ctypes.c_void_p).value


class Arrow:
    """Exports Arrow's structs, which live as long as this does. What they hold is nothing."""

    def __init__(self, name, words, release):
        self.name = name.encode()
        self.struct = (ctypes.c_void_p * words)()
        self.release = release

    def __call__(self):
        self.struct[self.release] = address(LIBC.strlen)  # in C, and does nothing
        return NEW(ctypes.addressof(self.struct), self.name, None), int


def recorded():
    """A capsule whose context is one of homefree's deleters, and what drops its own reference."""
    library = ctypes.CDLL("libhomefree.so.1")
    library.hf_malloc.restype = ctypes.c_void_p
    block, record = library.hf_malloc(100), ctypes.c_void_p()
    library.hf_release_new(
        ctypes.byref(record), ctypes.c_void_p(block), library.hf_free, b"recorded"
    )
    capsule = NEW(block, None, None)
    ctypes.pythonapi.PyCapsule_SetContext(ctypes.py_object(capsule), record)
    return capsule, lambda: library.hf_release_drop(record)


class Deleters(unittest.TestCase):
    def leaves_nothing(self, make):
        def cycle():
            capsule, drop = make()
            calls = _kinds.deleters(capsule)
            self.assertTrue(calls)
            del capsule
            drop()
            for function, argument in calls:
                _kinds.call(function, argument)

        measured = []
        for _ in range(3):
            for _ in range(COUNT):
                cycle()
            measured.append(_damage.live())
        before, after = measured[1:]
        for what, least, i in ("bytes", 8, 0), ("objects", 0.5, 1):
            self.assertLess((after[i] - before[i]) / COUNT, least, f"{what} stay behind each time")

    def test_dlpack(self):
        import linked

        self.leaves_nothing(lambda: (linked.dies_unloading(), int))

    def test_arrow(self):
        for name, (words, release) in _kinds._ARROW_STRUCTS.items():
            with self.subTest(name):
                self.leaves_nothing(Arrow(name, words, release))

    def test_homefree(self):
        self.leaves_nothing(recorded)


if __name__ == "__main__":
    unittest.main()
