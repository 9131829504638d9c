"""homefree's wheel: what is in it, in each CPython, and modules that are built against it.

usage: test_wheel.py BUILD-DIRECTORY SOURCE-DIRECTORY [--in PYTHON TOOLS WHEEL]
                     [unittest's arguments]

--in: builds with another CPython than the system's, for which TOOLS is an environment with
setuptools and pip; WHEEL is a file.
"""

import base64
import email
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / room) for room in ("support", "installed")]
import installation  # noqa: E402
from installation import run  # noqa: E402
from interpreters import number, with_gil  # noqa: E402

BUILD = SOURCE = WHEEL = TOOLS = pathlib.Path()
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
GREET = TESTS / "installed/greet.c"

PACKAGE = """
    lib/libhomefree.so.1 lib/libhomefree.so lib/libhomefree_shim.a lib/libhomefree-preload.so
    lib/libhomefree-diagnose.so lib/libhomefree-adopt.so lib/libhomefree-interpreters.so
    lib/libhomefree-background.so lib/libhomefree-cuda.so
    lib/libhomefree-explain.so lib/libhomefree-limits.so lib/libhomefree-profile.so
    lib/pkgconfig/homefree.pc lib/pkgconfig/homefree-module.pc lib/homefree/module.map
    lib/homefree/module.rpath lib/cmake/homefree/homefree-config.cmake
    bin/homefree missing/libhomefree.so.1 __init__.py setuptools.py check.py py.typed
    cuda/__init__.py cuda/numba_plugin.py _torch_allocator.so
    interpreters/__init__.py interpreters/_inside.py
    pytest/__init__.py pytest/_findings.py pytest/_phases.py pytest/_reports.py
    pytest/_supervisor.py harness/_host.py harness/_page.html harness/homefree_hidden.so
    harness/recorder/sitecustomize.py extension/__init__.py _homefree.pyi
    extension/_cache.py package/__init__.py package/__main__.py
    package/_pickles.py loading/_load.py
"""

CMAKE = """
cmake_minimum_required(VERSION 3.18)
project(greet C)
find_package(Python COMPONENTS Interpreter Development.Module REQUIRED)
find_package(homefree REQUIRED)
homefree_add_module(greet DESTINATION . greet.c)
"""

MESON = """
project('greet', 'c')
homefree = dependency('homefree-module')
python = import('python').find_installation('{python}')
python.extension_module(
  'greet',
  'greet.c',
  dependencies: [python.dependency(), homefree],
  install: true,
  install_dir: '/',
)
install_data(homefree.get_variable('missing'), install_dir: '/' + homefree.get_variable('needs'))
"""

SHELL = """
set -e
cc -shared -fPIC -I{include} -o "$TARGET/greet.so" greet.c \
    $(pkg-config --cflags --libs homefree-module)
"""

# make gives what pkg-config said to another shell.
MAKE = """
LDLIBS := $(shell pkg-config --cflags --libs homefree-module)
MISSING := $(shell pkg-config --variable=missing homefree-module)
NEEDS := $(TARGET)/$(shell pkg-config --variable=needs homefree-module)
all:
\tcc -shared -fPIC -I{include} -o "$(TARGET)/greet.so" greet.c $(LDLIBS)
\tmkdir $(NEEDS)
\tcp $(MISSING) $(NEEDS)
"""

SETUP = """
from homefree.setuptools import Extension
from setuptools import setup
setup(name="greet", version="1", ext_modules=[Extension("greet", ["greet.c"])])
"""

# Where there is no GIL, it stays off.
USE = """
import sys, greet
print(greet.check() and ("t" not in sys.abiflags or not sys._is_gil_enabled()))
"""


