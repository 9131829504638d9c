"""A fault's report has the stack of the free at once, and the stack of the allocation from the
second block on, or from the first one if an earlier report knows the place. Damaged stacks and
hostile reports do no harm.

Usage: test_stacks.py --homefree COMMAND --stacks PROGRAM… [unittest arguments]
"""

import os
import random
import shutil
import struct
import subprocess
from pathlib import Path

from diagnosis import TIMEOUT, DiagnosisTest, arguments, main, parser

parser.add_argument("--stacks", required=True, nargs="+", type=os.path.realpath)

STACK_MAX = 48
CHUNK = 16384
FREEING = ["give_inner", "give_outer", "cross"]
ALLOCATING = ["library_inner", "library_middle", "library_outer", "cross"]


def names(side):
    return [frame["symbol"] or "?" for frame in side["stack"]]


class Stacks(DiagnosisTest):
    def finding(self, run):
        self.assertEqual((run.status, run.output), (0, "survived\n"), run.errors)
        (finding,) = run.report["findings"]
        self.assertEqual(finding["rule"], "malloc-delete")
        return finding

    def check(self, side, begins, *later):
        """The stack begins with these functions, and has the others further out, in their order."""
        found = names(side)
        for name, symbol in zip(begins, found):
            self.assertIn(name, symbol, found)
        self.assertGreaterEqual(len(found), len(begins))
        rest = iter(found[len(begins) :])
        for name in later:
            self.assertTrue(any(name in symbol for symbol in rest), (name, found))

    def test_first_fault_has_the_stack_of_the_free(self):
        for program in arguments.stacks:
            with self.subTest(program=program):
                finding = self.finding(self.diagnose(program, "once"))
                self.check(finding["freed"], FREEING, "main")
                self.assertEqual(finding["allocated"]["stack"], [])
                self.assertIn("library_inner", finding["allocated"]["symbol"])
                self.assertEqual(
                    {frame["object"] for frame in finding["freed"]["stack"][:3]}, {program}
                )

    def test_second_fault_of_a_run_has_both(self):
        for program in arguments.stacks:
            with self.subTest(program=program):
                finding = self.finding(self.diagnose(program, "twice"))
                self.assertEqual((finding["count"], finding["bytes"]), (2, 50))
                self.check(finding["freed"], FREEING, "cross_twice", "main")
                self.check(finding["allocated"], ALLOCATING, "cross_twice", "main")
                self.assertIn("libstacks_library", finding["allocated"]["stack"][2]["object"])

    def test_ways_to_one_place_are_one_finding_with_the_first_stack(self):
        finding = self.finding(self.diagnose(arguments.stacks[0], "ways"))
        self.assertEqual(finding["count"], 3)
        self.check(
            finding["allocated"],
            ["library_inner", "library_middle", "library_other", "cross_differently"],
            "cross_by_ways",
        )

    def test_an_earlier_report_gives_both_at_once(self):
        for program in arguments.stacks:
            with self.subTest(program=program):
                first = self.diagnose(program, "once")
                (file,) = first.directory.glob("*.hfreport")
                for path in first.directory, file:
                    run = self.diagnose(program, "once", options=["--sites", path])
                    self.assertNotIn("sites", run.errors)
                    finding = self.finding(run)
                    self.assertEqual(finding["count"], 1)
                    self.check(finding["freed"], FREEING, "main")
                    self.check(finding["allocated"], ALLOCATING, "main")

    def test_sites_of_another_build_are_none(self):
        first, other = (self.diagnose(program, "once") for program in arguments.stacks[:2])
        (file,) = first.directory.glob("*.hfreport")
        contents = file.read_bytes()
        note = subprocess.run(
            ["readelf", "-n", first.report["findings"][0]["allocated"]["object"]],
            capture_output=True,
            check=True,
        ).stdout.decode()
        build = bytes.fromhex(note.split("Build ID: ")[1].split()[0])
        self.assertIn(build, contents)
        file.write_bytes(contents.replace(build, bytes(len(build))))
        run = self.diagnose(arguments.stacks[0], "once", options=["--sites", file])
        self.assertEqual(self.finding(run)["allocated"]["stack"], [])
        self.assertNotIn("sites", run.errors)
        # The library's place is the same for both programs.
        run = self.diagnose(arguments.stacks[0], "once", options=["--sites", other.directory])
        self.check(self.finding(run)["allocated"], ALLOCATING, "main")

    def test_forked_child_knows_the_sites_of_its_parent(self):
        run = self.diagnose(arguments.stacks[0], "fork")
        self.assertEqual((run.status, run.output), (0, "survived\n"), run.errors)
        self.assertEqual(len(list(run.directory.glob("*.hfreport"))), 2)
        (finding,) = run.report["findings"]
        self.assertEqual(finding["count"], 2)
        self.check(finding["allocated"], ALLOCATING, "fork_then_cross")

    def test_threads(self):
        run = self.diagnose(arguments.stacks[0], "threads")
        finding = self.finding(run)
        # A thread does not wait for ever for the records' lock.
        dropped = sum(process["dropped"] for process in run.report["processes"])
        self.assertLessEqual(finding["count"], 8 * 500)
        self.assertGreaterEqual(finding["count"] + dropped, 8 * 500)
        self.check(finding["freed"], FREEING[:2], "cross_in_threads")
        self.check(finding["allocated"], ALLOCATING[:2], "cross_in_threads")

    def test_a_site_that_allocates_often_goes_on(self):
        run = self.diagnose(arguments.stacks[0], "often")
        finding = self.finding(run)
        self.assertEqual((finding["count"], finding["bytes"]), (20000, 20000 * 25))
        self.check(finding["allocated"], ALLOCATING, "cross_often")

    def test_deep_recursion_is_cut_short(self):
        for program in arguments.stacks:
            finding = self.finding(self.diagnose(program, "recursion"))
            for side, begins in ("freed", FREEING), ("allocated", ALLOCATING):
                self.check(finding[side], begins, "cross_twice", "recurse", "recurse")
                self.assertEqual(len(finding[side]["stack"]), STACK_MAX)

    def test_stack_passes_through_a_signal_handler(self):
        for program in arguments.stacks:
            for mode in "signal", "signal-elsewhere":
                inside = "in_" + mode.replace("-", "_")
                finding = self.finding(self.diagnose(program, mode))
                for side, begins in ("freed", FREEING), ("allocated", ALLOCATING):
                    self.check(finding[side], begins, "on_signal", inside, "main")

    def test_stack_passes_through_a_frame_that_is_aligned_anew(self):
        for program in arguments.stacks:
            finding = self.finding(self.diagnose(program, "aligned"))
            for side, begins in ("freed", FREEING), ("allocated", ALLOCATING):
                self.check(finding[side], begins, "aligned_anew", "call_aligned", "main")

    def test_signals_meanwhile(self):
        finding = self.finding(self.diagnose(arguments.stacks[1], "interrupted"))
        self.check(finding["allocated"], ALLOCATING, "interrupted", "main")

    def test_damaged_stacks_end_early(self):
        for program in arguments.stacks:
            for mode in "without-frame", "moved-stack":
                with self.subTest(program=program, mode=mode):
                    finding = self.finding(self.diagnose(program, mode))
                    self.check(finding["freed"], [*FREEING, "cross_twice"])
                    self.check(finding["allocated"], [*ALLOCATING, "cross_twice"])

    def test_a_walk_goes_without_a_fault_where_the_program_has_a_handler(self):
        # Without sampling: with it, the program's handler is called by ours. The program with frame
        # pointers: without them, the register that is wrong is not used.
        run = self.diagnose(arguments.stacks[0], "left-by-jump", options=["--sample", "0"])
        finding = self.finding(run)
        self.check(finding["freed"], [*FREEING, "cross_twice", "without_frame"])
        self.check(finding["allocated"], [*ALLOCATING, "cross_twice", "without_frame"])

    def test_the_fault_of_a_walk_does_not_reach_a_handler_of_the_program(self):
        finding = self.finding(self.diagnose(arguments.stacks[0], "left-by-jump"))
        self.check(finding["freed"], [*FREEING, "cross_twice"])
        self.assertEqual(finding["freed"]["stack"][-1]["symbol"].split("::")[-1], "without_frame()")

    def test_a_walk_does_not_use_what_was_freed(self):
        """The walk of a fault's stack reads a freed block: that is no access of the program's."""
        run = self.diagnose(arguments.stacks[0], "freed-frame", options=["--sample", "1"])
        rules = {finding["rule"] for finding in run.report["findings"]}
        self.assertEqual(rules, {"malloc-delete"}, run.errors)

    def test_a_strict_run_keeps_the_stack(self):
        run = self.diagnose(arguments.stacks[0], "once", mode="strict")
        self.assertLess(run.status, 0)
        (finding,) = run.report["findings"]
        self.check(finding["freed"], FREEING, "main")


