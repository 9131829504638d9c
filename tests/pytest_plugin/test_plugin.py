"""`pytest --homefree`: findings belong to tests; what a test kills is told; nothing else changes.

Usage: see running.py.
"""

import os
import re
import subprocess
import textwrap
import xml.etree.ElementTree

from running import TIMEOUT, PluginTest, arguments, main, needs_names_of_modules

CONFTEST = """
import ctypes, os, pytest

lib = ctypes.CDLL(os.environ["FAULTY"])

@pytest.fixture(autouse=True)
def faulty(doctest_namespace):
    doctest_namespace["lib"] = lib
    return lib

@pytest.fixture(scope="session")
def wide():
    lib.twice(1000)
    yield
    lib.inside(1000)

@pytest.fixture
def ends_badly():
    yield
    lib.inside(2000)
"""

TESTS = '''
import asyncio, ctypes, os, unittest
import pytest

lib = ctypes.CDLL(os.environ["FAULTY"])

def helper():
    """
    >>> _ = lib.twice(70)
    """

def test_nothing(): pass
def test_double(): lib.twice(10)
def test_mild(): lib.mild(10)
def test_ends_badly(ends_badly): pass

@pytest.mark.parametrize("size", [10, 20])
def test_sizes(size):
    if size == 20:
        lib.twice(size)

@pytest.mark.homefree(allow="double-free")
def test_allowed(): lib.twice(10)

@pytest.mark.homefree(allow=["no-gil", "* libfaulty.so:malloc:twice *"])
def test_allowed_by_place(): lib.twice(10)

@pytest.mark.homefree(allow="interior-free")
def test_allowed_something_else(): lib.twice(10)

@pytest.mark.xfail
def test_expected_to_fail():
    lib.twice(10)
    raise KeyError

def test_fails_anyway():
    lib.twice(10)
    raise KeyError

class TestCase(unittest.TestCase):
    def test_method(self):
        lib.twice(10)

@pytest.mark.asyncio
async def test_async():
    await asyncio.sleep(0)
    lib.twice(10)

def test_child():
    if os.fork() == 0:
        lib.inside(3000)
        os._exit(0)
    os.wait()

def test_wide(wide): pass
'''

DEADLY = """
import ctypes, os

lib = ctypes.CDLL(os.environ["FAULTY"])

def test_before(): lib.twice(10)
def test_deadly():
    lib.inside(10)
    {}
def test_after(): pass
"""


