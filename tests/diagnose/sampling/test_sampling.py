"""Guarded samples: an access to a freed block, or past the end of one, is found at the access, with
who allocated, who freed and who accessed; the program goes on. Correct programs have no finding
while every allocation is sampled, and behave the same.

Usage: test_sampling.py --homefree COMMAND --accesses PROGRAM --busy PROGRAM --grow PROGRAM
                        [unittest arguments]
"""

import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from diagnosis import TIMEOUT, DiagnosisTest, arguments, main, parser  # noqa: E402

parser.add_argument("--accesses", required=True)
parser.add_argument("--busy", required=True)
parser.add_argument("--grow", required=True, type=os.path.abspath)

AFTER = "use-after-free"
READ, WRITE = "a read", "a write"
# access: (what it prints, rule, count, first free, (function, symbol) of the access or free)
ACCESSES = {
    "read-freed": ("read x", AFTER, 1, "give", (READ, "look")),
    "write-freed": ("read xy", AFTER, 1, "give", (WRITE, "poke")),
    "read-resized": ("read xx", AFTER, 1, "read_resized", (READ, "look")),
    "write-behind": ("read x", "overrun", 1, None, (WRITE, "poke")),
    "read-behind": ("read 0", "overrun", 1, None, (READ, "look")),
    "read-before": ("read 0", "overrun", 1, None, (READ, "look")),
    "write-hidden": ("read x", "overrun", 1, None, ("free", "give")),
    "write-far": ("read z", "overrun", 2, None, (WRITE, None)),
    "double-free": ("read ", "double-free", 1, "give", ("free", "give")),
    "interior-free": ("read ", "interior-free", 1, None, ("free", "give")),
    "read-freed-threads": ("read ", AFTER, None, "give", (READ, "look")),
    "read-freed-child": ("read x 7", AFTER, 1, "give", (READ, "look")),
    "read-freed-vfork": ("read 7", AFTER, 1, "give", (READ, "look")),
    "with-handler": ("read x", AFTER, 2, "give", (READ, "look")),
    "without-handler": ("read x", AFTER, 1, "give", (READ, "look")),
}

PROGRAMS = [
    ["/bin/ls", "/"],
    ["bash", "-c", "ls / | cat; x=$(echo 5); exit $x"],
    ["git", "--version"],
    ["perl", "-MPOSIX", "-e", "print join ' ', map { $_ x 40 } 1 .. 50"],
    ["python3", "-c", "import json, unittest, sqlite3; print(json.dumps(list(range(50))))"],
    ["redis-server", "--version"],
    ["java", "-version"],
]


