"""loader/wheels/build, tests/fresh-root and tests/long/prebuilt-wheel: wrong input gives one line
that names the remedy, and makes no root.

usage: test_prebuilt.py SOURCE-DIRECTORY [unittest's arguments]
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1))


class WrongInput(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.bin = self.directory / "bin"
        self.bin.mkdir()
        for tool in ("sh", "dirname", "python3", "env", "mkdir", "mktemp", "rm", "git", "uname"):
            found = shutil.which(tool, path="/usr/bin:/bin")
            if found is not None:  # a bare machine has no git, which nothing gets as far as to use
                (self.bin / tool).symlink_to(found)
        self.user(0)

    def user(self, number):
        """Who the scripts believe runs them."""
        self.program("id", f"echo {number}")

    def program(self, name, text):
        file = self.bin / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)

    def assertRefused(self, status, text, script, *arguments):
        result = subprocess.run(
            [SOURCE / script, *map(str, arguments)],
            env={"PATH": str(self.bin)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        said = result.stdout + result.stderr
        self.assertEqual(result.returncode, status, said)
        self.assertIn(text, said)
        self.assertNotIn("Traceback", said)

    def build(self, status, text, *arguments):
        self.assertRefused(
            status, text, "loader/wheels/build", "--root", self.directory, *arguments
        )

    def test_no_root(self):
        self.user(1000)
        output = self.directory / "out"
        self.build(3, "needs root, to make and enter a root: run it with sudo", "--output", output)

    def test_no_debootstrap(self):
        output = self.directory / "out"
        self.build(3, "needs debootstrap: apt-get install debootstrap", "--output", output)

    def test_no_sdist(self):
        self.build(3, "there is no file", "--sdist", self.directory / "homefree-1.tar.gz")
        self.build(3, "must end in .tar.gz", "--sdist", self.directory / "homefree-1.whl")

    def test_an_output_directory_that_cannot_be_written(self):
        self.build(3, "choose another directory with --output", "--output", "/proc/homefree")
        (self.directory / "file").touch()
        self.build(3, "choose another directory with --output", "--output", self.directory / "file")

    def test_a_machine_that_nobody_knows(self):
        self.build(2, "invalid choice: 'sparc'", "--machine", "sparc")

    def test_wheels_that_cannot_be_tested_here(self):
        script = "tests/long/prebuilt-wheel"
        self.assertRefused(3, "there is no file", script, "--wheel", self.directory / "none.whl")
        other = "aarch64" if os.uname().machine == "x86_64" else "x86_64"
        for name, why in (
            ("homefree-1-cp39-abi3-linux_x86_64.whl", "is no manylinux wheel"),
            (f"homefree-1-cp39-abi3-manylinux_2_28_{other}.whl", "not for this machine"),
        ):
            (self.directory / name).touch()
            self.assertRefused(3, why, script, "--wheel", self.directory / name)

    def test_a_file_to_give_that_is_not_there(self):
        self.assertRefused(3, "there is no file", "tests/fresh-root", "-g", self.directory / "none")
        self.assertRefused(2, "usage:", "tests/fresh-root", "-x")

    def test_the_list_of_roots_is_skipped_where_none_can_be_made(self):
        self.user(1000)
        self.assertRefused(77, "needs root", "tests/long/roots")
        self.user(0)
        self.assertRefused(77, "needs debootstrap", "tests/long/roots")


if __name__ == "__main__":
    unittest.main()
