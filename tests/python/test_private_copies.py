"""Private copies of modules made with pybind11. From version 3 on it keeps each module that it has
initialised, by name, and hands it out again: every copy was the first module, and so was a later
import.

usage: test_private_copies.py PACKAGE-DIRECTORY TOOLS [unittest's arguments]
"""

import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import unittest

sys.path.insert(0, sys.argv.pop(1))
import homefree  # noqa: E402

DIRECTORY = pathlib.Path(tempfile.mkdtemp(prefix="homefree-private-"))
INCLUDE = next(pathlib.Path(sys.argv.pop(1)).glob("lib/*/site-packages/pybind11/include"), None)
COMPILER = shutil.which("g++") or shutil.which("clang++")
if INCLUDE is None or COMPILER is None:
    print("pybind11 in the tools' environment, or a C++ compiler, is missing")
    sys.exit(77)


def build(name, types):
    path = DIRECTORY / (name + sysconfig.get_config_var("EXT_SUFFIX"))
    words = ["-std=c++17", "-O0", "-w", "-shared", "-fPIC", "-fvisibility=hidden"]
    words += [f"-I{INCLUDE}", "-I" + sysconfig.get_path("include"), f"-DNAME={name}"]
    source = pathlib.Path(__file__).with_name("private_copies.cc")
    subprocess.run([COMPILER, *words, f"-DTYPES={types}", source, "-o", path], check=True)
    return path


def setUpModule():
    unittest.addModuleCleanup(shutil.rmtree, DIRECTORY)
    unittest.addModuleCleanup(sys.path.remove, str(DIRECTORY))
    sys.path.insert(0, str(DIRECTORY))


class PrivateCopies(unittest.TestCase):
    def test_each_has_globals_of_its_own(self):
        path = build("own_types", ",py::module_local()")
        first, second = (homefree.load(path, private=True) for _ in range(2))
        self.assertIsNot(first, second)
        self.assertEqual([first.count(), first.count(), second.count()], [1, 2, 1])
        with self.assertRaises(second.Failure) as caught:
            first.call(second.fail)
        self.assertNotIsInstance(caught.exception, first.Failure)

        import own_types

        self.assertEqual(own_types.count(), 1)
        third = homefree.load(path, private=True)
        self.assertEqual([third.count(), own_types.count()], [1, 2])
        del sys.modules["own_types"]
        with homefree.import_hook(["own_types"], private=True):
            import own_types as hooked
        self.assertEqual([hooked.count(), third.count()], [1, 2])
        del sys.modules["own_types"]
        import own_types as again

        self.assertIs(again, own_types)

    def test_types_in_the_table_of_the_interpreter(self):
        path = build("shared_types", "")
        first = homefree.load(path, private=True)
        with self.assertRaisesRegex(ImportError, r"already registered.*py::module_local\(\)"):
            homefree.load(path, private=True)
        self.assertEqual([first.count(), first.count()], [1, 2])
        first.Thing()


if __name__ == "__main__":
    unittest.main()
