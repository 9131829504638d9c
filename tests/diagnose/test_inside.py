"""An address inside of a block is reported, also where no memory follows the block.

Usage: test_inside.py --homefree COMMAND --inside PROGRAM [unittest arguments]
"""

from diagnosis import DiagnosisTest, arguments, main, parser

parser.add_argument("--inside", required=True)


class Inside(DiagnosisTest):
    def test_every_one_is_found(self):
        run = self.diagnose(arguments.inside)
        self.assertEqual(run.status, 0, run.errors)
        findings = run.report["findings"]
        self.assertEqual({one["rule"] for one in findings}, {"interior-free"})
        self.assertEqual(sum(one["count"] for one in findings), int(run.output))


if __name__ == "__main__":
    main()
