"""What is found in a part of a run (homefree/diagnose.h).

Usage: test_part.py --homefree COMMAND --part PROGRAM [unittest arguments]
"""

import subprocess

from diagnosis import TIMEOUT, DiagnosisTest, arguments, main, parser

parser.add_argument("--part", required=True)


class Part(DiagnosisTest):
    def diagnose(self, word, mode):
        return super().diagnose(arguments.part, word, mode=mode)

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
    main(needs_names=True)
