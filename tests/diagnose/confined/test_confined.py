"""A process that forbids itself system calls after its start goes on and ends as it would without
homefree, and its report is complete. A system that refuses advice about memory changes nothing.

Usage: test_confined.py --homefree COMMAND --library FILE --confined PROGRAM [unittest arguments]
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from diagnosis import TIMEOUT, DiagnosisTest, arguments, main, parser  # noqa: E402

parser.add_argument("--library", required=True, type=os.path.abspath)
parser.add_argument("--confined", required=True, type=os.path.abspath)

# (case, how it confines itself, how it ends)
ENDS = [
    ("allocate", "prctl", 0),
    ("allocate", "seccomp", 0),
    ("threads", "seccomp", 0),
    ("forks", "prctl", 0),
    ("leaves", "prctl", 0),
    ("too-large", "prctl", 0),
    ("crashes", "seccomp", -signal.SIGSEGV),
    ("aborts", "prctl", -signal.SIGABRT),
]


def status_of(*command):
    return subprocess.run(command, capture_output=True, timeout=TIMEOUT, check=False).returncode


class Confined(DiagnosisTest):
    def each(self, check):
        for case, way, status in ENDS:
            with self.subTest(case=case, way=way):
                check(case, way, status)

    def ends(self, *before, after=()):
        self.each(
            lambda case, way, status: self.assertEqual(
                status_of(*before, arguments.confined, case, way, *after), status
            )
        )

    def test_plain(self):
        self.ends()

    def test_loaded_late(self):
        self.ends(after=[arguments.library])

    def test_run(self):
        self.ends(arguments.homefree, "run", "--")

    def diagnose(self, *words, **more):
        return super().diagnose(arguments.confined, *words, **more)

    def check_report(self, case, way, status):
        """Also with guarded samples, and leaks, which cannot be looked for any more."""
        for options in ([], ["--sample", "1"], ["--leaks"]):
            run = self.diagnose(case, way, options=options)
            self.assertEqual(run.status, status, run.errors)
            (finding,) = run.report["findings"]
            self.assertEqual((finding["rule"], finding["count"]), ("new-free", 1))
            (process,) = run.report["processes"]
            self.assertEqual(process["end"], "exit" if status == 0 else "signal")
            self.assertEqual((process["status"], process["dropped"]), (abs(status), 0))
            (file,) = Path(run.directory).glob("*.hfreport")
            self.assertLess(file.stat().st_size, 4 << 20)

    def test_diagnosed(self):
        self.each(self.check_report)

    def test_a_forked_child_says_whose_it_is(self):
        run = self.diagnose("forks", "prctl")
        self.assertEqual(len(run.summary()), 2, run.errors)
        self.assertIn("diagnosis of a child of process", run.summary()[0])

    def check_counts(self, case, way, status):
        run = self.diagnose(case, way, mode="count")
        self.assertEqual(run.status, status, run.errors)
        self.assertIn(arguments.confined, [pair["allocated_by"] for pair in run.report["matrix"]])

    def test_counted(self):
        self.each(self.check_counts)


class Refused(DiagnosisTest):
    def test_advice(self):
        refusing = (arguments.confined, "refuse-madvise")
        program = (arguments.confined, "allocate", "never")
        self.assertEqual(status_of(*refusing, *program), 0)
        self.assertEqual(status_of(*refusing, *program, arguments.library), 0)
        self.assertEqual(status_of(*refusing, arguments.homefree, "run", "--", *program), 0)

    def test_advice_about_the_report(self):
        for mode in ("count", "report"):
            program = arguments.confined
            run = self.diagnose(program, "refuse-madvise", program, "allocate", "never", mode=mode)
            self.assertEqual(run.status, 0, run.errors)
            self.assertNotIn("cannot", run.errors)
            self.assertEqual(len(run.report["processes"]), 2)


def setUpModule():
    if status_of(arguments.confined, "leaves", "prctl") == 77:
        print("seccomp is not allowed here", file=sys.stderr)
        sys.exit(77)


if __name__ == "__main__":
    main(needs_names=True)
