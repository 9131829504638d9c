"""A program that loads libpython when it runs is diagnosed like a python; a block that another
interpreter frees is found.

Usage: test_late.py --homefree COMMAND --late PROGRAM [unittest arguments]
"""

import os
import subprocess
import unittest

import pythons
from diagnosis import Diagnosis, DiagnosisTest, arguments, main, parser

parser.add_argument("--late", required=True, type=os.path.abspath)

WHERE = (
    "import sys, sysconfig as s; "
    "print(s.get_config_var('LIBDIR') + '/' + (s.get_config_var('INSTSONAME') or ''), sys.prefix)"
)


def libraries():
    """[(libpython, prefix, version)] of the interpreters that have a shared one."""
    found = []
    for path, version in pythons.pythons():
        done = subprocess.run([path, "-c", WHERE], capture_output=True, check=True, text=True)
        library, prefix = done.stdout.split()
        if ".so" in library and os.path.exists(library):
            found.append((library, prefix, version))
    return found


class Late(DiagnosisTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.libraries = libraries()
        if not cls.libraries:
            raise unittest.SkipTest("no CPython here has a shared library")

    def diagnose(self, work, oldest=(3, 9), **more):
        def run(library, prefix, _, directory):
            return Diagnosis(
                arguments.homefree,
                [arguments.late, library, work],
                directory=directory,
                env=pythons.environment(PYTHONHOME=prefix),
                **more,
            )

        which = [one for one in self.libraries if one[2] >= oldest]
        runs = pythons.each(run, [(*one, self.directories.new()) for one in which])
        return list(zip(which, runs))

    def found(self, run):
        """[(rule, count, (function, symbol) of the call)], sorted."""
        found = []
        for finding in run.report["findings"]:
            allocated, freed = (pythons.side(finding, name) for name in ("allocated", "freed"))
            place = freed if freed[0] is not None else allocated
            found.append((finding["rule"], finding["count"], place))
        return sorted(found)

    def test_two_lives_of_an_interpreter(self):
        for which, run in self.diagnose("twice"):
            with self.subTest(library=which[0]):
                self.assertEqual((run.status, run.output), (0, "done\n"), run.errors)
                self.assertEqual(
                    self.found(run),
                    [
                        ("domain-mismatch", 1, ("PyObject_Free", "give")),
                        ("no-gil", 1, ("PyObject_Free", "give")),
                        ("no-gil", 1, ("PyObject_Malloc", "wrong_thread")),
                    ],
                )

    def test_several_states_of_a_thread(self):
        for which, run in self.diagnose("states"):
            with self.subTest(library=which[0]):
                self.assertEqual((run.status, run.output), (0, "done\n"), run.errors)
                self.assertEqual(self.found(run), [])

    def test_block_of_another_interpreter(self):
        for which, run in self.diagnose("interpreters", (3, 12)):
            with self.subTest(library=which[0]):
                self.assertEqual((run.status, run.output), (0, "done\n"), run.errors)
                wrong = [
                    ("wrong-interpreter", 1, ("PyMem_Realloc", "interpreters")),
                    ("wrong-interpreter", 1, ("PyObject_Free", "give")),
                ]
                # The mimalloc of a free-threaded one takes blocks of every interpreter.
                self.assertEqual(self.found(run), [] if which[2].free_threaded else wrong)


if __name__ == "__main__":
    main()
