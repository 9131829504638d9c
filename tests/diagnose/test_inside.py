"""An address inside of a block is reported, also where no memory follows the block.

Usage: test_inside.py --homefree COMMAND --inside PROGRAM [unittest arguments]
"""

import argparse
import sys
import unittest

from diagnosis import Diagnosis, DiagnosisTest

parser = argparse.ArgumentParser()
parser.add_argument("--homefree", required=True)
parser.add_argument("--inside", required=True)


class Inside(DiagnosisTest):
    def test_every_one_is_found(self):
        run = Diagnosis(arguments.homefree, [arguments.inside], directory=self.directories.new())
        self.assertEqual(run.status, 0, run.errors)
        findings = run.report["findings"]
        self.assertEqual({one["rule"] for one in findings}, {"interior-free"})
        self.assertEqual(sum(one["count"] for one in findings), int(run.output))


if __name__ == "__main__":
    arguments, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
