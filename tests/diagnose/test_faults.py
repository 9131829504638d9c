"""Each fault that a program can commit with its own blocks is found, with both sides and the
functions that were called, and the program survives; in strict mode it ends with one line.

Usage: test_faults.py --homefree COMMAND --faults PROGRAM… [unittest arguments]
"""

import os
import signal

from diagnosis import DiagnosisTest, arguments, main, parser

parser.add_argument("--faults", required=True, nargs="+", type=os.path.abspath)

NEW = "operator new(unsigned long)"
# fault: (rule, severity, allocating function and symbol, freeing function and symbol)
FAULTS = {
    "new-free": ("new-free", "warning", NEW, "take_new", "free", "give_free"),
    "free-by-address": ("new-free", "warning", NEW, "take_new", "free", "free_by_address"),
    "new-realloc": ("new-free", "warning", NEW, "take_new", "realloc", "give_realloc"),
    "malloc-delete": (
        "malloc-delete", "warning", "malloc", "take_malloc",
        "operator delete(void*)", "give_delete",
    ),
    "array-new-delete": (
        "array-new-delete", "warning", "operator new[](unsigned long)", "take_array",
        "operator delete(void*)", "give_delete",
    ),
    "new-delete-array": (
        "array-new-delete", "warning", NEW, "take_new",
        "operator delete[](void*)", "give_delete_array",
    ),
    "aligned-delete": (
        "aligned-delete", "warning",
        "operator new(unsigned long, std::align_val_t)", "take_aligned",
        "operator delete(void*)", "give_delete",
    ),
    "sized-delete": (
        "sized-delete", "error", NEW, "take_new",
        "operator delete(void*, unsigned long)", "give_delete_sized",
    ),
    "double-free": (
        "double-free", "error", "malloc", "take_malloc", "operator delete(void*)", "give_delete",
    ),
    "overrun": ("overrun", "error", None, None, "free", "give_free"),
    "overrun-by-one": ("overrun", "error", "malloc", "take_malloc", "free", "give_free"),
    "interior-free": ("interior-free", "error", "malloc", "take_malloc", "free", "give_free"),
    "stack-free": ("stack-free", "error", None, None, "free", "give_free"),
    "static-free": ("static-free", "error", None, None, "free", "give_free"),
    "unmapped-free": ("unmapped-free", "error", None, None, "free", "give_free"),
}  # fmt: skip
# The requested size, where it is known.
SIZES = {"double-free": 0, "overrun": 0, "overrun-by-one": 24, "interior-free": 24, "new-free": 40}


class Faults(DiagnosisTest):
    def check_side(self, side, function, symbol):
        self.assertEqual(side["function"], function)
        if symbol is not None:
            self.assertIn(symbol, side["symbol"])

    def test_each_fault_is_found_and_survived(self):
        for program in arguments.faults:
            for fault, (rule, severity, allocating, taker, freeing, giver) in FAULTS.items():
                with self.subTest(program=program, fault=fault):
                    run = self.diagnose(program, fault)
                    self.assertEqual((run.status, run.output), (0, "survived\n"), run.errors)
                    (finding,) = run.report["findings"]
                    self.assertEqual((finding["rule"], finding["severity"]), (rule, severity))
                    self.assertEqual(finding["count"], 1)
                    self.assertEqual(finding["bytes"], SIZES.get(fault, finding["bytes"]))
                    self.check_side(finding["allocated"], allocating, taker)
                    self.check_side(finding["freed"], freeing, giver)
                    self.assertEqual(len(run.summary()), 1, run.errors)
                    self.assertIn(f"1 {severity}", run.summary()[0])

    def test_a_correct_program_has_no_finding(self):
        for program in arguments.faults:
            run = self.diagnose(program, "none")
            self.assertEqual((run.status, run.output), (0, "survived\n"), run.errors)
            self.assertEqual(run.report["findings"], [])
            self.assertIn("nothing wrong", run.summary()[0])
            pairs = {(pair["allocated_by"], pair["freed_by"]) for pair in run.report["matrix"]}
            self.assertIn((program, program), pairs)

    def test_strict_mode_ends_the_program_with_a_line(self):
        for fault, (rule, _, _, _, _, _) in FAULTS.items():
            with self.subTest(fault=fault):
                run = self.diagnose(arguments.faults[0], fault, mode="strict")
                self.assertEqual((run.status, run.output), (-signal.SIGABRT, ""), run.errors)
                fatal = [line for line in run.errors.splitlines() if "fatal: " in line]
                self.assertEqual(len(fatal), 1, run.errors)
                self.assertIn(f"fatal: {rule} of 0x", fatal[0])
                self.assertEqual([f["rule"] for f in run.report["findings"]], [rule])

    def test_count_mode_counts_and_finds_nothing(self):
        run = self.diagnose(arguments.faults[0], "new-free", mode="count")
        self.assertEqual(run.output, "survived\n")
        self.assertEqual(run.report["findings"], [])
        self.assertIn("counted ", run.summary()[0])

    def test_suppressed_findings_are_counted_with_their_reason(self):
        path = self.directories.new()
        with open(path, "w", encoding="utf-8") as file:
            file.write("# known\nnew-free * */faults-* # the program does so on purpose\n")
        for mode in ("report", "strict"):
            run = self.diagnose(
                arguments.faults[0], "new-free", mode=mode, options=["--suppressions", path]
            )
            self.assertEqual((run.status, run.output), (0, "survived\n"), run.errors)
            self.assertEqual(run.report["findings"], [])
            (entry,) = run.report["suppressed"]
            self.assertEqual(entry["pattern"], "new-free * */faults-*")
            self.assertEqual(entry["why"], "the program does so on purpose")
            self.assertEqual(entry["count"], 1)

    def test_a_wrong_suppressions_file_costs_one_line(self):
        path = self.directories.new()
        with open(path, "w", encoding="utf-8") as file:
            file.write("new-free * * # fine\nnonsense\n")
        run = self.diagnose(arguments.faults[0], "none", options=["--suppressions", path])
        self.assertEqual((run.status, run.output), (0, "survived\n"))
        self.assertIn(f"{path}:2", run.errors)


if __name__ == "__main__":
    main(needs_names=True)
