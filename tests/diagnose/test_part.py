"""What is found in a part of a run (homefree/diagnose.h).

Usage: test_part.py --homefree COMMAND --part PROGRAM [unittest arguments]
"""

import argparse
import subprocess
import sys
import unittest

from diagnosis import TIMEOUT, Diagnosis, Directories, needs_names_of_modules

parser = argparse.ArgumentParser()
parser.add_argument("--homefree", required=True)
parser.add_argument("--part", required=True)


class Part(unittest.TestCase):
    def setUp(self):
        self.directories = Directories()
        self.addCleanup(self.directories.remove)

    def diagnose(self, word, mode):
        return Diagnosis(
            arguments.homefree, [arguments.part, word], mode=mode, directory=self.directories.new()
        )

    def test_diagnosed_process(self):
        run = self.diagnose("diagnosed", "report")
        self.assertEqual((run.status, run.output), (0, "done\n"), run.errors)

    def test_process_that_counts(self):
        run = self.diagnose("counted", "count")
        self.assertEqual((run.status, run.output), (0, "done\n"), run.errors)

    def test_other_processes(self):
        for command in ([], [arguments.homefree, "run", "--"]):
            done = subprocess.run(
                [*command, arguments.part, "undiagnosed"], capture_output=True, timeout=TIMEOUT
            )
            self.assertEqual((done.returncode, done.stdout), (0, b"done\n"), done.stderr)


if __name__ == "__main__":
    needs_names_of_modules()
    arguments, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