class Sampling(DiagnosisTest):
    def diagnose(self, *command, sample="1", options=(), **more):
        options = ["--sample", sample, *options]
        return super().diagnose(*command, options=options, **more)

    def test_wrong_accesses_are_found_where_they_happen(self):
        for name, (printed, rule, count, freer, (function, symbol)) in ACCESSES.items():
            with self.subTest(access=name):
                run = self.diagnose(arguments.accesses, name)
                self.assertEqual((run.status, run.output), (0, printed + "\n"), run.errors)
                (finding,) = run.report["findings"]
                self.assertEqual((finding["rule"], finding["severity"]), (rule, "error"))
                if count is not None:
                    self.assertEqual(finding["count"], count)
                self.assertEqual(finding["allocated"]["symbol"], "take")
                self.assertEqual(finding["allocated"]["stack"][-1]["symbol"], "_start")
                self.assertEqual(finding["freed"]["function"], function)
                if symbol is not None:
                    self.assertEqual(finding["freed"]["symbol"], symbol)
                symbols = [frame["symbol"] for frame in finding["freed"]["stack"]]
                self.assertTrue({"main", "look_at"} & set(symbols), symbols)
                if freer is None:
                    self.assertIsNone(finding["first_freed"])
                else:
                    self.assertEqual(finding["first_freed"]["symbol"], freer)
                    self.assertEqual(finding["first_freed"]["stack"][0]["symbol"], freer)

    def test_strict_mode_ends_at_the_access(self):
        for name, rule in (("write-freed", AFTER), ("write-behind", "overrun")):
            run = self.diagnose(arguments.accesses, name, mode="strict")
            self.assertEqual((run.status, run.output), (-signal.SIGABRT, ""), run.errors)
            (line,) = [line for line in run.errors.splitlines() if "fatal: " in line]
            self.assertIn(f"fatal: {rule} of 0x", line)
            self.assertIn("; allocated by ", line)
            self.assertIn("; accessed by ", line)
            self.assertEqual("; freed by " in line, rule == AFTER)
            self.assertEqual([f["rule"] for f in run.report["findings"]], [rule])
            self.assertEqual(run.report["processes"][-1]["end"], "signal")

    def test_nothing_is_sampled_where_that_was_not_wanted(self):
        for more in ({"sample": "0"}, {"mode": "count"}):
            run = self.diagnose(arguments.accesses, "write-freed", **more)
            self.assertEqual(run.status, 0, run.errors)
            self.assertEqual(run.report["findings"], [])

    def test_handler_that_only_the_kernel_knows(self):
        run = self.diagnose(arguments.accesses, "raw-handler")
        self.assertEqual((run.status, run.output), (0, "read x\n"), run.errors)
        self.assertEqual(run.report["findings"], [])

    def test_sandbox(self):
        run = self.diagnose(arguments.accesses, "sandbox")
        self.assertEqual((run.status, run.output[:5]), (0, "read "), run.errors)
        self.assertEqual(run.report["findings"], [])

    def test_write_barrier(self):
        """Each fault goes to the program's handler after one try, not after thousands."""
        self.same([arguments.accesses, "write-barrier"])

    def test_places_of_an_earlier_report_are_always_sampled(self):
        first = self.diagnose(arguments.accesses, "read-freed")
        sites = ["--sites", str(first.directory)]
        run = self.diagnose(arguments.accesses, "write-freed", sample="1000000", options=sites)
        self.assertEqual([f["rule"] for f in run.report["findings"]], [AFTER], run.errors)

    def test_terminal_names_the_three_places(self):
        run = self.diagnose(arguments.accesses, "read-freed")
        text = subprocess.run(
            [arguments.homefree, "report", str(run.directory)], capture_output=True, timeout=TIMEOUT
        ).stdout.decode()
        self.assertRegex(text, r"allocated +take .*\n +freed +give .*\n +accessed +look ")
        for title in ("allocation", "free", "access"):
            self.assertIn(f"stack of the {title}\n", text)

    def same(self, command, **more):
        plain = subprocess.run(command, capture_output=True, timeout=TIMEOUT, **more)
        run = self.diagnose(*command, **more)
        self.assertEqual(
            (run.status, run.output), (plain.returncode, plain.stdout.decode()), run.errors
        )
        self.assertEqual(run.report["findings"], [])
        return run

    def test_correct_programs(self):
        for command in PROGRAMS:
            with self.subTest(command=command):
                if shutil.which(command[0]) is None:
                    self.skipTest("not installed")
                self.same(command)

    def test_threads_and_children(self):
        run = self.same([arguments.busy])
        self.assertEqual(run.output, "0 wrong, 12 children\n")

    def test_mappings_that_run_out(self):
        run = self.same([arguments.busy, "crowded"])
        self.assertEqual(run.output, "0 wrong, 3 children\n")

    def test_limits_on_memory(self):
        for kind, limit in (
            (resource.RLIMIT_AS, 256 << 20),
            (resource.RLIMIT_AS, 1 << 30),
            (resource.RLIMIT_DATA, 160 << 20),
        ):
            with self.subTest(kind=kind, limit=limit):

                def prepare(kind=kind, limit=limit):
                    resource.setrlimit(kind, (limit, limit))

                self.same(["bash", "-c", "x=$(seq 1000); echo ${#x}"], preexec_fn=prepare)

    def test_timeline(self):
        for more in ({"sample": "100"}, {"sample": "0", "mode": "count"}):
            run = self.diagnose(arguments.grow, **more)
            moments = [m for m in run.report["timeline"] if m["object"] == arguments.grow]
            times = [moment["time"] for moment in moments]
            self.assertEqual(times, sorted(times))
            process = run.report["processes"][-1]
            self.assertLessEqual(times[-1], process["ended"] - process["started"] + 0.1)
            self.assertGreater(len(moments), 3)
            peak = max(moment["bytes"] for moment in moments)
            self.assertAlmostEqual(peak, (30000 << 10) + (8 << 20), delta=1 << 20)
            self.assertEqual(moments[-1]["bytes"], 16 << 20)

    def test_short_programs_have_no_timeline(self):
        self.assertEqual(self.diagnose("/bin/true", sample="0").report["timeline"], [])

    def test_wrong_numbers(self):
        for number in ("", "x", "-1", "9999999999"):
            run = self.diagnose("true", sample=number)
            self.assertEqual(run.status, 2)
            self.assertIn("--sample takes a number", run.errors)
        for option in (["--sample", "1"], ["--leaks"]):
            done = subprocess.run(
                [arguments.homefree, "run", *option, "true"], capture_output=True, timeout=TIMEOUT
            )
            self.assertEqual(done.returncode, 2)
            self.assertIn(b"goes with --diagnose", done.stderr)


if __name__ == "__main__":
    main(needs_names=True)