def outside():
    """The environment without the variables through which another homefree would be found."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "LD_", "HOMEFREE"))
    }


class Content(unittest.TestCase):
    def setUp(self):
        self.archive = zipfile.ZipFile(WHEEL)
        self.addCleanup(self.archive.close)

    def about(self, name):
        (found,) = [one for one in self.archive.namelist() if one.endswith(f".dist-info/{name}")]
        return self.archive.read(found)

    def test_all_of_an_installation_is_inside_the_package(self):
        names = set(self.archive.namelist())
        self.assertLessEqual({f"homefree/{name}" for name in PACKAGE.split()}, names)
        headers = {name for name in names if name.endswith(".h")}
        tree = (SOURCE / "alloc/include").rglob("*.h")
        ours = {
            f"homefree/include/{header.relative_to(SOURCE / 'alloc/include')}" for header in tree
        }
        self.assertEqual(headers, ours | {"homefree/include/allocator_registry.h"})
        others = {name.partition("/")[0] for name in names}
        # The package, pytest's module beside it, .dist-info, .data (manual pages).
        self.assertEqual(len(others), 4, others)
        self.assertIn("pytest_homefree.py", others)
        self.assertTrue([name for name in names if name.endswith("man/man1/homefree.1")])

    def test_it_says_what_is_compiled_into_it(self):
        """PEP 770."""
        (name,) = (n for n in self.archive.namelist() if n.endswith("sboms/homefree.cdx.json"))
        directory = name.rpartition("/sboms/")[0]
        self.assertRegex(directory, r"^homefree-[\d.]+\.dist-info$")
        bill = json.loads(self.archive.read(name))
        self.assertEqual(bill["metadata"]["component"]["version"], WHEEL.name.split("-")[1])
        names = [one["name"] for one in bill["components"]]
        self.assertEqual(names, ["jemalloc", "zycore", "zydis"])

    def test_record_has_every_file(self):
        (name,) = (n for n in self.archive.namelist() if n.endswith(".dist-info/RECORD"))
        rows = dict(line.split(",", 1) for line in self.archive.read(name).decode().splitlines())
        self.assertEqual(sorted(rows), sorted(self.archive.namelist()))
        for member, row in rows.items():
            data = self.archive.read(member)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            self.assertEqual(row, "," if member == name else f"sha256={digest},{len(data)}")

    def test_one_file_serves_every_cpython(self):
        self.assertIn("-abi3-linux_", WHEEL.name)

    def test_one_built_with_an_older_meson_does_too(self):
        """Before 1.3, meson-python says that it is for one CPython."""
        python, _, rest = WHEEL.name.split("-", 2)[2].partition("-abi3-")
        code = (
            "import homefree_build, pathlib, shutil, sys, wheel_file\n"
            "wheel, made, tag, build = sys.argv[1:]\n"
            "members = wheel_file.read(wheel)\n"
            "path = wheel_file.tag(pathlib.Path(made) / pathlib.Path(wheel).name, members,\n"
            "                      tag + '-abi3', tag + '-' + tag)\n"
            "wheel_file.write(path, members)\n"
            "print(path.name, homefree_build._finished(path, build))\n"
        )
        with tempfile.TemporaryDirectory() as made:
            backend = str(SOURCE / "python/backend")
            words = [TOOLS / "bin/python3", "-c", code, WHEEL, made, python, BUILD]
            before, after = run(*words, cwd=SOURCE, PYTHONPATH=backend).split()
            (file,) = pathlib.Path(made).iterdir()
            with zipfile.ZipFile(file) as archive:
                (name,) = [one for one in archive.namelist() if one.endswith(".dist-info/WHEEL")]
                tags = email.message_from_bytes(archive.read(name)).get_all("Tag")
        self.assertIn(f"-{python}-{python}-", before)
        self.assertEqual((after, file.name), (WHEEL.name, WHEEL.name))
        self.assertEqual(tags, [f"{python}-abi3-{rest.removesuffix('.whl')}"])

    def test_no_path_of_the_build_is_left(self):
        for name in self.archive.namelist():
            content = self.archive.read(name)
            for room in ("alloc/", "shim/", "loader/", ".mesonpy"):
                self.assertNotIn(f"{SOURCE}/{room}".encode(), content, name)

    def test_licences_of_all_that_is_built_in(self):
        named = email.message_from_bytes(self.about("METADATA"))
        self.assertEqual(named["License-Expression"], "BSD-2-Clause AND MIT AND 0BSD")
        for path in (SOURCE / "LICENSE", *(SOURCE / "licenses").iterdir()):
            name = str(path.relative_to(SOURCE))
            self.assertIn(name, named.get_all("License-File"))
            self.assertEqual(self.about(f"licenses/{name}"), path.read_bytes())

    def test_it_is_what_pip_was_told_before_it_was_built(self):
        with tempfile.TemporaryDirectory() as directory:
            code = "import homefree_build, sys\n"
            code += "print(homefree_build.prepare_metadata_for_build_wheel(sys.argv[1]))"
            backend = str(SOURCE / "python/backend")
            python = TOOLS / "bin/python3"
            name = run(python, "-c", code, directory, cwd=SOURCE, PYTHONPATH=backend).strip()
            told = pathlib.Path(directory, name, "METADATA").read_bytes()
        # Fields, that is; README may have changed since.
        built = self.archive.read(f"{name}/METADATA")
        self.assertEqual(*(text.partition(b"\n\n")[0] for text in (told, built)))

    def test_the_command_needs_libc_alone(self):
        with tempfile.TemporaryDirectory() as directory:
            file = self.archive.extract("homefree/bin/homefree", directory)
            dynamic = run("readelf", "-dW", file)
        needed = [line.split("[")[1][:-1] for line in dynamic.split("\n") if "NEEDED" in line]
        # Before glibc 2.34, these are libraries of their own.
        parts = ("libdl.so.2", "libpthread.so.0")
        self.assertEqual([name for name in needed if name not in parts], ["libc.so.6"])

    def test_auditwheel_repairs_it_without_a_flag(self):
        with tempfile.TemporaryDirectory() as directory:
            installation.repair(WHEEL, BUILD, directory)

    def test_an_archive_says_that_it_is_one(self):
        """As `python -m zipapp` makes it. Python itself would speak of a circular import."""
        code = f"import sys; sys.path.insert(0, {str(WHEEL)!r})\nimport homefree"
        result = subprocess.run(
            [sys.executable, "-c", code], env=outside(), capture_output=True, text=True
        )
        last = result.stderr.strip().splitlines()[-1]
        self.assertRegex(last, r"^ImportError: homefree: .*\.whl is an archive, .* unpack it")

    def test_build_backends_find_it(self):
        text = self.about("entry_points.txt").decode()
        self.assertIn("[cmake.prefix]\nhomefree = homefree\n", text)
        self.assertIn("[pkg_config]\nhomefree = homefree.lib.pkgconfig\n", text)
        self.assertIn("[pytest11]\nhomefree = pytest_homefree\n", text)


class Environment(unittest.TestCase):
    """A virtual environment with the wheel, for each test."""

    def setUp(self):
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="homefree-wheel-"))
        self.addCleanup(shutil.rmtree, self.work)
        bin_directory, self.site = installation.environment(
            PYTHON, TOOLS, self.work / "environment"
        )
        self.interpreter = bin_directory / "python3"
        self.wheel = installation.wheel(WHEEL, bin_directory, self.site)
        shutil.copy2(GREET, self.work)

    def ask(self, code):
        """The output of an interpreter of the environment, which is not told where homefree is."""
        return subprocess.run(
            [self.interpreter, "-c", code],
            env=outside(),
            cwd=self.work,
            capture_output=True,
            text=True,
        )


class InstalledWheel(Environment):
    def write(self, name, text):
        include = run(
            PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('include'))"
        ).strip()
        text = text.replace("{include}", include).replace("{python}", str(self.interpreter))
        (self.work / name).write_text(text)

    def assert_module_finds_the_heap(self):
        result = self.ask(USE)
        self.assertEqual((result.stdout, result.stderr), ("True\n", ""))

    def packed(self):
        """A wheel of the installed module."""
        content = self.work / "content"
        about = content / "greet-1.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: greet\nVersion: 1\n")
        (about / "WHEEL").write_text(
            "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: false\n"
            "Tag: py3-none-linux_x86_64\n"
        )
        for path in self.site.glob("greet*.so"):
            shutil.copy2(path, content)
        for path in self.site.glob("*.needs"):
            shutil.copytree(path, content / path.name)
        run(self.interpreter, "-m", "wheel", "pack", content, "-d", self.work)
        (packed,) = self.work.glob("greet-1-*.whl")
        return packed

    def assert_auditwheel_repairs(self):
        """Without a flag."""
        installation.repair(self.packed(), BUILD, self.work / "repaired")

    def assert_missing_is_said(self):
        """Without homefree the import says what to do; if it is loaded already, it works."""
        away = self.work / "away"
        away.mkdir()
        shutil.move(self.site / "homefree", away)
        result = self.ask(USE)
        self.assertEqual(result.returncode, 1)
        last = result.stderr.strip().splitlines()[-1]
        self.assertRegex(last, "^ImportError: .*: this module needs homefree: import homefree")
        result = self.ask(
            f"import sys; sys.path.append({str(away)!r})\nimport homefree, greet\n"
            "print(greet.check())"
        )
        self.assertEqual((result.stdout, result.stderr), ("True\n", ""))

    def test_make(self):
        self.write("makefile", MAKE)
        build = self.wheel.build_variables()
        run("make", cwd=self.work, TARGET=str(self.site), **build)
        self.assert_module_finds_the_heap()
        self.assert_auditwheel_repairs()
        self.assert_missing_is_said()

    def test_cmake(self):
        self.write("CMakeLists.txt", CMAKE)
        build = self.work / "b"
        found = [
            f"-DCMAKE_PREFIX_PATH={self.wheel.root}",
            f"-DPython_EXECUTABLE={self.interpreter}",
        ]
        run("cmake", "-S", self.work, "-B", build, *found)
        run("cmake", "--build", build)
        run("cmake", "--install", build, "--prefix", self.site)
        self.assert_module_finds_the_heap()
        self.assert_auditwheel_repairs()
        self.assert_missing_is_said()

    def test_meson(self):
        self.write("meson.build", MESON)
        build = self.work / "b"
        run("meson", "setup", build, self.work, **self.wheel.build_variables())
        run("meson", "install", "-C", build, "--destdir", self.site)
        (module,) = self.site.glob("greet*.so")
        self.assertNotIn(str(self.work), run("readelf", "-dW", module))
        self.assert_module_finds_the_heap()
        self.assert_auditwheel_repairs()
        self.assert_missing_is_said()

    def test_a_module_in_a_package_finds_the_heap_too(self):
        """Three levels deep, as zmq.backend.cython._zmq."""
        package = self.site / "group/inner/most"
        package.mkdir(parents=True)
        self.write("build.sh", SHELL)
        build = self.wheel.build_variables()
        run("sh", "build.sh", cwd=self.work, TARGET=str(package), **build)
        result = self.ask("from group.inner.most import greet; print(greet.check())")
        self.assertEqual((result.stdout, result.stderr), ("True\n", ""))

    def test_recipes_of_the_publishing_guide(self):
        """As they stand there: to depend on homefree's wheel, and to vendor it."""
        self.write("makefile", MAKE)
        build = self.wheel.build_variables()
        run("make", cwd=self.work, TARGET=str(self.site), **build)
        (self.work / "dist").mkdir()
        self.packed().rename(self.work / "dist" / "greet-1-py3-none-linux_x86_64.whl")
        (self.site / "greet.so").unlink()
        guide = (SOURCE / "examples/guides/publishing.md").read_text()
        recipes = [part.partition("```")[0] for part in guide.split("```sh\n")[1:]]
        self.assertEqual(len(recipes), 2)
        directories = [self.interpreter.parent, (BUILD / "wheels/tools/bin").resolve()]
        path = os.pathsep.join([*map(str, directories), os.environ["PATH"]])
        copies = []
        for recipe in recipes:
            run("sh", "-ec", recipe, cwd=self.work, PATH=path)
            (repaired,) = (self.work / "wheelhouse").iterdir()
            with zipfile.ZipFile(repaired) as archive:
                copies.append([name for name in archive.namelist() if "greet.libs/libh" in name])
                archive.extractall(self.work / "user")
            run(self.interpreter.parent / "homefree", "inspect", repaired)
            repaired.unlink()
        self.assertEqual([len(each) for each in copies], [0, 1])

        # The user's directory has the vendored copy now; homefree's own may come before it.
        vendored = "import sys; sys.path.insert(0, 'user')\n"
        for before in "", "import homefree\n":
            result = self.ask(vendored + before + USE)
            self.assertEqual((result.stdout, result.stderr), ("True\n", ""))
        program = [self.interpreter, "-c", vendored + "import homefree, greet"]
        doctor = [self.interpreter.parent / "homefree", "doctor", "--json", "--", *program]
        said = subprocess.run(doctor, cwd=self.work, env=outside(), capture_output=True, text=True)
        self.assertIn('"several-homefrees"', said.stdout)

    def test_command(self):
        for command in (["homefree"], [self.interpreter, "-m", "homefree"]):
            path = f"{self.interpreter.parent}{os.pathsep}{os.environ['PATH']}"
            answer = run(*command, "--version", PATH=path)
            self.assertEqual(answer, f"homefree {WHEEL.name.split('-')[1]}\n")
            program = ["--", self.interpreter, "-c", "import homefree"]
            answer = run(*command, "doctor", *program, PATH=path)
            self.assertIn(str(self.wheel.library / "libhomefree.so.1"), answer)
            answer = run(*command, "run", "--", "cat", "/proc/self/maps", PATH=path)
            self.assertIn(str(self.wheel.library / "libhomefree-preload.so"), answer)

    def test_a_wheel_whose_library_is_gone_says_so(self):
        (self.wheel.library / "libhomefree.so.1").unlink()
        result = self.ask("import homefree")
        self.assertEqual(result.returncode, 1)
        last = result.stderr.strip().splitlines()[-1]
        self.assertRegex(
            last, r"^ImportError: homefree: the heap's library does not load .*install"
        )

    def test_every_cpython(self):
        tag = int(WHEEL.name.split("-")[2].replace("cp3", ""))
        seen = 0
        for python, version in with_gil():
            if number(version) < (3, tag):
                continue
            with self.subTest(python=python):
                directory = self.work / f"cpython{seen}"
                run(python, "-m", "venv", directory)
                self.interpreter = directory / "bin/python"
                run(self.interpreter, "-m", "pip", "install", "-q", "--no-index", WHEEL)
                result = self.ask(
                    "import homefree, os\n"
                    "print(homefree.install())\n"
                    "for get in 'include', 'library_dir', 'cmake_dir', 'pkgconfig_dir':\n"
                    "    assert os.path.isdir(getattr(homefree, 'get_' + get)()), get"
                )
                self.assertEqual(result.stderr, "")
                self.assertIn("python='arena'", result.stdout)
                seen += 1
        self.assertGreater(seen, 0)


