"""A watch whose capsule cannot be made is dropped: that takes the loader's lock, whose owner may be
waiting for the GIL in a module's constructor.
"""

import os
import shutil
import sys
import tempfile

import support

GATE = os.path.abspath(sys.argv.pop())


class WatchLock(support.TestCase):
    def test_no_capsule_while_a_constructor_waits_for_the_gil(self):
        with tempfile.TemporaryDirectory(prefix="homefree-test-") as directory:
            copy = os.path.join(directory, "copy.so")
            shutil.copy(GATE, copy)
            self.fine(
                f"""
                import ctypes, signal
                from homefree import _homefree, check
                signal.alarm(20)
                gate = ctypes.PyDLL({GATE!r}, mode=ctypes.RTLD_GLOBAL)
                gate.gate_call.restype = ctypes.py_object
                gate.gate_call.argtypes = [ctypes.py_object, ctypes.py_object, ctypes.c_char_p]
                begin, room, path = _homefree.watch_begin, 16, {copy.encode()!r}
                try:
                    gate.gate_call(begin, room, path)
                except MemoryError:
                    pass
                else:
                    raise AssertionError("the capsule was made")
                assert ctypes.CDLL({GATE!r}).gate_join() == 1
                with check.watch():
                    pass
                """
            )


if __name__ == "__main__":
    support.main()
