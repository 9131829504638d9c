"""On a machine without a device, tests/gpu/run says so in one line, and builds nothing.

usage: without_device.py
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

RUN = pathlib.Path(__file__).with_name("run")


def run(directory, smi):
    """The script's status and output, where nvidia-smi is a shell script, or missing."""
    path = pathlib.Path(directory, "bin")
    path.mkdir()
    if smi is not None:
        program = path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{smi}\n")
        program.chmod(0o755)
    (path / "sh").symlink_to("/bin/sh")
    build = pathlib.Path(directory, "build")
    done = subprocess.run(
        [sys.executable, RUN, "--build", build],
        env={**os.environ, "PATH": str(path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout, (build / "tree").exists()


class WithoutDevice(unittest.TestCase):
    def check(self, smi, why):
        with tempfile.TemporaryDirectory() as directory:
            status, text, built = run(directory, smi)
        self.assertEqual(text, f"tests/gpu/run: no CUDA device here: {why}\n")
        self.assertEqual(status, 77)
        self.assertFalse(built)

    def test_there_is_no_driver(self):
        self.check(None, "there is no nvidia-smi")

    def test_the_driver_fails(self):
        self.check("echo 'could not talk to the driver'; exit 9", "nvidia-smi finds none")

    def test_the_driver_has_no_device(self):
        self.check("exit 0", "nvidia-smi finds none")


if __name__ == "__main__":
    unittest.main()