class Setuptools(InstalledWheel):
    """And what InstalledWheel tests, where tests/setuptools does not come."""

    test_every_cpython = None  # the wheel is for one

    def test_setuptools(self):
        self.write("setup.py", SETUP)
        run(
            *(self.interpreter, "-m", "pip", "install", "-q", "--no-deps", "--no-index"),
            *("--no-build-isolation", self.work),
        )
        self.assert_module_finds_the_heap()
        self.assert_missing_is_said()


class IsolatedBuild(Environment):
    def test_an_isolated_build_finds_it(self):
        """As pip does it for users: homefree is in an environment that is gone afterwards."""
        project = shutil.copytree(SOURCE / "examples/minimal", self.work / "minimal")
        result = subprocess.run(
            [self.interpreter, "-m", "pip", "install", "-q", "--no-deps", project],
            env={**outside(), "PIP_FIND_LINKS": str(WHEEL.parent)},
            capture_output=True,
            text=True,
        )
        if "Could not find a version that satisfies the requirement pybind11" in result.stderr:
            self.skipTest("there is no package index within reach")
        self.assertEqual(result.returncode, 0, result.stderr)
        (module,) = self.site.glob("greet*.so")
        self.assertNotIn("build-env", run("readelf", "-dW", module))
        answer = self.ask("import greet; print(greet.greet('you'))")
        self.assertEqual(answer.stderr, "")


if __name__ == "__main__":
    BUILD, SOURCE = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    rest = sys.argv[3:]
    if rest[:1] == ["--in"]:
        PYTHON, (TOOLS, WHEEL) = rest[1], map(pathlib.Path, rest[2:4])
        rest = rest[4:]
    else:
        TOOLS, WHEEL = BUILD / "wheels/tools", installation.find_wheel(BUILD / "dist")
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
