"""What the tests of adoption share: a cache for each test, and programs that adopt into it."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path


class Case(unittest.TestCase):
    """Each test has a directory, a cache in it, and an environment for its programs."""

    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="homefree-adopt-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.cache = self.directory / "cache"
        self.cache.mkdir(mode=0o700)
        self.environment = {**os.environ, "XDG_CACHE_HOME": str(self.cache)}

    def run_it(self, *command, **more):
        return subprocess.run(
            [str(word) for word in command],
            capture_output=True,
            text=True,
            timeout=120,
            env=self.environment,
            **more,
        )

    def succeeds(self, *command, **more):
        """The program prints nothing on stderr, and "done" last. Result: what it printed."""
        result = self.run_it(*command, **more)
        self.assertEqual((result.returncode, result.stderr), (0, ""), command)
        self.assertEqual(result.stdout.splitlines()[-1], "done")
        return result.stdout

    def asked(self, *command, **more):
        """The result of hf_adopt_file(), and its text, from a program that prints them first."""
        number, _, text = self.succeeds(*command, **more).splitlines()[0].partition(" ")
        return int(number), text

    def copies(self, pattern="*.so"):
        return sorted((self.cache / "homefree/adopted").glob(pattern))