class EarlierReports(DiagnosisTest):
    """What is wrong with the path that --sites names costs one line at most."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = arguments.stacks[0]
        run = cls.diagnose(cls.program, "once")
        (cls.file,) = run.directory.glob("*.hfreport")

    def run_with(self, path):
        """The lines about the path. The command itself would refuse a missing one."""
        directory = Path(self.directories.new())
        done = subprocess.run(
            [arguments.homefree, "run", "--diagnose", "--report", directory, "--", "env",
             f"HOMEFREE_DIAGNOSE=mode:report,directory:{directory},sites:{path}",
             self.program, "fork"],
            capture_output=True,
            timeout=TIMEOUT,
        )  # fmt: skip
        errors = done.stderr.decode(errors="replace")
        self.assertEqual((done.returncode, done.stdout), (0, b"survived\n"), errors)
        return [line for line in errors.splitlines() if str(path) in line]

    def path(self, contents):
        path = Path(self.directories.new() + ".hfreport")
        path.write_bytes(contents)
        return path

    def test_what_is_no_report(self):
        empty = Path(self.directories.new())
        empty.mkdir()
        fifo = self.directories.new()
        os.mkfifo(fifo)
        whole = self.file.read_bytes()
        too_large = self.path(whole)
        os.truncate(too_large, 129 << 20)
        for path in (
            self.directories.new(),
            empty,
            fifo,
            "/dev/zero",
            self.path(b""),
            self.path(b"HFREPORT"),
            self.path(b"\x7fELF" + bytes(40000)),
            self.path(whole[:8] + struct.pack("=I", 2) + whole[12:]),
            too_large,
        ):
            with self.subTest(path=path):
                lines = self.run_with(path)
                self.assertEqual(len(lines), 1, lines)
                self.assertTrue(lines[0].startswith("homefree: "), lines)

    def test_children_do_not_repeat_the_line(self):
        path = self.path(b"nonsense")
        command = ["sh", "-c", '"$0" once; "$0" fork', self.program]
        run = self.diagnose(*command, options=["--sites", path])
        self.assertEqual(run.output, "survived\nsurvived\n")
        self.assertEqual(run.errors.count(str(path)), 1, run.errors)

    def test_damaged_reports(self):
        whole = self.file.read_bytes()
        chance = random.Random(11)
        damaged = [whole[:size] for size in (CHUNK, CHUNK + 5, 3 * CHUNK - 1)]
        for _ in range(40):
            bytes_ = bytearray(whole)
            for _ in range(chance.choice((1, 20, 2000))):
                at = chance.randrange(CHUNK, len(bytes_) - 8)
                if chance.random() < 0.5:  # near a chunk's beginning
                    at = at // CHUNK * CHUNK + chance.randrange(0, 64)
                bytes_[at : at + 4] = chance.choice(
                    (b"\xff\xff\xff\xff", b"\0\0\0\x80", chance.randbytes(4))
                )
            damaged.append(bytes(bytes_))
        for contents in damaged:
            self.assertEqual(self.run_with(self.path(contents)), [])

    def test_a_directory_with_other_things(self):
        directory = Path(self.directories.new())
        directory.mkdir()
        shutil.copy(self.file, directory / "1-0.hfreport")
        (directory / "2-0.hfreport").write_bytes(b"nonsense")
        (directory / "3-0.hfreport").mkdir()
        os.mkfifo(directory / "4-0.hfreport")
        (directory / "index").write_bytes(b"+")
        self.assertEqual(self.run_with(directory), [])
        run = self.diagnose(self.program, "once", options=["--sites", directory])
        self.assertNotEqual(run.report["findings"][0]["allocated"]["stack"], [])


if __name__ == "__main__":
    main(needs_names=True)
