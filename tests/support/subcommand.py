"""What the tests of `homefree SUBCOMMAND` share: running it, and a test case with a directory."""

import os
import pty
import subprocess
import tempfile
import unittest
from pathlib import Path


class Subcommand:
    """Runs one subcommand of the command at a path; called like a function."""

    def __init__(self, homefree, name):
        self.homefree = homefree
        self.name = name

    def __call__(self, *arguments, **options):
        """The command must end by itself in time, not by a signal."""
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("timeout", 60)
        result = subprocess.run(
            [self.homefree, self.name, *arguments],
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            **options,
        )
        assert result.returncode in (0, 1, 2, 3), result
        return result

    def on_terminal(self, *arguments, **environment):
        """What the command prints where stdout and stderr are a terminal."""
        primary, secondary = pty.openpty()
        with subprocess.Popen(
            [self.homefree, self.name, *arguments],
            stdout=secondary,
            stderr=secondary,
            env={**os.environ, "TERM": "xterm", **environment},
        ) as process:
            os.close(secondary)
            output = b""
            while True:
                try:
                    part = os.read(primary, 65536)
                except OSError:  # the command has ended
                    break
                if not part:
                    break
                output += part
            process.wait(60)
        os.close(primary)
        return output.decode().replace("\r\n", "\n")


class SubcommandTest(unittest.TestCase):
    """Gives each test an empty directory. `command` is the Subcommand."""

    maxDiff = None
    command = None

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="homefree-test-")
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def assert_usage(self, *arguments, word):
        """Wrong usage: status 2, one line that contains the words (a pattern), no result."""
        done = self.command(*arguments)
        self.assertEqual(done.returncode, 2, done)
        self.assertEqual(done.stdout, b"")
        self.assertRegex(
            done.stderr.decode(), rf"\Ahomefree {self.command.name}: [^\n]*{word}[^\n]*\n\Z"
        )

    def assert_usual_refusals(self, missing, rules):
        """Wrong usage of the options that all have: no operand, and --rules with one."""
        self.assert_usage(word=missing)
        self.assert_usage("--json", word=missing)
        self.assert_usage("--jason", "x", word="'--jason'")
        self.assert_usage("-x", word="'-x'")
        self.assert_usage("--json=1", "x", word="'--json=1'")
        self.assert_usage("--rules", "x", word=rules)
        self.assert_usage("--rul\x1b[31m", word="--rul\\?")

    def assert_refused(self, path, word, *, start=""):
        """A file that cannot be read: status 3, one line that contains the word, no result."""
        done = self.command(path)
        self.assertEqual(done.returncode, 3, done)
        self.assertEqual(done.stdout, b"")
        line = done.stderr.decode(errors="replace")
        self.assertRegex(line, rf"\Ahomefree {self.command.name}: {start}[^\n]+\n\Z")
        self.assertIn(word, line)
