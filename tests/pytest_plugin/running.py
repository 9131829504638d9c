"""Runs pytest in directories of its own, for the tests of the plugin. Every file of tests has the
same arguments:

    TEST.py --homefree COMMAND --library FILE --leaky FILE --package DIRECTORY --environments
    DIRECTORY
            [unittest arguments]

It runs the pytests of DIRECTORY/pytest, DIRECTORY/pytest-8 and DIRECTORY/pytest-7, which
homefree_pytest (tests/support/prepare.sh) makes. Without them the test is skipped.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from glibc import needs_names_of_modules  # noqa: E402, F401

TIMEOUT = 120

parser = argparse.ArgumentParser()
parser.add_argument("--homefree", required=True, type=os.path.abspath)
parser.add_argument("--library", required=True, type=os.path.abspath)
parser.add_argument("--leaky", required=True, type=os.path.abspath)
parser.add_argument("--package", required=True, type=os.path.abspath)
parser.add_argument("--environments", required=True, type=Path)
arguments, rest = parser.parse_known_args()


def _version():
    code = "import pytest; print(pytest.__version__.partition('.')[0])"
    python = arguments.environments / "pytest/bin/python"
    done = subprocess.run([python, "-c", code], stdout=subprocess.PIPE, check=True)
    return int(done.stdout)


VERSION = _version() if (arguments.environments / "pytest/ready").exists() else None


def main():
    if not (arguments.environments / "pytest/ready").exists():
        print("no environment with pytest; tests/run makes it")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *rest])


class Run:
    def __init__(
        self, directory, *words, environment="pytest", start=("-m", "pytest"), **variables
    ):
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "PYTEST_", "MALLOC_", "LD_", "HOMEFREE_"))
        }
        done = subprocess.run(
            [arguments.environments / environment / "bin/python", *start, *words],
            cwd=directory,
            env={
                **kept,
                "PYTHONPATH": f"{arguments.package}:{directory}",
                "PYTHONDONTWRITEBYTECODE": "1",
                "FAULTY": str(arguments.library),
                "LEAKY": str(arguments.leaky),
                "TMPDIR": str(directory / "tmp"),
                "COLUMNS": "150",
                **variables,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT,
        )
        self.status = done.returncode
        self.output = done.stdout.decode(errors="replace")


class PluginTest(unittest.TestCase):
    conftest = ""

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="homefree-test-pytest-")
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        (self.directory / "tmp").mkdir()
        self.write(
            "pytest.ini",
            "[pytest]\naddopts = -p no:cacheprovider -p no:faulthandler\n"
            "asyncio_default_fixture_loop_scope = function\n",
        )
        self.write("conftest.py", self.conftest)
        # What an installed wheel tells pytest.
        self.write(
            "homefree-1.0.0.dist-info/entry_points.txt", "[pytest11]\nhomefree = pytest_homefree\n"
        )
        self.write("homefree-1.0.0.dist-info/METADATA", "Name: homefree\nVersion: 1.0.0\n")

    def write(self, name, text):
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")

    def run_pytest(self, *words, status, **more):
        run = Run(self.directory, *words, **more)
        self.assertEqual(run.status, status, run.output)
        self.assertEqual(list((self.directory / "tmp").glob("homefree*")), [], "files are left")
        return run.output

    def assert_summary(self, test, reason, output):
        """A line of the short summary; its reason is shown by pytest 9 and later."""
        self.assertIn(f"{test} - {reason}" if VERSION >= 9 else f"{test}\n", output)

    def read(self, name):
        return json.loads((self.directory / name).read_text(encoding="utf-8"))

    def findings(self, name="found.json"):
        """{(test, phase, rule): verdict}"""
        found = self.read(name)["findings"]
        return {
            ((one["test"] or "").rpartition("::")[2], one["phase"], one["rule"]): one["verdict"]
            for one in found
        }
