"""A module built against an installed homefree, by each build system, exports its PyInit_ function
and nothing else, links what it calls, and its memory is the heap's.

usage: test_installed.py BUILD-FOLDER SOURCE-FOLDER

Installs into a temporary prefix, writes one small module, and builds it by a shell command line, by
CMake, by Meson against the installation, and by Meson with homefree as a subproject.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

BUILD = SOURCE = PREFIX = pathlib.Path()
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable

MODULE = r"""
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <homefree/homefree.h>
#include <homefree/python.h>
#include <stdlib.h>
#include <string.h>

int helper_that_must_stay_inside(void);
int helper_that_must_stay_inside(void)
{
    return 1;
}

static PyObject *check(PyObject *self, PyObject *args)
{
    char *copy = strdup("memory of the module");
    int owned = hf_owns(copy) && helper_that_must_stay_inside();
    PyObject *capsule = hf_capsule_new(copy, "copy", free);
    if (capsule == NULL)
        return NULL;
    Py_DECREF(capsule);
    return PyBool_FromLong(owned);
}

static PyMethodDef methods[] = {{"check", check, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "greet", NULL, -1, methods};

PyMODINIT_FUNC PyInit_greet(void)
{
    return PyModule_Create(&module);
}
"""

CMAKE = """
cmake_minimum_required(VERSION 3.15)
project(greet C)
find_package(homefree REQUIRED)
add_library(greet MODULE greet.c)
set_target_properties(greet PROPERTIES PREFIX "")
target_include_directories(greet PRIVATE {include})
target_link_libraries(greet PRIVATE homefree::module)
homefree_exports(greet)
"""

MESON = """
project('greet', 'c')
homefree = dependency('homefree')
program = find_program('homefree', dirs: homefree.get_variable('bindir'))
script = custom_target(
  output: 'greet.map',
  command: [program, 'exports', '--module', 'greet', '-o', '@OUTPUT@'],
)
shared_module(
  'greet',
  'greet.c',
  name_prefix: '',
  include_directories: include_directories('{include}'),
  dependencies: homefree,
  link_args: '-Wl,--version-script=' + script.full_path(),
  link_depends: script,
)
"""


def run(*command, cwd=None, **environment):
    result = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    if result.returncode != 0:
        raise AssertionError(f"{command}\n{result.stdout}\n{result.stderr}")
    return result.stdout


def python_include():
    return run(PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('include'))").strip()


class Installed(unittest.TestCase):
    def setUp(self):
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="homefree-installed-"))
        self.addCleanup(shutil.rmtree, self.work)
        (self.work / "greet.c").write_text(MODULE)
        self.libdir = next(PREFIX.rglob("homefree.pc")).parents[1]
        self.pkgconfig = {"PKG_CONFIG_PATH": str(self.libdir / "pkgconfig")}

    def write(self, name, text):
        (self.work / name).write_text(textwrap.dedent(text).replace("{include}", python_include()))

    def assert_module_is_right(self, module):
        symbols = run("nm", "-D", "--defined-only", module).split("\n")
        names = [line.split()[-1] for line in symbols if line.split()]
        self.assertEqual(names, ["PyInit_greet"])
        dynamic = run("readelf", "-d", module)
        needed = sorted(line.split("[")[1][:-1] for line in dynamic.split("\n") if "NEEDED" in line)
        self.assertEqual(needed, ["libc.so.6", "libhomefree.so.1"])
        answer = run(
            PYTHON,
            "-c",
            "import greet; print(greet.check())",
            PYTHONPATH=str(module.parent),
            LD_LIBRARY_PATH=str(self.libdir),
        )
        self.assertEqual(answer, "True\n")

    def test_shell(self):
        self.write(
            "build.sh",
            """
            set -e
            $(pkg-config --variable=exports homefree) --module greet -o greet.map
            cc -shared -fPIC -I{include} -o greet.so greet.c \
                $(pkg-config --cflags --libs homefree) -Wl,--version-script=greet.map
            """,
        )
        run("sh", "build.sh", cwd=self.work, **self.pkgconfig)
        self.assert_module_is_right(self.work / "greet.so")

    def test_cmake(self):
        if shutil.which("cmake") is None:
            self.skipTest("cmake is not installed")
        self.write("CMakeLists.txt", CMAKE)
        run("cmake", "-S", self.work, "-B", self.work / "b", f"-DCMAKE_PREFIX_PATH={PREFIX}")
        run("cmake", "--build", self.work / "b")
        self.assert_module_is_right(self.work / "b/greet.so")

    def test_cmake_gives_the_source_the_name_of_the_module(self):
        if shutil.which("cmake") is None:
            self.skipTest("cmake is not installed")
        source = self.work / "greet.c"
        source.write_text(source.read_text().replace("PyInit_greet", "HF_MODULE_INIT"))
        renamed = CMAKE.replace("(greet ", "(target ").replace("(greet)", "(target)")
        self.write("CMakeLists.txt", renamed.replace('PREFIX ""', 'PREFIX "" OUTPUT_NAME greet'))
        found = f"-Dhomefree_DIR={self.libdir / 'cmake/homefree'}"
        run("cmake", "-S", self.work, "-B", self.work / "b", found)
        run("cmake", "--build", self.work / "b")
        self.assert_module_is_right(self.work / "b/greet.so")

    def test_cmake_takes_a_prefix_for_a_part_of_the_name(self):
        if shutil.which("cmake") is None:
            self.skipTest("cmake is not installed")
        renamed = CMAKE.replace("(greet ", "(eet ").replace("(greet)", "(eet)")
        self.write("CMakeLists.txt", renamed.replace('PREFIX ""', 'PREFIX "gr"'))
        found = f"-Dhomefree_DIR={self.libdir / 'cmake/homefree'}"
        run("cmake", "-S", self.work, "-B", self.work / "b", found)
        run("cmake", "--build", self.work / "b")
        self.assert_module_is_right(self.work / "b/greet.so")

    def test_meson_installed(self):
        self.write("meson.build", MESON)
        run("meson", "setup", self.work / "b", self.work, **self.pkgconfig)
        run("ninja", "-C", self.work / "b")
        self.assert_module_is_right(self.work / "b/greet.so")

    def test_meson_subproject(self):
        self.write("meson.build", MESON)
        inside = self.work / "subprojects"
        inside.mkdir()
        shutil.copytree(
            SOURCE,
            inside / "homefree",
            ignore=shutil.ignore_patterns("build*", ".git", "__pycache__"),
        )
        # Built already: this test is about the dependency, not about jemalloc.
        prebuilt = inside / "homefree/prebuilt/alloc"
        prebuilt.mkdir(parents=True)
        shutil.copy2(BUILD / "alloc/libhf_jemalloc.a", prebuilt)
        shutil.copytree(SOURCE / "subprojects/jemalloc-5.3.0", inside / "jemalloc-5.3.0")
        self.write("subprojects/jemalloc.wrap", "[wrap-file]\ndirectory = jemalloc-5.3.0\n")
        run(
            "meson",
            "setup",
            self.work / "b",
            self.work,
            "--force-fallback-for=homefree",
            "-Dhomefree:tests=false",
            "-Dhomefree:examples=false",
            "-Dhomefree:jemalloc_build=prebuilt",
        )
        run("ninja", "-C", self.work / "b", "greet.so")
        self.libdir = self.work / "b/subprojects/homefree/loader"
        self.assert_module_is_right(self.work / "b/greet.so")


if __name__ == "__main__":
    BUILD, SOURCE = (pathlib.Path(argument) for argument in sys.argv[1:3])
    with tempfile.TemporaryDirectory(prefix="homefree-prefix-") as folder:
        PREFIX = pathlib.Path(folder)
        # Relocated, as a package that is unpacked elsewhere would be.
        run("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", PREFIX / "d")
        staged = PREFIX / "d" / pathlib.Path("usr/local")
        for file in staged.rglob("homefree.pc"):
            file.write_text(file.read_text().replace("prefix=/usr/local", f"prefix={staged}"))
        PREFIX = staged
        unittest.main(argv=sys.argv[:1], verbosity=2)
