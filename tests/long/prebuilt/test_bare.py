"""homefree's wheel from a file, in a root that has Python and no compiler.

usage: test_bare.py WHEEL [unittest's arguments]
"""

import ctypes
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
BIN = pathlib.Path(sys.executable).parent
WHEEL = ""
GLIBC = tuple(int(n) for n in platform.libc_ver()[1].split("."))
ABORTS = (-signal.SIGABRT, -signal.SIGSEGV)

INSTALL = "import homefree; homefree.install()\n"
HIDDEN = """
import ctypes, _duckdb
duck = ctypes.CDLL(_duckdb.__file__)
duck.duckdb_je_malloc.restype = ctypes.c_void_p
block = duck.duckdb_je_malloc(ctypes.c_size_t(100))
ctypes.CDLL(None).free(ctypes.c_void_p(block))
print("still here")
"""


def run(*words):
    return subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=120, check=False
    )


def python(code):
    return run(sys.executable, "-c", code)


class Bare(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)

    def assertRan(self, result, output=None):
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
        if output is not None:
            self.assertEqual(result.stdout.strip(), output)

    def test_there_is_no_compiler(self):
        self.assertFalse([tool for tool in ("cc", "gcc", "g++", "clang") if shutil.which(tool)])

    def test_five_lines_crash_without(self):
        result = run(sys.executable, HERE / "five.py")
        self.assertIn(result.returncode, ABORTS)
        self.assertNotIn("still here", result.stdout)

    def test_five_lines_run_with(self):
        self.assertRan(python(INSTALL + (HERE / "five.py").read_text()), "still here")

    def test_five_lines_are_diagnosed(self):
        report = self.directory / "report"
        result = run(
            BIN / "homefree",
            *("run", "--diagnose", "--report", report, "--"),
            *(sys.executable, HERE / "five.py"),
        )
        self.assertRan(result, "still here")
        told = run(BIN / "homefree", "report", "--json", report)
        self.assertIn("domain-mismatch", told.stdout)
        if GLIBC >= (2, 35):  # stacks
            self.assertIn("five.py", told.stdout)
        json.loads(told.stdout)

    @unittest.skipIf(GLIBC < (2, 35), "foreign allocators are asked from glibc 2.35 on")
    def test_a_hidden_allocator_crashes_without_and_runs_with(self):
        if not hasattr(ctypes.CDLL(__import__("_duckdb").__file__), "duckdb_je_malloc"):
            self.skipTest("this duckdb exports no allocator")
        self.assertIn(python(HIDDEN).returncode, ABORTS)
        self.assertRan(python("import homefree\n" + HIDDEN), "still here")
        (self.directory / "hidden.py").write_text(HIDDEN)
        result = run(BIN / "homefree", "run", "--", sys.executable, self.directory / "hidden.py")
        self.assertRan(result, "still here")

    def test_install_takes_python_and_numpy(self):
        code = """
            import homefree
            print(homefree.install())
            import numpy
            array = numpy.ones(100_000)
            print(homefree.owner_of(array.ctypes.data).kind)
            print(homefree.owner_of(bytes(100_000)).kind)
            print(homefree.owner_of(bytes(10)).kind)
        """
        result = python("\n".join(line.strip() for line in code.split("\n")))
        self.assertRan(
            result, "homefree.Installed(python='arena', numpy='later')\nheap\nheap\npymalloc"
        )

    def test_threads_forks_and_all_of_python_on_the_heap(self):
        code = """
import homefree, os, threading
homefree.install(python="full")
import numpy

def work():
    for i in range(200):
        kept = [bytes(j) for j in range(600)] + [numpy.zeros(i * 100)]

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
child = os.fork()
if child == 0:
    work()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
for thread in threads:
    thread.join()
print(homefree.owner_of(bytes(10)).kind)
"""
        self.assertRan(python(code), "heap")

    def test_inspect_finds_nothing_wrong_with_the_wheel(self):
        result = run(BIN / "homefree", "inspect", "--fail-on", "error", WHEEL)
        self.assertRan(result)

    def test_inspect_sees_a_hidden_allocator(self):
        result = run(BIN / "homefree", "inspect", __import__("_duckdb").__file__)
        self.assertIn("jemalloc", result.stdout)

    def test_doctor_names_the_heap(self):
        result = run(BIN / "homefree", "doctor", "--", sys.executable, "-c", "import numpy")
        self.assertIn("the heap", result.stdout, result.stderr)

    def test_no_route_was_left_for_an_unknown_reason(self):
        result = python(INSTALL + "import numpy; print(homefree.route_report())")
        self.assertRan(result)

    def test_nothing_else_is_needed(self):
        self.assertRan(python("import homefree.check, homefree.extension"))

    def test_without_cuda_its_package_says_so(self):
        code = "import homefree.cuda as cuda; print(cuda.available())"
        self.assertRan(python(code), "False")
        result = python("import homefree.cuda as cuda; cuda.empty_pinned(100)")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr.splitlines()[-1], "Unavailable: .*libcudart")

    def test_what_torch_loads_finds_its_libraries(self):
        code = """
import ctypes, homefree, os
library = ctypes.CDLL(os.path.join(os.path.dirname(homefree.__file__), "_torch_allocator.so"))
print(all(hasattr(library, "hf_torch_" + name) for name in ("alloc", "free", "empty_cache")))
"""
        self.assertRan(python(code), "True")

    def test_without_a_compiler_extension_load_says_so(self):
        (self.directory / "word.c").write_text("int word;\n")
        result = python(
            "from homefree import extension\n"
            f"extension.load('word', [{str(self.directory / 'word.c')!r}])\n"
        )
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr.splitlines()[-1], "compiler")


if __name__ == "__main__":
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    WHEEL = sys.argv.pop(1)
    unittest.main()
