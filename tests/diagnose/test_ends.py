"""However a process ends, and whatever it does to itself, its report has what happened until then,
and its children write reports of their own.

Usage: test_ends.py --homefree COMMAND --ends PROGRAM [unittest arguments]
"""

import os
import signal
import subprocess

from diagnosis import DiagnosisTest, arguments, main, parser

parser.add_argument("--ends", required=True, type=os.path.abspath)

FILES_MAX = 1000  # HF_REPORT_PROCESSES_MAX


class Ends(DiagnosisTest):
    def end(self, how, **more):
        return self.diagnose(arguments.ends, how, **more)

    def faults(self, run):
        return sum(f["count"] for f in run.report["findings"] if f["rule"] == "static-free")

    def check(self, how, status=0, faults=1, **process):
        run = self.end(how)
        self.assertEqual(run.status, status, run.errors)
        self.assertEqual(self.faults(run), faults, run.errors)
        for key, value in process.items():
            self.assertEqual(run.report["processes"][0][key], value, key)
        return run

    def test_exit(self):
        run = self.check("exit", end="exit", status=0)
        self.assertEqual(len(run.summary()), 1)

    def test_many_threads_are_counted(self):
        run = self.check("threads")
        (pair,) = [
            p for p in run.report["matrix"] if p["allocated_by"] == p["freed_by"] == arguments.ends
        ]
        self.assertEqual(pair["blocks"], 40 * 20000)
        self.assertEqual(pair["threads"], 40)

    def test_closed_descriptors(self):
        self.check("closed", faults=2)

    def test_another_directory(self):
        self.check("elsewhere")

    def test_dropped_privileges(self):
        self.check("dropped")

    def test_strict_seccomp(self):
        run = self.end("sandboxed")
        if run.status == 77:
            self.skipTest("no seccomp here")
        self.assertEqual((run.status, self.faults(run)), (0, 1), run.errors)

    def test_forked_children_write_their_own(self):
        run = self.check("forked", faults=3)
        self.assertEqual(len(run.report["processes"]), 4)
        self.assertEqual(len(run.summary()), 4, run.errors)

    def test_vfork_leaves_the_parents_report_alone(self):
        run = self.check("vforked", end="exit", status=0)
        self.assertEqual(len(run.report["processes"]), 1)

    def test_a_storm_of_children_is_bounded_and_says_so(self):
        run = self.end("storm")
        self.assertEqual(run.status, 0)
        files = [name for name in os.listdir(run.directory) if name.endswith(".hfreport")]
        self.assertEqual(len(files), FILES_MAX)
        self.assertEqual(run.report["left_out"], 1201 - FILES_MAX)

    def test_sigkill(self):
        self.check("killed", status=-signal.SIGKILL, end=None)

    def test_crash(self):
        for how, number in (("aborted", signal.SIGABRT), ("refused", signal.SIGSYS)):
            with self.subTest(how):
                run = self.check(how, status=-number)
                process = run.report["processes"][0]
                self.assertEqual((process["end"], process["status"]), ("signal", number))
                self.assertEqual(len(run.summary()), 1)

    def test__exit(self):
        run = self.check("at-once", status=5)
        process = run.report["processes"][0]
        self.assertEqual((process["end"], process["status"]), ("exit", 5))
        self.assertEqual(len(run.summary()), 1)

    def test_exec(self):
        run = self.check("executed")
        self.assertEqual(len(run.report["processes"]), 2)

    def test_a_full_disk_costs_a_line(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        directory = self.directories.new()
        os.mkdir(directory)
        mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", directory]
        if subprocess.run(mount, capture_output=True).returncode != 0:
            self.skipTest("cannot mount")
        try:
            run = self.diagnose(arguments.ends, "threads", directory=directory)
            self.assertEqual(run.status, 0, run.errors)
            self.assertIn("1 error", run.summary()[0])
        finally:
            subprocess.run(["umount", directory], check=True)

    def test_a_directory_that_goes_away_costs_a_line(self):
        directory = self.directories.new()
        command = ["/bin/sh", "-c", f"rm -rf {directory}; exec {arguments.ends} exit"]
        run = self.diagnose(*command, directory=directory)
        self.assertEqual(run.status, 0, run.errors)
        self.assertIn("1 error", run.summary()[-1])


if __name__ == "__main__":
    main(needs_names=True)
