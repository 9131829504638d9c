"""`homefree run --adopt` replaces needed libraries with an allocator inside at the program's start.

Usage: test_adopt_run.py HOMEFREE PROGRAM PROGRAM [unittest arguments]. The second program needs a
library that cannot be adopted.
"""

import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import adopting  # noqa: E402

HOMEFREE, VENDOR, OPENED = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
CHILD = "child 0 libhomefree-preload.so gone"


class Case(adopting.Case):
    def setUp(self):
        super().setUp()
        self.environment.pop("LD_PRELOAD", None)

    def run_it(self, *command):
        return super().run_it(HOMEFREE, "run", *command)

    def says(self, command, *lines, error=""):
        result = self.run_it(*command)
        self.assertEqual((result.returncode, result.stderr), (0, error))
        self.assertEqual(sorted(result.stdout.splitlines()), sorted(lines))


class Adopted(Case):
    def test_needed_libraries(self):
        """The order in which symbols are looked up stays, and children have no copies."""
        for _ in range(2):
            self.says(["--adopt", VENDOR], "before", "heap", "1", CHILD)
        self.assertEqual(len(self.copies("*.so.1")), 1)

    def test_what_was_preloaded_before(self):
        other = Path(VENDOR).parent / "libbefore.so.1"
        self.environment["LD_PRELOAD"] = str(other)
        self.says(
            ["--adopt", VENDOR],
            "before",
            "heap",
            "1",
            CHILD.replace("libhomefree-preload", "libbefore").replace(".so ", ".so.1 "),
        )

    def test_patterns(self):
        for patterns in ("libvendor.so.1", "libother.so:libv*", "*/adopt_run/lib*.so.1", "all"):
            self.says([f"--adopt={patterns}", VENDOR], "before", "heap", "1", CHILD)
        for patterns in ("libother.so", "*/libvendor.so", "vendor.so*"):
            self.says([f"--adopt={patterns}", VENDOR], "before", "other", "0", CHILD)

    def test_without_the_option(self):
        self.says([VENDOR], "before", "other", "0", CHILD)
        self.assertEqual(self.copies("*.so.1"), [])


class NotAdopted(Case):
    def test_refused(self):
        """The program runs as it is."""
        for _ in range(2):
            result = self.run_it("--adopt", OPENED)
            self.assertEqual(result.returncode, 0)
            self.assertEqual(result.stdout.splitlines()[:3], ["before", "other", "0"])
            (line,) = result.stderr.splitlines()
            self.assertIn("libopened.so.1' is not adopted: ", line)
            self.assertIn("_mi_page", line)

    def test_no_cache(self):
        for name in ("XDG_CACHE_HOME", "HOME"):
            self.environment.pop(name, None)
        result = self.run_it("--adopt", VENDOR)
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stdout.splitlines()[:3], ["before", "other", "0"])
        self.assertIn("is not adopted: ", result.stderr)

    def test_a_cache_that_cannot_stand_in_the_environment(self):
        cache = self.directory / "a cache"
        cache.mkdir(mode=0o700)
        self.environment["XDG_CACHE_HOME"] = str(cache)
        result = self.run_it("--adopt", VENDOR)
        self.assertEqual(result.stdout.splitlines()[:3], ["before", "other", "0"])
        self.assertIn("set XDG_CACHE_HOME", result.stderr)

    def test_wrong_usage(self):
        for value, words in (
            ("yes", "patterns of files"),
            ("", "patterns of files"),
            ("a.so,b.so", "separated by colons"),
            ("*" * 2000, "at most"),
        ):
            result = self.run_it(f"--adopt={value}", VENDOR)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn(words, result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
