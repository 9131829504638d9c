"""Small stacks: what the malloc family needs of a coroutine's, and stacks that overflow inside it
and are left by siglongjmp, after which nothing waits and nothing is lost.

Usage: test_small_stacks.py --homefree COMMAND --library FILE --coroutines PROGRAM
                            --overflows PROGRAM --unended PROGRAM [unittest arguments]
"""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from diagnosis import TIMEOUT, DiagnosisTest, arguments, main, parser  # noqa: E402

parser.add_argument("--library", required=True, type=os.path.abspath)
parser.add_argument("--coroutines", required=True, type=os.path.abspath)
parser.add_argument("--overflows", required=True, type=os.path.abspath)
parser.add_argument("--unended", required=True, type=os.path.abspath)

# Bytes, as docs/limits.md promises.
PLAIN, RUN, DIAGNOSE = 1024, 2560, 4096
AFTERWARDS = 256  # as in overflows.cc


class Coroutines(DiagnosisTest):
    def check(self, output, most):
        needs = {name: int(needed) for name, needed in map(str.split, output.splitlines())}
        self.assertGreaterEqual(len(needs), 1)
        self.assertLessEqual(max(needs.values()), most, needs)

    def run_it(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=True)
        return done.stdout

    def test_plain_and_loaded_late(self):
        for more in ([], [arguments.library]):
            self.check(self.run_it(arguments.coroutines, "correct", *more), PLAIN)

    def test_run(self):
        for case in ("correct", "faulty"):
            command = (arguments.homefree, "run", "--", arguments.coroutines, case)
            self.check(self.run_it(*command), RUN)

    def test_diagnosed(self):
        for case in ("correct", "faulty"):
            for mode, options in (("count", []), ("report", []), ("report", ["--sample", "1"])):
                run = self.diagnose(arguments.coroutines, case, mode=mode, options=options)
                self.assertEqual(run.status, 0, run.errors)
                self.check(run.output, DIAGNOSE)


class Overflows(DiagnosisTest):
    def test_run(self):
        for command in (
            (arguments.overflows,),
            (arguments.homefree, "run", "--", arguments.overflows),
        ):
            done = subprocess.run(command, capture_output=True, timeout=TIMEOUT, check=False)
            self.assertEqual((done.returncode, done.stdout), (0, b"survived\n"))

    def test_diagnosed(self):
        for mode, options in (("count", []), ("report", []), ("report", ["--sample", "1"])):
            run = self.diagnose(arguments.overflows, mode=mode, options=options)
            self.assertEqual((run.status, run.output), (0, "survived\n"), run.errors)
            self.assertEqual(run.report["processes"][0]["dropped"], 0)
            if mode == "report":
                self.assertGreaterEqual(len(run.report["findings"]), AFTERWARDS)


class Unended(DiagnosisTest):
    def test_walks_end_with_the_stack(self):
        for case in ("blocked", "handled"):
            for sample in ("0", "1"):
                run = self.diagnose(arguments.unended, case, options=["--sample", sample])
                self.assertEqual((run.status, run.output), (0, "survived\n"), run.errors)
                (finding,) = run.report["findings"]
                self.assertEqual(finding["freed"]["symbol"], "run")
                self.assertEqual(finding["freed"]["stack"][0]["symbol"], "run")


if __name__ == "__main__":
    main(needs_names=True)
