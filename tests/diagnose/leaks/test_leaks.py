"""Leaks across objects are found when a process exits, with the place that allocated them and the
one that freed others; what anything still points to is none. Correct programs have none.

Usage: test_leaks.py --homefree COMMAND --leaks PROGRAM [unittest arguments]
"""

import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from diagnosis import TIMEOUT, DiagnosisTest, arguments, main, parser  # noqa: E402

parser.add_argument("--leaks", required=True)

PROGRAMS = [
    ["/bin/ls", "-l", "/usr"],
    ["bash", "-c", "x=$(ls /); y=($x); echo ${#y[@]}"],
    ["git", "--version"],
    ["perl", "-MPOSIX", "-e", "print join ' ', map { $_ x 40 } 1 .. 50"],
    ["python3", "-c", "import json; print(json.dumps(list(range(50))))"],
]


class Leaks(DiagnosisTest):
    def diagnose(self, *command, options=("--leaks",), **more):
        return super().diagnose(*command, options=options, **more)

    def test_lost_blocks_are_found(self):
        for options in (["--leaks"], ["--leaks", "--sample", "1"]):
            run = self.diagnose(arguments.leaks, options=options)
            self.assertEqual((run.status, run.output), (0, "ended\n"), run.errors)
            (finding,) = run.report["findings"]
            self.assertEqual((finding["rule"], finding["severity"]), ("boundary-leak", "note"))
            self.assertEqual((finding["count"], finding["bytes"]), (7, 700))
            self.assertEqual(finding["allocated"]["symbol"], "maker_block")
            self.assertEqual(finding["first_freed"]["symbol"], "give")
            self.assertIsNone(finding["freed"]["function"])
        text = subprocess.run(
            [arguments.homefree, "report", str(run.directory)], capture_output=True, timeout=TIMEOUT
        ).stdout.decode()
        self.assertRegex(text, r"others freed +give ")

    def test_no_neighbour_is_overlooked(self):
        sizes = [100]
        while sizes[-1] * 5 // 4 < 50000:
            sizes.append(sizes[-1] + sizes[-1] // 4)
        run = self.diagnose(arguments.leaks, "many", options=["--leaks", "--sample", "0"])
        self.assertEqual((run.status, run.output), (0, "ended\n"), run.errors)
        (finding,) = run.report["findings"]
        self.assertEqual((finding["count"], finding["bytes"]), (40 * len(sizes), 40 * sum(sizes)))

    def test_strict_mode_goes_on(self):
        run = self.diagnose(arguments.leaks, mode="strict")
        self.assertEqual((run.status, run.output), (0, "ended\n"), run.errors)

    def test_blocks_that_something_points_to_are_none(self):
        run = self.diagnose(arguments.leaks, "losing nothing")
        self.assertEqual(run.report["findings"], [])

    def test_nothing_is_looked_for_where_that_was_not_wanted(self):
        for more in ({"options": ()}, {"mode": "count"}):
            self.assertEqual(self.diagnose(arguments.leaks, **more).report["findings"], [])

    def test_correct_programs(self):
        for command in PROGRAMS:
            with self.subTest(command=command):
                if shutil.which(command[0]) is None:
                    self.skipTest("not installed")
                plain = subprocess.run(command, capture_output=True, timeout=TIMEOUT)
                run = self.diagnose(*command)
                self.assertEqual(
                    (run.status, run.output), (plain.returncode, plain.stdout.decode()), run.errors
                )
                self.assertEqual(run.report["findings"], [])


if __name__ == "__main__":
    main(needs_names=True)
