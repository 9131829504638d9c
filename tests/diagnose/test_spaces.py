"""Memory of a space may be freed by any function; what others got from CUDA may not, and is named.

Usage: test_spaces.py --homefree COMMAND --spaces PROGRAM --double DIRECTORY [unittest arguments]
"""

import os

from diagnosis import DiagnosisTest, arguments, main, parser

parser.add_argument("--spaces", required=True)
parser.add_argument("--double", required=True)


class Spaces(DiagnosisTest):
    def diagnose(self, what):
        environment = {**os.environ, "LD_LIBRARY_PATH": arguments.double}
        run = super().diagnose(arguments.spaces, what, env=environment)
        self.assertEqual(run.status, 0, run.errors)
        return run.report["findings"]

    def test_a_space_is_no_finding(self):
        self.assertEqual(self.diagnose("space"), [])

    def test_memory_of_others_is_one(self):
        findings = sorted(self.diagnose("others"), key=lambda one: one["bytes"])
        self.assertEqual([one["rule"] for one in findings], ["foreign-free"] * 2)
        self.assertEqual([one["bytes"] for one in findings], [100000, 200000])
        self.assertEqual(
            [one["allocated"]["allocator"] for one in findings],
            ["CUDA, page-locked memory", "CUDA, memory of a device"],
        )
        for one in findings:
            self.assertEqual(os.path.basename(one["allocated"]["object"]), "spaces")
            self.assertEqual(one["allocated"]["symbol"], "free_others")
            self.assertEqual(one["freed"]["function"], "free")


if __name__ == "__main__":
    main()
