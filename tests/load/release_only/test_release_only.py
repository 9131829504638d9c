"""Modules whose allocator cannot be replaced get guards in front of it, or are refused.

Usage: test_release_only.py RUNNER HOMEFREE DOUBLE… MODULE… [unittest arguments]
"""

import json
import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import adopting  # noqa: E402

FILES = [os.path.abspath(name) for name in sys.argv[1:] if name.endswith(".so")]
RUNNER, HOMEFREE = (os.path.abspath(name) for name in sys.argv[1:3])
MODULES = [name for name in FILES if "-c-" in name or "-cc-" in name]
HEAPS = [name for name in FILES if "-heaps-" in name]
(REACHES,) = (name for name in FILES if "-reaches" in name)


class Case(adopting.Case):
    def setUp(self):
        super().setUp()
        self.environment["GLIBC_TUNABLES"] = "glibc.rtld.optional_static_tls=16384"

    def succeeds(self, mode, file):
        self.assertEqual(super().succeeds(RUNNER, mode, file), "done\n")

    def inspected(self, file):
        result = self.run_it(HOMEFREE, "inspect", "--adoption", "--json", file)
        (found,) = json.loads(result.stdout)["files"]
        return {finding["rule"]: finding["message"] for finding in found["findings"]}


class ReleaseOnly(Case):
    def test_every_build(self):
        for file in MODULES:
            with self.subTest(Path(file).name):
                self.succeeds("crossings", file)

    def test_heaps_of_its_own(self):
        for file in HEAPS:
            with self.subTest(Path(file).name):
                self.succeeds("foreign", file)

    def test_on_threads(self):
        for name in ("-c-O2.so", "-cc-O2.so"):
            self.succeeds("threads", next(file for file in MODULES if file.endswith(name)))

    def test_inspect(self):
        findings = self.inspected(MODULES[0])
        self.assertIn("malloc_conf", findings["release-only"])
        self.assertNotIn("adoptable", findings)
        self.assertNotIn("not-adoptable", findings)


class Refused(Case):
    def test_is_loaded_as_it_is(self):
        self.environment["HOMEFREE_CONF"] = "adopt:all"
        self.succeeds("plain", REACHES)

    def test_an_inner_function_that_takes_a_block(self):
        result = self.run_it(RUNNER, "foreign", REACHES)
        self.assertEqual(result.returncode, 1)
        self.assertIn("hf_adopt_file: -95: ", result.stderr)
        self.assertIn("_mi_page", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
