#!/usr/bin/env python3
"""Debuggers, profilers, coverage and faulthandler, of a process whose code runs in interpreters.

usage: debuggers.py [--build DIRECTORY] [unittest's arguments]

For each CPython from 3.12 on that has a GIL: gdb with CPython's commands (python-gdb.py, which
CPython installs beside itself), py-spy, coverage and faulthandler. py-spy and coverage come from
PyPI, into DIRECTORY/long/debuggers. What is missing is skipped. docs/interpreters.md says what each
of them shows.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from interpreters import number, with_gil  # noqa: E402

PARSER = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
PARSER.add_argument("--build", type=Path, default=ROOT / "build")
OPTIONS, REST = PARSER.parse_known_args()
BUILD = OPTIONS.build.resolve()
PYTHONS = [(path, text) for path, text in with_gil() if number(text) >= (3, 12)]

HEAD = """
import faulthandler, os, sys, tempfile
from homefree.interpreters import Executor

"""
WAITING = """
def innermost_of_task():
    os.write(1, b"x")
    os.read(0, 1)

def outer_of_task():
    innermost_of_task()

def run():
    with Executor(2) as executor:
        for future in [executor.submit(outer_of_task) for _ in range(2)]:
            future.result()
"""
MEASURED = """
def branches(which):
    if which:
        return 1
    return 0

def measure(which):
    import coverage
    measured = coverage.Coverage(data_file=None, config_file=False, include=[__file__])
    measured.start()
    branches(which)
    measured.stop()
    found, = measured.get_data().measured_files()
    return sorted(measured.get_data().lines(found))[:3]

def run():
    with Executor(2) as executor:
        one, other = executor.map(measure, (0, 1))
        first = branches.__code__.co_firstlineno
        assert [line - first for line in one][:2] == [1, 3], (first, one)
        assert [line - first for line in other][:2] == [1, 2], (first, other)
"""
DUMPED = """
def shown():
    with tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        return file.read().decode()

def refused():
    faulthandler.enable()  # it is enabled
    try:
        faulthandler.dump_traceback_later(1)
    except RuntimeError as error:
        return str(error)

def profiled():
    import cProfile, io, pstats
    profile, text = cProfile.Profile(), io.StringIO()
    profile.runcall(shown)
    pstats.Stats(profile, stream=text).print_stats()
    return text.getvalue()

def run():
    faulthandler.enable()
    with Executor(1) as executor:
        assert "in shown" in executor.submit(shown).result()
        assert "(shown)" in executor.submit(profiled).result()
        assert "in the main one" in executor.submit(refused).result()
"""
CRASHED = """
def crash():
    import ctypes
    ctypes.string_at(1)

def run():
    faulthandler.enable()
    with Executor(2, name_crashes=True) as executor:
        executor.submit(crash).result()
"""


def tool(python, text, name):
    """A directory with a distribution from PyPI for a CPython, or None."""
    directory = BUILD / "long/debuggers" / f"{name}-{text}"
    if not directory.exists():
        with tempfile.TemporaryDirectory() as environment:
            subprocess.run([python, "-m", "venv", environment], check=True)
            pip = [f"{environment}/bin/python", "-m", "pip", "install", "-q"]
            pip += ["--only-binary=:all:", "--target", directory, name]
            if subprocess.run(pip, check=False).returncode != 0:
                return None
    return directory


class Tools(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.program = Path(directory.name) / "program.py"

    def start(self, python, code, *more):
        self.program.write_text(f"{HEAD}{code}\nif __name__ == '__main__':\n    run()\n")
        path = os.pathsep.join(map(str, [*more, BUILD / "python"]))
        return subprocess.Popen(
            [python, "-s", self.program],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def every(self):
        """For each CPython, in a sub-test. A failure there does not end the test."""
        for python, text in PYTHONS:
            with self.subTest(python=text):
                yield python, text

    def waiting(self, python, command):
        """What a tool says of a process that has a task waiting in each of two interpreters."""
        with self.start(python, WAITING) as process:
            self.assertEqual(process.stdout.read(2), b"xx")
            done = subprocess.run(
                [word.format(pid=process.pid) for word in command],
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            process.communicate(b"xx", timeout=60)
            self.assertEqual(process.returncode, 0)
        return done.stdout + done.stderr

    def ends(self, python, code, *more):
        process = self.start(python, code, *more)
        output, said = process.communicate(timeout=120)
        return process.returncode, (output + said).decode()

    @unittest.skipUnless(shutil.which("gdb"), "no gdb")
    def test_gdb_shows_the_python_code_of_each(self):
        scripts = {
            python: next(python.parent.glob("python3*-gdb.py"), None) for python, _ in PYTHONS
        }
        if not any(scripts.values()):
            self.skipTest("no python-gdb.py beside any CPython")
        for python, _ in self.every():
            script = scripts[python]
            if script is None:
                continue
            said = self.waiting(
                python,
                ["gdb", "-p", "{pid}", "-batch", "-iex", "set auto-load off"]
                + ["-ex", f"source {script}", "-ex", "thread apply all py-bt"],
            )
            for one in 1, 2:
                thread = re.search(rf'\(LWP \d+\) "interpreter {one}"\):\n(.*?)\n\n', said, re.S)
                self.assertIsNotNone(thread, said)
                self.assertRegex(thread[1], r"(?s)in innermost_of_task.*in outer_of_task")
                self.assertRegex(said, rf'"owner of {one}"')

    def test_py_spy_shows_the_newest(self):
        """It reads the first interpreter of CPython's list."""
        for python, text in self.every():
            directory = tool(python, text, "py-spy")
            if directory is None:
                self.skipTest("no py-spy")
            said = self.waiting(python, [f"{directory}/bin/py-spy", "dump", "--pid", "{pid}"])
            if "Permission" in said:
                self.skipTest(said)
            self.assertEqual(said.count("innermost_of_task (program.py"), 1, said)
            self.assertIn("outer_of_task (program.py", said)

    def test_coverage_in_each(self):
        for python, text in self.every():
            directory = tool(python, text, "coverage")
            if directory is None:
                self.skipTest("no coverage")
            self.assertEqual(self.ends(python, MEASURED, directory), (0, ""))

    def test_faulthandler_and_cprofile_in_each(self):
        for python, _ in self.every():
            self.assertEqual(self.ends(python, DUMPED), (0, ""))

    def test_faulthandler_of_a_crash(self):
        for python, _ in self.every():
            status, said = self.ends(python, CRASHED)
            self.assertEqual(status, -11, said)
            self.assertRegex(said, r"(?s)Current thread .*in crash\n.*in interpreter [12] ")


if __name__ == "__main__":
    if not PYTHONS:
        print("no CPython from 3.12 on; tests/support/debian-cpython.sh builds one")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *REST])
