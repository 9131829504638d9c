"""homefree/check.h, as a user's suite: what each failing assertion says, in Check's fork mode and
without, from C and from C++.

Usage: test_check.py MODULE PROGRAM…
"""

import os
import re
import subprocess
import sys
import unittest

MODULE, *PROGRAMS = sys.argv[1:]

# The text that Check's line for each failing test must contain; all other tests pass.
FAILS = {
    "owner_fails": r"&here \(0x[0-9a-f]+, HF_OWNER_STACK\) does not belong to HF_OWNER_HEAP$",
    "no_crossing_fails": (
        r"memory crossed a boundary, expected none: "
        r"(1 \(10 bytes\) allocated by \S*/failing\w*, freed by \S*/module_first\S*\.so"
        r"(; )?|1 \(100 bytes\) allocated by \S*/module_first\S*\.so, freed by \S*/failing\w*"
        r"(; )?){2}$"
    ),
    "crossed_fails": (
        r"nothing that failing allocated was freed by module; what crossed: "
        r"1 \(10 bytes\) allocated by \S*/module_first\S*\.so, freed by \S*/failing\w*$"
    ),
    "freed_once_fails_when_it_stays": (
        r"block \(0x[0-9a-f]+, HF_OWNER_HEAP, homefree in \S*libhomefree\S*, 16 bytes\) "
        r"was not freed, expected once$"
    ),
    "freed_once_fails_when_there_is_no_block": (
        r"block \(0x[0-9a-f]+, HF_OWNER_HEAP, homefree in \S*libhomefree\S*\)"
        r": no live block begins there$"
    ),
}


class Suites(unittest.TestCase):
    def test_messages(self):
        for program in PROGRAMS:
            for fork in ("yes", "no"):
                with self.subTest(program=program, fork=fork):
                    self.check(program, fork)

    def check(self, program, fork):
        done = subprocess.run(
            [program, MODULE],
            env={**os.environ, "CK_FORK": fork, "CK_VERBOSITY": "verbose"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.assertEqual((done.returncode, done.stderr), (1, ""), done.stdout)
        lines = re.findall(r"^\S+failing\.c:\d+:([PFE]):failing:(\w+):0: (.*)$", done.stdout, re.M)
        self.assertEqual(len(lines), 10, done.stdout)
        for result, test, message in lines:
            wanted = FAILS.get(test)
            if wanted is None:
                self.assertEqual((result, message), ("P", "Passed"), test)
            else:
                self.assertEqual(result, "F", test)
                self.assertRegex(message, wanted)


unittest.main(argv=sys.argv[:1], verbosity=2)
