"""homefree/check.h with each test framework: what holds passes, what fails says the same in the
framework's own form, and the suite goes on.

Usage: test_frameworks.py [--homefree COMMAND] PROGRAM…, each named framework_NAME

With --homefree, the programs run under `COMMAND run --diagnose`, and say the same.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

WORDS = sys.argv[1:]
START, TEMPORARY = [], None
if WORDS[0] == "--homefree":
    TEMPORARY = tempfile.TemporaryDirectory(prefix="homefree-test-frameworks-")
    START = [WORDS[1], "run", "--diagnose", "--quiet", "--report", TEMPORARY.name, "--"]
    del WORDS[:2]
PROGRAMS = {Path(path).name.split("_")[-1]: path for path in WORDS}

HOLDS = ("everything_holds", "the_end_holds")
ADDRESS = r"\(0x[0-9a-f]+, HF_OWNER_\w+"
FAILS = {
    "owner_fails": rf"&here {ADDRESS}\) does not belong to HF_OWNER_HEAP",
    "no_crossing_fails": (
        r"memory crossed a boundary, expected none: 1 \(\d+ bytes\) allocated by \S*libc\S*, "
        r"freed by \S*framework_\w+"
    ),
    "crossed_fails": (r"nothing that nobody allocated was freed by another; what crossed: nothing"),
    "freed_once_fails": rf"block {ADDRESS}.*, 1[06] bytes\) was not freed, expected once",
    "freed_by_fails": (
        rf"block {ADDRESS}.*, 1[06] bytes\) was freed by \S*framework_\w+, expected nobody"
    ),
    "balanced_fails": (
        r"blocks are left, expected none: 2 \(30 bytes\) allocated by \S*framework_\w+"
    ),
    "survives_fails_by_a_signal": (
        rf"call 2 for memory failed, and the code died of signal {int(signal.SIGSEGV)}"
    ),
    "survives_fails_by_a_return": (
        r"call 1 for memory failed, and the code was left by return, break or an exception"
    ),
}


def run(name, *arguments, **environment):
    done = subprocess.run(
        [*START, PROGRAMS[name], *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@unittest.skipUnless("gtest" in PROGRAMS, "GoogleTest is not installed")
class GoogleTest(unittest.TestCase):
    def test_suite(self):
        status, out, err = run("gtest", "--gtest_color=no")
        self.assertEqual((status, err), (1, ""), out)
        for test in HOLDS:
            self.assertIn(f"[       OK ] boundaries.{test} ", out)
        for test, text in FAILS.items():
            self.assertRegex(
                out,
                rf"\[ RUN      \] boundaries\.{test}\n\S*bodies\.h:\d+: Failure\nFailed\n{text}\n",
            )
        self.assertIn(f"[  PASSED  ] {len(HOLDS)} tests.", out)


@unittest.skipUnless("catch2" in PROGRAMS, "Catch2 is not installed")
class Catch2(unittest.TestCase):
    def test_suite(self):
        status, out, err = run("catch2")
        # From 3.7 on its exit status is 42, however many have failed.
        self.assertIn(status, (len(FAILS), 42), out)
        self.assertEqual(err, "", out)
        self.assertIn(
            f"test cases: {len(HOLDS) + len(FAILS):2} | {len(HOLDS)} passed | {len(FAILS)} failed",
            out,
        )
        # Catch2 breaks lines anywhere, also inside of words.
        joined = re.sub(r"\s+", "", out)
        for test, text in FAILS.items():
            self.assertRegex(joined, f"{test}-+.*?FAILED:.*?" + re.sub(r"(?<!\\) ", "", text), test)


class NoFramework(unittest.TestCase):
    def test_what_holds(self):
        for test in HOLDS:
            self.assertEqual(run("none", test), (0, "", ""))

    def test_what_fails(self):
        for test, text in FAILS.items():
            status, out, err = run("none", test)
            self.assertEqual((status, out), (-signal.SIGABRT, ""), test)
            self.assertRegex(err, rf"^\S*bodies\.h:\d+: {test}: {text}\n$")


class OwnMacro(unittest.TestCase):
    def test_all(self):
        status, out, err = run("own")
        self.assertEqual((status, err), (1, ""), out)
        lines = out.splitlines()
        self.assertEqual(len(lines), len(FAILS), out)
        for line, (test, text) in zip(lines, FAILS.items()):
            self.assertRegex(line, f"^{test}: {text}$")


class Check(unittest.TestCase):
    def test_with_fork_and_without(self):
        for fork in ("yes", "no"):
            with self.subTest(fork=fork):
                status, out, err = run("check", CK_FORK=fork, CK_VERBOSITY="verbose")
                self.assertEqual(status, 1, out)
                if not START:
                    self.assertEqual(err, "")
                # Where the program is on the heap, Check's own calls for memory fail, too.
                for test in HOLDS[1:] if START else HOLDS:
                    self.assertRegex(out, rf":P:boundaries:test_{test}:0: Passed")
                for test, text in FAILS.items():
                    self.assertRegex(out, rf":F:boundaries:test_{test}:0: {text}\n")


unittest.main(argv=sys.argv[:1], verbosity=2)
