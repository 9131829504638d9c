"""Extension modules in interpreters with a GIL of their own: which are loaded by Python, which as
private copies; NumPy's arrays of each interpreter are the heap's; many interpreters at a time, and
their ends. The long version, with more libraries, is tests/long/interpreter_modules.

usage: test_interpreter_modules.py MODULES-DIRECTORY OWN-MODULES-DIRECTORY [--wheels DIRECTORY]
           [unittest's arguments]
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpys

GUEST = str(pathlib.Path(__file__).resolve().parent / "guest.py")
MODULES = pathlib.Path(sys.argv.pop(1)).resolve()
OWN_MODULES = pathlib.Path(sys.argv.pop(1)).resolve()
NUMPYS = numpys.take()

NUMPY = """
import numpy as np
array = np.arange(100000.0) + 1
assert array.sum() == 5000050000.0 and homefree.install().numpy == "installed"
assert where(array.ctypes.data) == "heap"
assert np.linalg.inv(np.eye(3) * 2)[0, 0] == 0.5
assert str(np.datetime64("2020-01-01").astype(object)) == "2020-01-01"
"""


@unittest.skipIf(sys.version_info < (3, 12), "before 3.12, all interpreters share one GIL")
class Modules(unittest.TestCase):
    def start(self, code, threads=1, rounds=1, site=None):
        path = [str(site)] if site else []
        return subprocess.run(
            [sys.executable, "-s", GUEST, str(threads), str(rounds), code],
            env={**os.environ, "PYTHONPATH": ":".join([*path, os.environ["PYTHONPATH"]])},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def fine(self, code, **options):
        done = self.start(code, **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def test_who_is_private(self):
        """Multi-phase modules that say so are Python's; silent and single-phase ones are private,
        with globals that are fresh in each interpreter, and leave no file behind."""
        with tempfile.TemporaryDirectory() as directory:
            for name in ("single", "single_sized", "multi", "multi_silent"):
                shutil.copy(MODULES / f"{name}.so", directory)
            loaded = self.fine(
                """
import single, single_sized, multi, multi_silent
for module in (single, single_sized, multi_silent):
    assert (module.count(), module.count()) == (1, 2), module
    assert module.__file__ == module.__spec__.origin and "homefree-" not in module.__file__
""",
                threads=3,
                rounds=2,
                site=directory,
            )
            self.assertEqual(
                {name: loaded[name] for name in ("single", "single_sized", "multi")},
                {"single": "private", "single_sized": "private", "multi": "native"},
            )
            self.assertEqual(loaded["multi_silent"], "private")
            self.assertEqual([n for n in os.listdir(directory) if n[0] == "."], [])

    def test_libraries_that_call_python(self):
        """Modules of one interpreter share such a library; those of another have another copy."""
        code = """
import user_a, user_b
list_ = user_a.next()
assert user_b.next() is list_ and list_ == [None, None], list_
"""
        with tempfile.TemporaryDirectory() as directory:
            for name in ("user_a", "user_b", "libhomefree-test-holder"):
                shutil.copy(OWN_MODULES / f"{name}.so", directory)
            loaded = self.fine(code, threads=3, rounds=2, site=directory)
            self.assertEqual((loaded["user_a"], loaded["user_b"]), ("private", "private"))
            self.fine(
                code + "import os\nleft = [name for name in os.listdir(sys.path[1])]\n"
                "assert sorted(left) == ['libhomefree-test-holder.so', 'user_a.so', 'user_b.so'], "
                "left\n",
                site=directory,
            )

    def test_borrowed_tables(self):
        """A module that takes tables from capsules is not believed to support interpreters."""
        code = """
