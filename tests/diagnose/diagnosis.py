"""Runs programs under `homefree run --diagnose` and reads what they recorded."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from glibc import needs_names_of_modules  # noqa: E402, F401

TIMEOUT = 120

# What a program of tests is given: it adds the options of its own, and main() fills in the values.
parser = argparse.ArgumentParser()
parser.add_argument("--homefree", required=True, type=os.path.abspath)
arguments = argparse.Namespace()


class Diagnosis:
    """A run: its exit status, its standard streams, and the report as a document."""

    def __init__(self, homefree, command, *, mode="report", directory, options=(), **more):
        self.directory = Path(directory)
        done = subprocess.run(
            [
                homefree,
                "run",
                f"--diagnose={mode}",
                "--report",
                str(directory),
                *options,
                "--",
                *command,
            ],
            capture_output=True,
            timeout=TIMEOUT,
            **more,
        )
        self.status = done.returncode
        self.output = done.stdout.decode(errors="replace")
        self.errors = done.stderr.decode(errors="replace")
        self.homefree = homefree

    def text(self, *options):
        """What `homefree report` prints."""
        done = subprocess.run(
            [self.homefree, "report", *options, str(self.directory)],
            capture_output=True,
            timeout=TIMEOUT,
        )
        assert done.returncode in (0, 1), done.stderr.decode(errors="replace")
        return done.stdout.decode(errors="replace")

    @property
    def report(self):
        return json.loads(self.text("--json"))

    def summary(self):
        """The lines that the diagnosed processes printed."""
        return [line for line in self.errors.splitlines() if line.startswith("homefree: diagnosis")]


class Directories:
    """A fresh directory for each report, all removed in the end."""

    def __init__(self):
        self._all = tempfile.TemporaryDirectory(prefix="homefree-test-diagnose-")
        self._count = 0

    def new(self):
        self._count += 1
        return os.path.join(self._all.name, str(self._count))

    def remove(self):
        self._all.cleanup()


class DiagnosisTest(unittest.TestCase):
    """Runs programs in diagnostics mode, and gives a class of tests its directories."""

    @classmethod
    def setUpClass(cls):
        cls.directories = Directories()
        cls.addClassCleanup(cls.directories.remove)

    @classmethod
    def diagnose(cls, *command, directory=None, **more):
        """The report goes to a new directory, or to this one."""
        return Diagnosis(
            arguments.homefree, command, directory=directory or cls.directories.new(), **more
        )


def main(*, needs_names=False):
    """Runs the program's tests. needs_names: they are skipped where stacks have no names of
    modules."""
    if needs_names:
        needs_names_of_modules()
    _, rest = parser.parse_known_args(namespace=arguments)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
