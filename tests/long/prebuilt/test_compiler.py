"""Modules that this machine's compilers build against homefree's wheel. Run in an environment that
has the wheel, setuptools, pybind11 and pytest."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples"
GREETING = "import greet; print(greet.greet('you'))"


class Compiler(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)

    def example(self, name):
        return pathlib.Path(shutil.copytree(EXAMPLES / name, self.directory / name))

    def run_in(self, directory, *words, **variables):
        result = subprocess.run(
            [str(word) for word in words],
            cwd=directory,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def pip(self, directory, **variables):
        # Without isolation: the wheel is a file, and on no index.
        options = ["--disable-pip-version-check", "--no-deps", "--no-build-isolation"]
        place = directory / "installed"
        self.run_in(
            directory,
            sys.executable,
            "-m",
            "pip",
            "install",
            *options,
            "-t",
            place,
            ".",
            **variables,
        )
        return place

    def test_setup_py(self):
        directory = self.example("minimal")
        place = self.pip(directory)
        # The directory is on no list of sites: homefree is imported first, as the README says.
        code = f"import sys; sys.path.insert(0, {str(place)!r}); import homefree; {GREETING}"
        self.assertEqual(self.run_in("/", sys.executable, "-c", code), "Hello, you!\n")
        module = next(place.glob("greet*.so"))
        told = self.run_in("/", "homefree", "inspect", "--require-homefree", module)
        self.assertIn("homefree", told)

    def test_the_example_s_own_tests(self):
        directory = self.example("minimal")
        place = self.pip(directory)
        self.run_in(
            directory,
            *(sys.executable, "-c", "import homefree, pytest, sys; sys.exit(pytest.main(['-q']))"),
            PYTHONPATH=str(place),
        )

    def test_the_shell(self):
        for compiler in ("c++ -flto", "clang++"):
            with self.subTest(compiler):
                self.shell(compiler)

    def shell(self, compiler):
        directory = self.example("minimal")
        script = f"""
            set -e
            export PKG_CONFIG_PATH="$(python3 -c 'import homefree
print(homefree.get_pkgconfig_dir())')"
            {compiler} -O2 -fPIC -shared -DHOMEFREE_MODULE_NAME=greet \
                $(python3 -m pybind11 --includes) greet.cc -o greet.so \
                $(pkg-config --cflags --libs homefree-module)
            python3 -c "import homefree; {GREETING}"
        """
        self.assertEqual(self.run_in(directory, "sh", "-c", script), "Hello, you!\n")
        shutil.rmtree(directory)

    def test_load(self):
        directory = self.example("jit_cached")
        code = "import words; print(words.sort('b a'))"
        variables = {"HOMEFREE_BUILD_DIR": str(self.directory / "cache")}
        self.run_in(directory, sys.executable, "-c", code, **variables)
        self.run_in(directory, sys.executable, "pool.py", **variables)