class Plugin(PluginTest):
    conftest = CONFTEST

    EXPECTED = {
        ("test_module.helper", "call", "double-free"): "fails",
        ("test_double", "call", "double-free"): "fails",
        ("test_mild", "call", "malloc-delete"): "listed",
        ("test_ends_badly", "teardown", "interior-free"): "fails",
        ("test_sizes[20]", "call", "double-free"): "fails",
        ("test_allowed", "call", "double-free"): "allowed",
        ("test_allowed_by_place", "call", "double-free"): "allowed",
        ("test_allowed_something_else", "call", "double-free"): "fails",
        ("test_expected_to_fail", "call", "double-free"): "fails",
        ("test_fails_anyway", "call", "double-free"): "fails",
        ("test_method", "call", "double-free"): "fails",
        ("test_async", "call", "double-free"): "fails",
        ("test_wide", "setup", "double-free"): "fails",
        ("test_wide", "teardown", "interior-free"): "fails",
        ("", "another process", "interior-free"): "fails",
    }

    def test_findings_belong_to_tests(self):
        self.write("test_module.py", TESTS)
        output = self.run_pytest(
            *("--homefree", "--doctest-modules", "--homefree-json", "found.json"),
            *("--junitxml", "junit.xml"),
            status=1,
        )
        self.assertEqual(self.findings(), self.EXPECTED)
        self.assertRegex(output, r"= homefree =+\n16 tests; \d+ blocks crossed between objects\n")
        self.assertIn("homefree: double-free in the call\n", output)
        ends_badly = "ERROR test_module.py::test_ends_badly"
        self.assert_summary(ends_badly, "homefree: interior-free in", output)
        self.assertRegex(output, r"allocated   twice in /.*libfaulty.so, .*, with malloc\n")
        self.assertIn("what to do: Let one side own the block", output)
        self.assertIn("E       KeyError", output)
        properties = {
            case.get("name"): [one.get("name") for one in case.iter("property")]
            for case in xml.etree.ElementTree.parse(self.directory / "junit.xml").iter("testcase")
        }
        self.assertEqual(properties["test_double"], ["homefree.fails"])
        self.assertEqual(properties["test_allowed"], ["homefree.allowed"])
        self.assertEqual(properties["test_ends_badly"], ["homefree.fails"])
        self.assertEqual(properties["test_nothing"], [])

    def test_workers(self):
        self.write("test_module.py", TESTS)
        self.write("test_deadly.py", DEADLY.format("os.abort()"))
        output = self.run_pytest(
            *("--homefree", "--doctest-modules", "--homefree-json", "found.json", "-n2"), status=1
        )
        found = self.findings()
        # The last test of that worker ends the fixture, whichever it is.
        expected = {
            k: self.EXPECTED[k] for k in self.EXPECTED if k[:2] != ("test_wide", "teardown")
        }
        self.assertEqual({key: found.get(key) for key in expected}, expected, output)
        self.assertEqual(found["test_before", "call", "double-free"], "fails")
        self.assertIn("crashed while running 'test_deadly.py::test_deadly'", output)
        (others,) = [
            one["count"] for one in self.read("found.json")["findings"] if one["test"] is None
        ]
        self.assertEqual(others, 2, "the forked child and the dead worker")

    def test_tests_that_kill_the_process(self):
        for end, status, how in (
            ("ctypes.string_at(8)", 139, "signal 11 (SIGSEGV) ended pytest in"),
            ("os._exit(0)", 1, "pytest ended with status 0 before its time, in"),
        ):
            self.write("test_deadly.py", DEADLY.format(end))
            output = self.run_pytest("--homefree", "--homefree-json", "found.json", status=status)
            self.assertIn(f"homefree: {how} test_deadly.py::test_deadly (call)", output)
            self.assertIn("found in it before that:\nerror: interior-free, once", output)
            self.assertIn("error: double-free in test_deadly.py::test_before\n", output)
            self.assertEqual(
                self.findings(),
                {
                    ("test_before", "call", "double-free"): "fails",
                    ("test_deadly", "call", "interior-free"): "fails",
                },
            )
            self.assertIn(how, self.read("found.json")["died"])

    def test_baseline(self):
        self.write("test_old.py", DEADLY.format("pass"))
        output = self.run_pytest("--homefree", "--homefree-baseline", "known.json", status=4)
        self.assertIn("write one with --homefree-write-baseline", output)
        self.run_pytest("--homefree", "--homefree-write-baseline", "known.json", status=0)
        known = self.read("known.json")
        self.assertEqual(known["homefree_baseline"], 1)
        self.assertEqual(
            [one["rule"] for one in known["findings"]], ["double-free", "interior-free"]
        )
        self.write("test_new.py", "def test_new(faulty): faulty.mild(10)\n")
        words = "--homefree=strict", "--homefree-baseline", "known.json"
        script = [str(arguments.environments / "pytest/bin/pytest")]
        output = self.run_pytest(*words, start=script, status=1)
        new = "FAILED test_new.py::test_new"
        self.assert_summary(new, "homefree: malloc-delete in the call", output)
        self.assertIn("3 passed", output)
        self.assertIn("double-free: once, known by the baseline\n", output)

    def test_outside_of_tests(self):
        self.write("conftest.py", CONFTEST + "\nlib.twice(500)\n")
        self.write("test_module.py", "def test(): pass\n")
        output = self.run_pytest("--homefree", "--homefree-report", "report", status=1)
        self.assertIn("double-free: once, fails\n  outside of tests\nerror: double-free", output)
        self.assertIn("1 passed", output)
        self.assertIn(f"`homefree report {self.directory}/report` shows more", output)
        self.assertTrue(list((self.directory / "report").glob("*.hfreport")))

    def test_frames_end_with_the_test(self):
        helper = "import pytest, unittest, conftest\ndef helper(): conftest.lib.twice(10)\n"
        for text, own in (
            (
                "def test_raises(): pytest.raises(KeyError, outer)\n"
                "def outer():\n    helper()\n    raise KeyError\n",
                "test_raises",
            ),
            (
                "@pytest.mark.parametrize('size', ['a::b'])\ndef test_sizes(size): helper()\n",
                "test_sizes",
            ),
            (
                "class TestCase(unittest.TestCase):\n    def test_method(self): helper()\n",
                "test_method",
            ),
            (
                "@pytest.fixture\ndef broken(): helper()\ndef test_fixture(broken): pass\n",
                "broken",
            ),
        ):
            self.write("test_deep.py", helper + text)
            output = self.run_pytest("--homefree", status=1)
            frames = re.findall(r"^ +from \S+:\d+ in (\S+)$", output, re.MULTILINE)
            self.assertEqual(frames[0], "helper", output)
            self.assertEqual(frames[-1].rpartition(".")[2], own, output)

    def test_after_the_session(self):
        self.write("conftest.py", CONFTEST + "\nimport atexit; atexit.register(lib.twice, 500)\n")
        self.write("test_module.py", "def test(): pass\n")
        output = self.run_pytest("--homefree", "--homefree-json", "found.json", status=1)
        self.assertIn("1 passed", output)
        self.assertIn("homefree: found after the session =", output)
        self.assertEqual(self.findings(), {("", "after the session", "double-free"): "fails"})

    def test_runs_without_it_are_as_before(self):
        self.write(
            "test_module.py", "import sys\ndef test(): assert 'homefree' not in sys.modules\n"
        )
        self.run_pytest(status=0)
        output = self.run_pytest("-p", "no:homefree", "--homefree", status=4)
        self.assertIn("unrecognized arguments: --homefree", output)
        output = self.run_pytest("--homefree-json", "found.json", status=4)
        self.assertIn("--homefree-json goes with --homefree", output)

    def test_pytest_inside_another_program(self):
        self.write("test_module.py", "def test(): pass\n")
        self.write(
            "program.py", "import pytest, sys\nsys.exit(pytest.main(['--homefree', '-q']))\n"
        )
        output = self.run_pytest(start=["program.py"], status=4)
        self.assertIn(
            "another program called pytest: start the program itself as `homefree run", output
        )
        done = subprocess.run(
            [arguments.homefree, "run", "--diagnose", "--quiet", "--report", "report", "--"]
            + [arguments.environments / "pytest/bin/python", "program.py"],
            cwd=self.directory,
            env={**os.environ, "PYTHONPATH": f"{arguments.package}:{self.directory}"}
            | {"FAULTY": str(arguments.library), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            timeout=TIMEOUT,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(b"nothing found in 1 test", done.stdout)

    def test_wrong_marks(self):
        self.write(
            "test_module.py",
            "import pytest\n@pytest.mark.homefree(permit='x')\ndef test(): pass\n",
        )
        self.assertIn(
            "the mark homefree takes allow='RULE'", self.run_pytest("--homefree", status=4)
        )

    def test_older_pytests(self):
        self.write("test_module.py", TESTS)
        for environment in "pytest-7", "pytest-8":
            if not (arguments.environments / environment / "ready").exists():
                continue
            with self.subTest(environment=environment):
                self.run_pytest(
                    *("--homefree", "--doctest-modules", "--homefree-json", "found.json"),
                    environment=environment,
                    status=1,
                )
                self.assertEqual(self.findings(), self.EXPECTED)


class ImportedEarlier(PluginTest):
    """pytest.main() in a process that has imported homefree: what pytest would rewrite for a plugin
    is there already, and it warns of that."""

    def test_warnings_that_are_errors(self):
        files = "homefree/__init__.py,,\npytest_homefree.py,,\n"
        self.write("homefree-1.0.0.dist-info/RECORD", files)
        self.write("pytest.ini", "[pytest]\naddopts = -p no:cacheprovider -p no:asyncio\n")
        self.write("test_one.py", "def test_one(): pass\n")
        code = """
            import sys
            import homefree, pytest_homefree
            import pytest
            for _ in range(2):
                status = pytest.main(["-W", "error", "test_one.py"])
            sys.exit(status)
            """
        for environment in "pytest", "pytest-8", "pytest-7":
            if not (arguments.environments / environment / "ready").exists():
                continue
            with self.subTest(environment=environment):
                start = "-c", textwrap.dedent(code)
                output = self.run_pytest(status=0, start=start, environment=environment)
                self.assertNotIn("rewritten", output)


if __name__ == "__main__":
    needs_names_of_modules()
    main()
