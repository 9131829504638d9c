"""`homefree help`, and the words in place of a command.

Usage: test_help.py HOMEFREE [unittest arguments]
"""

import re
import subprocess
import sys
import unittest

HOMEFREE = sys.argv.pop(1)


def run(*arguments):
    done = subprocess.run([HOMEFREE, *arguments], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


class Help(unittest.TestCase):
    def test_all_ways_to_ask(self):
        everything = run()
        self.assertEqual((everything[0], everything[2]), (0, ""))
        for arguments in ["help"], ["--help"], ["-h"], ["help", "help"], ["help", "--help"]:
            self.assertEqual(run(*arguments), everything, arguments)

    def test_of_a_command(self):
        for command in re.findall(r"^  ([a-z]+) ", run()[1].split("Commands:")[1], re.MULTILINE):
            expected = run(command, "--help")
            self.assertEqual(expected[0], 0)
            self.assertEqual(run("help", command), expected)
            self.assertEqual(run("--help", command), expected)

    def test_unknown_words(self):
        """What is suggested is another word than the one that was written."""
        for wrong, near in ("inspct", "inspect"), ("--halp", "--help"), ("hepl", "help"):
            for arguments in [wrong], ["help", wrong]:
                status, output, errors = run(*arguments)
                self.assertEqual((status, output), (2, ""))
                self.assertIn(f"'{wrong}' (did you mean '{near}'?)", errors)
        for wrong in "", "-", "a\nb\x1b[31m", "x" * 100000, "%s%n":
            status, output, errors = run("help", wrong)
            self.assertEqual((status, output, errors.count("\n")), (2, "", 1))
            self.assertNotRegex(errors, "did you mean|\x1b")


if __name__ == "__main__":
    unittest.main()
