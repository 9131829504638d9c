"""Several interpreters in diagnostics mode: a crash names the one that it happened in, unasked,
and with `--leaks` what a module left in one that has ended is found, with the module. Under every
CPython of this machine that has interpreters with a GIL of their own: the Executor of a
free-threaded one has threads of a single interpreter.

Usage: test_interpreters.py --homefree COMMAND --library FILE --package DIRECTORY
[unittest arguments]
"""

import os
import signal
import unittest
from pathlib import Path

import pythons
from diagnosis import Diagnosis, DiagnosisTest, arguments, main, parser

parser.add_argument("--library", required=True, type=os.path.abspath)
parser.add_argument("--package", required=True, type=os.path.abspath)

SIZE, MAIN, FIRST, SECOND, FREED = 3000, 3, 5, 4, 6

PROGRAM = f"""
import ctypes, sys
from homefree.interpreters import Executor

def library():
    found = ctypes.CDLL(sys.orig_argv[-2])
    found.plain_malloc.restype = ctypes.c_void_p
    found.plain_free.argtypes = [ctypes.c_void_p]
    return found

def leak(count):
    there = library()
    for _ in range(count):
        there.plain_malloc({SIZE})

def tidy(count):
    there = library()
    for _ in range(count):
        there.plain_free(there.plain_malloc({SIZE}))

def crash():
    ctypes.string_at(0)

if __name__ == "__main__":
    leak({MAIN})
    if sys.argv[-1] == "crash":
        with Executor(2) as executor:
            executor.submit(crash).result()
    for count in {FIRST}, {SECOND}:
        with Executor(1) as executor:
            executor.submit(leak, count).result()
            executor.submit(tidy, {FREED}).result()
    print("done")
"""


HAVE = [one for one in pythons.pythons((3, 12)) if not one[1].free_threaded]


@unittest.skipUnless(HAVE, "no CPython with a GIL, 3.12 or newer")
class Interpreters(DiagnosisTest):
    def each(self, check, what, *options):
        """Calls check(diagnosis) for each CPython."""
        for path, version in HAVE:
            directory = Path(self.directories.new())
            directory.mkdir(exist_ok=True)
            program = directory / "program.py"
            program.write_text(PROGRAM)
            run = Diagnosis(
                arguments.homefree,
                [path, "-s", program, arguments.library, what],
                directory=directory / "report",
                options=options,
                env=pythons.environment(PYTHONPATH=arguments.package),
            )
            with self.subTest(version):
                check(run)

    def test_what_a_module_leaves_is_found(self):
        def check(run):
            self.assertEqual((run.status, run.output), (0, "done\n"), run.errors)
            found = [
                one
                for one in run.report["findings"]
                if one["rule"] == "interpreter-leak"
                and one["allocated"]["object"] == arguments.library
            ]
            self.assertEqual(len(found), 1, run.report["findings"])
            (finding,) = found
            self.assertEqual((finding["severity"], finding["interpreter"]), ("note", 1))
            self.assertEqual(
                (finding["count"], finding["bytes"]),
                (FIRST + SECOND, (FIRST + SECOND) * SIZE),
            )
            self.assertEqual(finding["allocated"]["function"], "malloc")
            self.assertEqual((finding["asked"], finding["said"]), (None, None))

        self.each(check, "leak", "--leaks", "--sample", "0")

    def test_nothing_is_looked_for_unasked(self):
        def check(run):
            self.assertEqual((run.status, run.output), (0, "done\n"), run.errors)
            rules = {finding["rule"] for finding in run.report["findings"]}
            self.assertNotIn("interpreter-leak", rules)

        self.each(check, "leak")

    def test_a_crash_is_named(self):
        def check(run):
            self.assertEqual(run.status, -signal.SIGSEGV, run.errors)
            self.assertRegex(
                run.errors,
                r"\nhomefree: fatal: SIGSEGV in interpreter \d+ \(index [01] of 2\), "
                r"which ran '__main__:crash'; the instruction is at /",
            )
            (process,) = run.report["processes"]
            self.assertEqual((process["end"], process["status"]), ("signal", signal.SIGSEGV))

        self.each(check, "crash")


if __name__ == "__main__":
    main(needs_names=True)
