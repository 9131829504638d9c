"""What diagnostics mode knows of a block is exact, also where a thread cannot remember it.

Usage: test_marks.py --homefree COMMAND --program FILE --plugins FILE... [unittest arguments]
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from diagnosis import DiagnosisTest, arguments, main, parser  # noqa: E402

parser.add_argument("--program", required=True)
parser.add_argument("--plugins", nargs="+", required=True)


class Marks(DiagnosisTest):
    def run_case(self, name, *more, mode="report", **variables):
        run = self.diagnose(
            arguments.program,
            name,
            *more,
            mode=mode,
            options=["--sample", "0"],  # guarded samples have no footers
            env={**os.environ, **variables},
        )
        self.assertEqual(run.status, 0, run.errors)
        return int(run.output), run.report

    def blocks(self, report, allocated, freed):
        """Blocks that one object allocated and another freed, by their names."""
        return sum(
            row["blocks"]
            for row in report["matrix"]
            if Path(row["allocated_by"] or "").name == Path(allocated).name
            and Path(row["freed_by"] or "").name == Path(freed).name
        )

    def only(self, report, rule):
        (finding,) = report["findings"]
        self.assertEqual(finding["rule"], rule)
        return finding

    def test_more_places_than_a_thread_remembers(self):
        for mode in ("count", "report"):
            count, report = self.run_case("many-places", mode=mode)
            self.assertEqual(self.blocks(report, arguments.program, arguments.program), count)
            self.assertEqual(report["findings"], [])

    def test_each_thread_counts(self):
        count, report = self.run_case("many-threads")
        self.assertEqual(self.blocks(report, arguments.program, arguments.program), count)

    def test_objects_at_the_same_addresses(self):
        count, report = self.run_case("other-objects", *arguments.plugins)
        counted = [self.blocks(report, plugin, arguments.program) for plugin in arguments.plugins]
        self.assertEqual(counted, [count // len(arguments.plugins)] * len(arguments.plugins))

    def test_site_that_another_thread_remembers_becomes_deep(self):
        finding = self.only(self.run_case("deepened")[1], "malloc-delete")
        self.assertEqual(finding["count"], 2)
        symbols = [frame["symbol"] for frame in finding["allocated"]["stack"]]
        self.assertEqual(symbols[:2], ["allocate_there", "allocate_twice"])

    def test_stack_of_a_block_that_seldom_crosses(self):
        findings = self.run_case("seldom")[1]["findings"]
        self.assertEqual(sorted(finding["count"] for finding in findings), [1, 2])
        (seldom,) = [finding for finding in findings if finding["count"] == 2]
        self.assertEqual(seldom["allocated"]["stack"][0]["symbol"], "allocate_there")

    def test_freed_again_at_the_address_before_realloc(self):
        finding = self.only(self.run_case("moved")[1], "double-free")
        self.assertEqual(finding["first_freed"]["function"], "realloc")
        self.assertEqual(finding["allocated"]["function"], "malloc")

    def test_every_size(self):
        self.assertEqual(self.run_case("all-sizes")[1]["findings"], [])

    def test_checks_of_the_plain_heap(self):
        """They would put bytes of their own where the footers are."""
        report = self.run_case("all-sizes", HOMEFREE_CONF="checks:full")[1]
        self.assertEqual(report["findings"], [])

    def test_first_byte_behind_a_block(self):
        """Where it is the footer's own, nobody knows any more who allocated the block."""
        count, report = self.run_case("first-bytes-behind")
        findings = report["findings"]
        self.assertEqual({finding["rule"] for finding in findings}, {"overrun"})
        self.assertEqual(
            {finding["allocated"]["function"] for finding in findings}, {None, "malloc"}
        )
        self.assertEqual(sum(finding["count"] for finding in findings), count)
        self.assertGreater(count, 50)


if __name__ == "__main__":
    main(needs_names=True)
