"""`homefree run --explain` and homefree.explain_crashes(): a crash is explained by the process that
crashes, whatever has become of its heap and its stack; then it takes its course. Programs that do
not crash, or catch it, notice nothing.

Usage: test_explain.py HOMEFREE LIBHOMEFREE PACKAGE [unittest arguments]. PACKAGE: the directory
with the package homefree, or "" where there is none. The compiler is $CC, or cc."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import cores

HOMEFREE, LIBRARY = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
package = sys.argv.pop(1)
PACKAGE = package and os.path.abspath(package)
PYTHON = """
import faulthandler, homefree, sys
faulthandler.enable()
homefree.explain_crashes()
homefree.explain_crashes()
sys.argv[1:] = ["use-after-free", sys.argv[1]]
exec(open(sys.argv[1 + 1].replace(".so", ".py")).read())
"""


class Explain(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            ctypes.CDLL("libdw.so.1")
        except OSError:
            raise unittest.SkipTest("no libdw.so.1") from None
        cls.directory = tempfile.mkdtemp(prefix="homefree-test-explain-")
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.crashes = cores.Crashes(cls.directory, LIBRARY)
        cls.program = os.path.join(cls.directory, "explained")
        source = os.path.join(os.path.dirname(cores.SOURCE), "explained.c")
        subprocess.run([*cores.CC, "-pthread", "-o", cls.program, source], check=True, timeout=60)

    def run_in(self, *command, **environment):
        done = subprocess.run(
            [str(word) for word in command],
            cwd=self.directory,
            env={**os.environ, "DEBUGINFOD_URLS": "", **environment},
            capture_output=True,
            text=True,
            timeout=100,
        )
        return done.returncode, done.stdout, done.stderr

    def explained(self, case, by, *said):
        status, out, err = self.run_in(
            HOMEFREE, "run", "--explain", "--", self.crashes.program, case
        )
        self.assertEqual((status, out), (-by, ""), err)
        for each in said:
            self.assertIn(each, err)
        return err

    def test_names_pointer_owner_and_who_freed_it(self):
        err = self.explained(
            "interior",
            signal.SIGABRT,
            "said: munmap_chunk(): invalid pointer",
            "Freed by:  crashes, in drop, with free of libc",
            "core-interior-free  16 bytes into a block of libc",
        )
        self.assertIn(f"Pointer:   {err.split()[0]}", err)

    def test_needs_neither_heap_nor_stack(self):
        self.explained(
            "damaged-heap", signal.SIGSEGV, "was ended by SIGSEGV at 0x0", "main in crashes"
        )
        self.explained("overflow", signal.SIGSEGV, "deeper in crashes", "core-crash")

    def test_explains_a_thread_that_outlives_the_main_one(self):
        words = HOMEFREE, "run", "--explain", "--", self.program, "main-ended"
        status, _, err = self.run_in(*words)
        self.assertEqual(status, -signal.SIGSEGV)
        self.assertIn("crash_after in explained", err)
        self.assertIn(", of 2:", err)

    def test_leaves_alone_who_does_not_crash(self):
        words = [HOMEFREE, "run", "--explain", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]
        self.assertEqual(self.run_in(*words), (7, "out\n", "err\n"))
        status, out, err = self.run_in(HOMEFREE, "run", "--explain", "--diagnose", "--", "true")
        self.assertEqual((status, out), (2, ""))
        self.assertIn("--explain goes with no other option", err)

    def left_alone(self, case, by, command="echo explained >&2", **options):
        """What a program of explained.c says on stderr, explained by a shell's command."""
        script = os.path.join(self.directory, "command")
        with open(script, "w") as file:
            file.write(f"#!/bin/sh\n{command}\n")
        os.chmod(script, 0o755)
        preload = os.path.join(os.path.dirname(LIBRARY), "libhomefree-explain.so")
        done = subprocess.run(
            [self.program, case],
            cwd=self.directory,
            env={**os.environ, "LD_PRELOAD": preload, "HOMEFREE_EXPLAIN": script},
            capture_output=True,
            text=True,
            timeout=30,
            **options,
        )
        self.assertEqual((done.returncode, done.stdout), (by, ""), case)
        return done.stderr

    def test_handlers_of_the_program_are_as_without(self):
        self.assertEqual(self.left_alone("handlers", -signal.SIGABRT), "explained\n")

    def test_ignored_signals_stay_so(self):
        def ignore():
            signal.signal(signal.SIGABRT, signal.SIG_IGN)

        self.assertEqual(self.left_alone("ignored", 5, preexec_fn=ignore), "")

    def test_the_program_has_no_child_and_its_signals_are_not_the_commands(self):
        self.assertEqual(self.left_alone("child", -signal.SIGSEGV), "explained\n")
        said = self.left_alone("no-child", -signal.SIGSEGV, "grep SigIgn /proc/$$/status >&2")
        self.assertEqual(int(said.split()[1], 16), 0)

    def test_says_nothing_on_stdout(self):
        self.left_alone("closed", -signal.SIGSEGV, "echo stdout")

    def test_needs_little_of_a_signal_stack(self):
        """It has room for two frames of the kernel's, and not much more."""
        self.assertEqual(self.left_alone("small-stack", -signal.SIGABRT), "explained\n")

    def test_the_crash_ends_the_process(self):
        """Whatever other threads, and children, do until it is explained."""
        slowly = "echo explained >&2; exec sleep 0.2"
        self.left_alone("others-end", -signal.SIGSEGV, slowly)
        self.left_alone("memory-appears", -signal.SIGSEGV, slowly)
        once = "mkdir once && echo explained >&2 && exec sleep 60"
        self.left_alone("fork", signal.SIGSEGV, once)

    @unittest.skipUnless(PACKAGE, "the package homefree is not built")
    def test_in_python_before_faulthandler(self):
        status, _, err = self.run_in(
            *(sys.executable, "-c", PYTHON, self.crashes.module), PYTHONPATH=PACKAGE
        )
        self.assertEqual(status, -signal.SIGSEGV, err)
        explanation, _, traceback = err.partition("Fatal Python error: Segmentation fault")
        self.assertIn("core-use-after-free", explanation)
        self.assertIn(f"Pointer:   {err.split()[0]}", explanation)
        self.assertIn("File ", traceback)


if __name__ == "__main__":
    unittest.main()
