"""Blocks of other allocators: those that were sent home appear among the pairs of objects, and
those whose owner was unloaded are kept, with a finding that names the object.

Usage: test_owners.py --homefree COMMAND --owners PROGRAM --plugin FILE [unittest arguments]
"""

import ctypes.util
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from diagnosis import DiagnosisTest, arguments, main, parser  # noqa: E402

parser.add_argument("--owners", required=True, type=os.path.abspath)
parser.add_argument("--plugin", required=True, type=os.path.abspath)


class Owners(DiagnosisTest):
    def diagnose(self, *command, **more):
        return super().diagnose(arguments.owners, *command, **more)

    def test_blocks_that_are_sent_home_are_counted(self):
        library = ctypes.util.find_library("mimalloc")
        if library is None:
            self.skipTest("libmimalloc is not installed")
        for mode, findings in (("report", ["foreign-free"]), ("count", [])):
            run = self.diagnose("home", library, "50", mode=mode)
            self.assertEqual((run.status, run.output), (0, "ended\n"), run.errors)
            self.assertEqual([f["rule"] for f in run.report["findings"]], findings)
            pairs = [p for p in run.report["matrix"] if library in p["allocated_by"]]
            self.assertEqual(
                [(p["freed_by"], p["blocks"]) for p in pairs], [(arguments.owners, 50)]
            )
            self.assertGreaterEqual(pairs[0]["bytes"], 50 * 1000)

    def test_block_of_an_unloaded_allocator_is_kept(self):
        run = self.diagnose("unloaded", arguments.plugin)
        self.assertEqual((run.status, run.output), (0, "ended\n"), run.errors)
        (finding,) = run.report["findings"]
        self.assertEqual((finding["rule"], finding["severity"]), ("owner-unloaded", "error"))
        self.assertEqual(finding["count"], 2)
        self.assertEqual(finding["allocated"]["allocator"], "mimalloc")
        self.assertEqual(finding["allocated"]["allocator_object"], arguments.plugin)
        self.assertEqual(finding["freed"]["symbol"], "give")

    def test_strict_mode_names_the_object(self):
        run = self.diagnose("unloaded", arguments.plugin, mode="strict")
        self.assertEqual(run.status, -signal.SIGABRT, run.errors)
        (line,) = [line for line in run.errors.splitlines() if "fatal: " in line]
        self.assertIn("fatal: owner-unloaded of 0x", line)
        self.assertIn(f"it belongs to mimalloc in {arguments.plugin}", line)


if __name__ == "__main__":
    main(needs_names=True)
