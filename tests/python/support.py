"""For the tests of the package: code that runs in a process of its own, and what became of it."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

# Begins every piece of code: blocks of the three domains, and libc's functions called with the GIL
# (held) and without it (bare).
PRELUDE = """
import ctypes, os, sys, threading
import homefree
from homefree import owner_of
python = ctypes.pythonapi
size_t, pointer = ctypes.c_size_t, ctypes.c_void_p
def function(library, name, result, *arguments):
    found = library[name]
    found.restype, found.argtypes = result, arguments
    return found
raw_malloc = function(python, "PyMem_RawMalloc", pointer, size_t)
raw_realloc = function(python, "PyMem_RawRealloc", pointer, pointer, size_t)
raw_free = function(python, "PyMem_RawFree", None, pointer)
mem_malloc = function(python, "PyMem_Malloc", pointer, size_t)
mem_realloc = function(python, "PyMem_Realloc", pointer, pointer, size_t)
mem_free = function(python, "PyMem_Free", None, pointer)
object_malloc = function(python, "PyObject_Malloc", pointer, size_t)
object_free = function(python, "PyObject_Free", None, pointer)
held, bare = ctypes.PyDLL(None), ctypes.CDLL(None)
free = function(held, "free", None, pointer)
realloc = function(held, "realloc", pointer, pointer, size_t)
usable = function(held, "malloc_usable_size", size_t, pointer)
free_bare = function(bare, "free", None, pointer)
realloc_bare = function(bare, "realloc", pointer, pointer, size_t)
kind = lambda address: owner_of(address).kind
def churn(count=20000):
    return sum(len([str(i), (i,), {i: i}, bytearray(700)]) for i in range(count))
"""
THREADS = pathlib.Path(__file__).resolve().parent.parent / "support/threads.py"
PRELUDE += THREADS.read_text(encoding="utf-8")


# Of a process; tests/long/thread_sanitizer.py gives it more.
SECONDS = int(os.environ.get("HOMEFREE_TEST_SECONDS_EACH", 120))

# There is no pymalloc, and objects are CPython's own in every mode.
FREE_THREADED = "t" in getattr(sys, "abiflags", "")
MODES = ("arena",) if FREE_THREADED else ("arena", "full")
without_gil = unittest.skipIf(FREE_THREADED, "this CPython is free-threaded")


def renamed_runtime(double, directory):
    """A copy of the double of CUDA's runtime under another name, so that torch, which needs all of
    the real runtime, has that beside it; for HOMEFREE_CONF=cuda:PATH."""
    real, other = b"libcudart.so.13", b"libcudarx.so.13"
    code = (pathlib.Path(double) / real.decode()).read_bytes().replace(real, other)
    path = pathlib.Path(directory) / other.decode()
    path.write_bytes(code)
    return str(path)


class Outcome:
    def __init__(self, done):
        self.status = done.returncode
        self.out = done.stdout
        self.err = done.stderr


class TestCase(unittest.TestCase):
    maxDiff = None
    under = ()  # words in front of the interpreter

    def start(self, code, *flags, prelude=PRELUDE, end="", **environment):
        text = prelude + textwrap.dedent(code) + "\n" + end
        done = subprocess.run(
            [*self.under, sys.executable, "-s", *flags, "-c", text],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return Outcome(done)

    def fine(self, code, *flags, prelude=PRELUDE, **environment):
        """The code's asserts hold, it prints nothing on stderr, and its process ends normally."""
        outcome = self.start(code, *flags, prelude=prelude, end="print('done')", **environment)
        # CPython 3.12 and later warn about fork() in a process with threads; the decimal module
        # of 3.9 warns in its second interpreter.
        said = [
            line
            for line in outcome.err.splitlines()
            if line and "fork()" not in line and "mpd_setminalloc" not in line
        ]
        self.assertEqual((outcome.status, outcome.out, said), (0, "done\n", []), outcome.err)

    def dies(self, code, *texts, flags=(), prelude=PRELUDE, **environment):
        """The code ends its process by SIGABRT, with one line that contains all of the texts."""
        outcome = self.start(code, *flags, prelude=prelude, **environment)
        self.assertEqual(outcome.status, -signal.SIGABRT, (outcome.out, outcome.err))
        lines = outcome.err.splitlines()
        self.assertEqual(len(lines), 1, outcome.err)
        for text in ("homefree: fatal: ", *texts):
            self.assertIn(text, lines[0])


class ProgramTest(unittest.TestCase):
    """For programs in files of their own, whose functions interpreters import. head: what each
    begins with; definitions: a module beside it, of which it has all names."""

    maxDiff = None
    head = definitions = ""
    seconds = 120

    def outcome(self, code, *flags, **environment):
        body = textwrap.indent(code.strip("\n"), "    ")
        program = f"{self.head}\nfrom definitions import *\ndef main():\n{body}\n"
        program += "if __name__ == '__main__':\n    main()\n"
        return self.outcome_of(program, *flags, **environment)

    def outcome_of(self, program, *flags, **environment):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "program.py"
            path.write_text(program)
            path.with_name("definitions.py").write_text(self.definitions)
            return subprocess.run(
                [sys.executable, "-s", *flags, path],
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=self.seconds,
                check=False,
            )

    def fine(self, code, *flags, **environment):
        """The program ends well and prints nothing on stderr. Returns what it printed."""
        return self.good(self.outcome(code, *flags, **environment))

    def good(self, done):
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout


def main():
    unittest.main(verbosity=0)