import ctypes, borrower
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
capsule = new(id(borrower), None, None)
assert borrower.next(capsule) == id(borrower)
"""
        self.assertEqual(self.fine(code, rounds=3, site=OWN_MODULES)["borrower"], "private")

    def test_datetime(self):
        """CPython 3.12 and 3.13 share the static types of _datetime: without private copies,
        this aborts (python/cpython#119450, #136421)."""
        loaded = self.fine(
            "import datetime, zoneinfo, _datetime\n"
            "assert datetime.datetime(2020, 1, 31) + datetime.timedelta(1) == "
            "datetime.datetime(2020, 2, 1)\n",
            threads=6,
            rounds=2,
        )
        if "_datetime" not in sys.builtin_module_names:
            self.assertEqual(loaded["_datetime"], "private")

    def test_interpreters_that_end_first(self):
        """Before 3.12.4, CPython frees at its end what ended interpreters have allocated for
        keyword arguments (python/cpython#119213)."""
        self.fine("import hashlib\nhashlib.blake2b(b'', digest_size=8)\n", rounds=2)

    def test_errors(self):
        """What a module's code raises arrives; a file that is none is an ImportError."""
        with tempfile.TemporaryDirectory() as directory:
            shutil.copy(MODULES / "failing.so", directory)
            suffix = "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))"
            suffix = subprocess.check_output([sys.executable, "-c", suffix], text=True).strip()
            pathlib.Path(directory, "broken" + suffix).write_bytes(b"\x7fELF and no more")
            done = self.start("import failing", site=directory)
            self.assertEqual(done.returncode, 1)
            self.assertIn("the module says no", done.stderr)
            done = self.start("import broken", site=directory)
            self.assertEqual(done.returncode, 1)
            self.assertIn("homefree cannot make a private copy", done.stderr)
            self.assertEqual([n for n in os.listdir(directory) if n[0] == "."], [])

    def test_what_only_the_main_interpreter_has_says_so(self):
        """At import, before any code of the module runs, or where its own code fails."""
        with tempfile.TemporaryDirectory() as directory:
            shutil.copy(MODULES / "failing.so", directory)
            for name in "numba/single", "grpc/_cython/cygrpc":
                file = pathlib.Path(directory, name + ".so")
                file.parent.mkdir(parents=True)
                shutil.copy(MODULES / "single.so", file)
            self.fine(
                """
import warnings
try:
    import numba.single
except ImportError as error:
    assert "LLVM" in str(error) and "ProcessPoolExecutor" in str(error), error
    assert error.name == "numba.single" and error.path.endswith("numba/single.so"), vars(error)
else:
    raise AssertionError("not refused")
try:
    import failing
except ValueError as error:
    note, = error.__notes__
    assert "private copy of failing" in note and "ProcessPoolExecutor" in note, note
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    try:
        import grpc._cython.cygrpc
    except ImportError:  # this one has no such function
        pass
assert ["blocking calls" in str(one.message) for one in said] == [True], said
""",
                site=directory,
            )

    def test_built_in_modules_of_the_process(self):
        """They are imported, and what would change the whole process says so."""
        self.fine(
            """
import faulthandler, tempfile, tracemalloc, traceback
with tempfile.TemporaryFile() as file:
    faulthandler.dump_traceback(file)
    file.seek(0)
    assert file.read().startswith(b"Current thread")
assert not faulthandler.is_enabled()
for function in faulthandler.enable, lambda: faulthandler.dump_traceback_later(9):
    try:
        function()
    except RuntimeError as error:
        assert "call it in the main one" in str(error), error
    else:
        raise AssertionError("it had an effect")
""",
            threads=2,
            rounds=2,
        )

    @unittest.skipUnless(NUMPYS, "no NumPy for this CPython")
    def test_numpy(self):
        for threads in (1, 3):
            loaded = self.fine(NUMPY, threads=threads, rounds=2, site=NUMPYS[0].parent)
            core = [how for name, how in loaded.items() if name.endswith("._multiarray_umath")]
            self.assertEqual(core, ["private"])

    @unittest.skipUnless(NUMPYS, "no NumPy for this CPython")
    def test_numpy_of_all(self):
        """The main interpreter's NumPy and others at the same time, each with its own handler."""
        code = f"""
import sys, runpy, homefree, numpy
homefree.install()
kept = [numpy.arange(n) for n in range(1000)]
sys.argv = [{GUEST!r}, "2", "2", {NUMPY!r}]
try:
    runpy.run_path({GUEST!r}, run_name="__main__")
except SystemExit as end:
    assert end.code == 0, end.code
assert homefree.owner_of(numpy.arange(1000).ctypes.data).kind == "heap"
homefree.uninstall()
more = [numpy.arange(n) for n in range(1000)]
del kept, more
"""
        done = subprocess.run(
            [sys.executable, "-s", "-c", code],
            env={
                **os.environ,
                "PYTHONPATH": f"{NUMPYS[0].parent}:{os.environ['PYTHONPATH']}",
            },
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main(verbosity=0)
