"""The crossings of examples/crossings, with a module that has a private jemalloc: nobody linked
homefree, and a diagnosis names both sides all the same. What others free of the module's memory
goes home; what the module frees of others' memory kills it, and the report says whose block it was.

Usage: test_crossings.py --homefree COMMAND --modules DIRECTORY --rows FILE [unittest arguments]

Exit status 77 if the examples were not built.
"""

import signal
import sys
from pathlib import Path

from diagnosis import DiagnosisTest, arguments, main, parser

parser.add_argument("--modules", required=True, type=Path)
parser.add_argument("--rows", required=True)

# Others free the module's blocks: (who, with what).
GIVEN = {
    "string-append": ("libstdc++", "operator delete(void*)"),
    "string-insert": ("libstdc++", "operator delete(void*)"),
    "libc-grows": ("libc.so", "realloc"),
    "libc-frees": ("libc.so", "free"),
    "raw-given": (None, "PyMem_RawFree"),
    "ctypes-given": ("libffi", "free"),
    "numpy-owns": ("_multiarray_umath", "free"),
    "array-given": ("partner_plain", "operator delete[](void*)"),
    "threads-given": ("partner_plain", "free"),
}
# The module frees what others allocated: (who).
TAKEN = {
    "strdup": "libc.so",
    "realpath": "libc.so",
    "getline": "libc.so",
    "scandir": "libc.so",
    "threads-taken": "partner_plain",
}


class Crossings(DiagnosisTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # The Python that the modules are built for.
        cls.python = (arguments.modules / "python").read_text(encoding="utf-8").strip()
        cls.module = next(arguments.modules.glob("crossings_private.*.so"))

    def cross(self, row):
        command = [
            self.python,
            arguments.rows,
            str(arguments.modules),
            "private",
            row,
        ]
        run = self.diagnose(*command)
        if run.status == 77:
            self.skipTest(run.errors)
        found = [f for f in run.report["findings"] if f["rule"] == "foreign-free"]
        # Some compilers call libstdc++ to grow a string. The module's private allocator then takes
        # such blocks of the heap for its own when it frees them, and hands them out again.
        others = [f for f in run.report["findings"] if f not in found]
        self.assertEqual([f for f in others if f["allocated"]["allocator"] != "heap"], [])
        self.assertTrue(found, run.errors)
        return run, found

    def test_given(self):
        for row, (who, function) in GIVEN.items():
            with self.subTest(row=row):
                run, found = self.cross(row)
                self.assertEqual(run.status, 0, run.errors)
                for finding in found:
                    self.assertEqual(finding["allocated"]["allocator"], "jemalloc")
                    self.assertEqual(
                        Path(finding["allocated"]["allocator_object"]).name, self.module.name
                    )
                    self.assertEqual(finding["freed"]["function"], function)
                    if who is not None:
                        self.assertIn(who, finding["freed"]["object"])
                    self.assertIn("abort", finding["without_homefree"])

    def test_taken(self):
        for row, who in TAKEN.items():
            with self.subTest(row=row):
                run, found = self.cross(row)
                self.assertEqual(run.status, -signal.SIGSEGV, run.errors)
                (finding,) = [f for f in found if f["allocated"]["allocator"] == "heap"]
                self.assertIn(who, finding["allocated"]["object"])
                self.assertEqual(Path(finding["freed"]["object"]).name, self.module.name)
                self.assertTrue(run.summary(), run.errors)


def setUpModule():
    if not list(arguments.modules.glob("crossings_private.*.so")):
        print("skipped: the examples were not built")
        sys.exit(77)


if __name__ == "__main__":
    main(needs_names=True)
