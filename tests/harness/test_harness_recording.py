"""What `homefree test` learns from a program that uses the module: also from objects of types that
are static in C.

usage: test_harness_recording.py COMMAND PACKAGE-DIRECTORY MODULES-DIRECTORY [unittest's arguments]
"""

import unittest

import harness

SCRIPT = """
import copy, fixed, sys

class Derived(fixed.Box):
    pass

flags = fixed.Box.__flags__
box = fixed.Box(7)
assert bytes(box.data(100)) == bytes([7] * 100)
assert bytes(fixed.Box(byte=8).data(2)) == bytes([8, 8])
assert bytes(Derived(9).data(1)) == bytes([9])
box.__init__(10)
assert bytes(box.data(1)) == bytes([10])
for wrong in (), ("a",), (1, 2):
    try:
        fixed.Box(*wrong)
    except TypeError:
        continue
    raise AssertionError(wrong)
try:
    fixed.Box.more = 1
except TypeError:
    pass
else:
    raise AssertionError("the type can be changed")
assert flags & 1 << 9 == 0
"""


class Recording(unittest.TestCase):
    def test_static_types(self):
        directory = harness.scratch(self)
        (directory / "script.py").write_text(SCRIPT, encoding="utf-8")
        status, document = harness.document(
            "fixed", "--script", str(directory / "script.py"), "--only", "/ same thread / without"
        )
        self.assertEqual(status, 0, document)
        table = harness.results(document)
        self.assertLessEqual(
            {"fixed.Box(7)", "fixed.Box(7).data(100)", "fixed.Box(byte=8).data(2)"}, set(table)
        )
        self.assertEqual([one for one in document["notes"] if "static" in one], [])

    def test_a_method_that_needs_another_one_before(self):
        """Called alone, it dies of what it lacks, which is no fault of anybody's free."""
        directory = harness.scratch(self)
        script = "import fixed; box = fixed.Box(7); box.start(); box.count()\n"
        (directory / "script.py").write_text(script, encoding="utf-8")
        status, document = harness.document(
            "fixed", "--script", str(directory / "script.py"), "--only", "/ same thread / without"
        )
        self.assertEqual(status, 0, document)
        self.assertIn("fixed.Box(7).start()", harness.results(document))
        self.assertNotIn("fixed.Box(7).count()", harness.results(document))
        (note,) = [one for one in document["notes"] if "repeated alone" in one]
        self.assertIn("fixed.Box(7).count()", note)


if __name__ == "__main__":
    unittest.main()
