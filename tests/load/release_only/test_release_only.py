"""Modules whose allocator cannot be replaced get guards in front of it, or are refused.

Usage: test_release_only.py RUNNER HOMEFREE DOUBLE… MODULE… [unittest arguments]
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

FILES = [os.path.abspath(name) for name in sys.argv[1:] if name.endswith(".so")]
RUNNER, HOMEFREE = (os.path.abspath(name) for name in sys.argv[1:3])
MODULES = [name for name in FILES if "-c-" in name or "-cc-" in name]
HEAPS = [name for name in FILES if "-heaps-" in name]
(REACHES,) = (name for name in FILES if "-reaches" in name)


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="homefree-release-only-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.environment = {
            **os.environ,
            "XDG_CACHE_HOME": str(self.directory),
            "GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=16384",
        }

    def run_mode(self, mode, file):
        return subprocess.run(
            [RUNNER, mode, file], capture_output=True, text=True, timeout=60, env=self.environment
        )

    def succeeds(self, mode, file):
        result = self.run_mode(mode, file)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "done\n", ""))

    def inspected(self, file):
        result = subprocess.run(
            [HOMEFREE, "inspect", "--adoption", "--json", file],
            capture_output=True,
            text=True,
            timeout=60,
        )
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
        result = self.run_mode("foreign", REACHES)
        self.assertEqual(result.returncode, 1)
        self.assertIn("hf_adopt_file: -95: ", result.stderr)
        self.assertIn("_mi_page", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
