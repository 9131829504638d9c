"""Modules that are loaded and in use get guards where one store of one instruction does it.

Usage: test_live.py STORM MODULE… [unittest arguments]
"""

import os
import subprocess
import sys
import unittest

STORM = os.path.abspath(sys.argv[1])
MODULES = {
    os.path.basename(name): os.path.abspath(name) for name in sys.argv[2:] if name.endswith(".so")
}


class Live(unittest.TestCase):
    def storm(self, name, threads=64, cycles=2000):
        result = subprocess.run(
            [STORM, MODULES[name], str(threads), str(cycles)],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=16384"},
        )
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def test_while_threads_run_it(self):
        self.assertEqual(self.storm("release-only-heaps-O2.so"), "done\n")
        self.assertEqual(self.storm("release-only-heaps-ibt.so", 16), "done\n")

    def test_blocks_that_look_like_those_of_libc(self):
        self.assertEqual(self.storm("release-only-low.so", 4), "done\n")

    def test_one_thread(self):
        self.assertEqual(self.storm("release-only-heaps-O2.so", 1, 100), "done\n")

    def test_what_cannot_be_changed_is_refused(self):
        """A first instruction of one byte leaves no room for a jump."""
        for name in ("release-only-heaps-O0.so", "inner-c-O2.so"):
            output = self.storm(name, 4, 100)
            self.assertRegex(
                output, r"^-16 .* cannot be changed while threads may be running it; load"
            )

    def test_what_cannot_be_guarded_is_refused(self):
        output = self.storm("release-only-reaches.so", 4, 100)
        self.assertRegex(output, r"^-16 .* cannot be guarded now; load it through homefree")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
