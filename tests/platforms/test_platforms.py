"""Configuring stops with one line where homefree does not work: on other processors, with 32-bit
code, and with another C library than glibc. Without that, musl stopped in the middle of compiling.

usage: test_platforms.py SOURCE
"""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SUPPORTED = "homefree supports Linux with glibc on 64-bit x86-64 and aarch64 (little-endian); "
CROSS_FILE = """[binaries]
c = {c}
cpp = {c}
[properties]
needs_exe_wrapper = true
[host_machine]
system = '{system}'
cpu_family = '{family}'
cpu = '{family}'
endian = 'little'
"""


@unittest.skipUnless(shutil.which("meson"), "there is no meson on PATH")
class Platforms(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def refusal(self, c=("gcc",), system="linux", family="x86_64"):
        """What the line says with which Meson stops."""
        c = [shutil.which(c[0]) or "cc", *c[1:]]
        cross = self.directory / "cross.ini"
        cross.write_text(CROSS_FILE.format(c=c, system=system, family=family))
        done = subprocess.run(
            ["meson", "setup", self.directory / "build", SOURCE, "--cross-file", cross],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        errors = [line for line in done.stdout.splitlines() if "ERROR" in line]
        self.assertEqual((done.returncode, len(errors)), (1, 1), done.stdout)
        self.assertIn(SUPPORTED, errors[0])
        return errors[0].partition(SUPPORTED)[2]

    def test_processor(self):
        self.assertEqual(self.refusal(family="riscv64"), "this build is for riscv64")

    def test_system(self):
        self.assertEqual(self.refusal(system="freebsd"), "this build is for freebsd")

    @unittest.skipUnless(shutil.which("gcc"), "there is no gcc")
    def test_width(self):
        # Compiled and never linked: needs no 32-bit libraries.
        text = "this compiler makes 32-bit or big-endian code"
        wide = subprocess.run(["gcc", "-mx32", "-E", "-"], input="", capture_output=True, text=True)
        if wide.returncode:
            self.skipTest("this gcc knows no -mx32")
        self.assertEqual(self.refusal(["gcc", "-mx32"]), text)

    @unittest.skipUnless(shutil.which("musl-gcc"), "there is no musl-gcc (Debian's musl-tools)")
    def test_c_library(self):
        text = "this compiler uses another C library, such as musl"
        self.assertEqual(self.refusal(["musl-gcc"]), text)


if __name__ == "__main__":
    SOURCE = sys.argv.pop(1)
    unittest.main()
