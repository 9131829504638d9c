"""A module built against an installed homefree, by each build system, exports its PyInit_ function
and nothing else, links what it calls, and its memory is the heap's.

usage: test_installed.py BUILD-DIRECTORY SOURCE-DIRECTORY

Installs into a temporary prefix, writes one small module, and builds it by a shell command line, by
CMake, by Meson against the installation, and by Meson with homefree as a subproject. The project of
packaging/consumer is built against the installation, too, and Debian's packages have all of it.
"""

import os
import pathlib
import re
import shutil
import sys
import tempfile
import textwrap
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import installation  # noqa: E402
from installation import run  # noqa: E402

BUILD = SOURCE = pathlib.Path()
INSTALLED = None
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable

CMAKE = """
cmake_minimum_required(VERSION 3.15)
project(greet C)
find_package(homefree REQUIRED)
add_library(greet MODULE greet.c)
set_target_properties(greet PROPERTIES PREFIX "")
target_include_directories(greet PRIVATE {include})
target_link_libraries(greet PRIVATE homefree::module)
homefree_exports(greet)
add_library(bare MODULE bare.c)
target_link_options(bare PRIVATE LINKER:-z,defs)
homefree_module(bare)
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
subdir('one')
shared_library('bare', 'bare.c', dependencies: homefree, link_args: '-Wl,-z,defs')
"""

# In a directory of its own, because the file has the same name.
MESON_ONE_LINE = """
shared_module(
  'greet',
  '../greet.c',
  name_prefix: '',
  include_directories: include_directories('{include}'),
  dependencies: dependency('homefree-module'),
)
shared_library(
  'bare',
  '../bare.c',
  dependencies: dependency('homefree-module'),
  link_args: '-Wl,-z,defs',
)
"""


def python_include():
    return run(PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('include'))").strip()


class Module(unittest.TestCase):
    """The sources of a small module, and what it must be."""

    def setUp(self):
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="homefree-installed-"))
        self.addCleanup(shutil.rmtree, self.work)
        for name in "greet.c", "bare.c":
            shutil.copy2(pathlib.Path(__file__).parent / name, self.work)
        self.libdir = INSTALLED.library
        self.pkgconfig = {"PKG_CONFIG_PATH": str(INSTALLED.pkgconfig)}

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

    def write_meson(self):
        self.write("meson.build", MESON)
        (self.work / "one").mkdir()
        self.write("one/meson.build", MESON_ONE_LINE)


class Installed(Module):
    def test_every_public_header_is_installed(self):
        tree, installed = SOURCE / "alloc/include", INSTALLED.root / "include"
        self.assertEqual(
            sorted(path.relative_to(installed) for path in installed.rglob("*.h")),
            sorted(
                [
                    pathlib.Path("allocator_registry.h"),
                    *(p.relative_to(tree) for p in tree.rglob("*.h")),
                ]
            ),
        )

    def test_manual_pages_are_installed_and_found_by_man(self):
        if not (BUILD / "alloc/manual/hf_malloc.3").exists():
            self.skipTest("no pages of section 3 were made")
        (directory,) = INSTALLED.root.rglob("man3")
        self.assertEqual(
            sorted(page.name for page in directory.iterdir()),
            sorted(page.name for page in (BUILD / "alloc/manual").glob("*.3")),
        )
        if shutil.which("man") is None:
            self.skipTest("man is not installed")
        # One page has text of its own, the other includes another page.
        for name in ("hf_malloc", "hf_calloc"):
            page = run("man", "-M", directory.parent, "3", name, MANPAGER="cat", LC_ALL="C")
            self.assertIn("hf_malloc, hf_calloc", page)

    def test_command_runs_programs_on_the_installed_heap(self):
        """Also where the installation was moved: nothing tells the command where its library is."""
        maps = run(INSTALLED.path / "homefree", "run", "--", "cat", "/proc/self/maps")
        loaded = {line.split()[-1] for line in maps.splitlines() if "homefree" in line}
        self.assertEqual(loaded, {str(self.libdir.resolve() / "libhomefree-preload.so")})

    def test_command_finds_its_libraries_in_a_directory_of_their_own(self):
        """Distributions keep what is not for the dynamic linker out of its directories."""
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory).resolve()
            own = root / self.libdir.relative_to(INSTALLED.root) / "homefree"
            own.mkdir(parents=True)
            (root / "bin").mkdir()
            shutil.copy2(INSTALLED.path / "homefree", root / "bin")
            shutil.copy2(self.libdir / "libhomefree-preload.so", own)
            maps = run(root / "bin/homefree", "run", "--", "cat", "/proc/self/maps")
            self.assertIn(str(own / "libhomefree-preload.so"), maps)

    def test_package_has_what_the_command_shows(self):
        """It is installed for the command alone, which needs no other package."""
        if INSTALLED.site is None:
            self.skipTest("homefree was built without its Python package")
        script = "import homefree; print(bool(homefree.doctor()), bool(homefree.memory()))"
        answer = run(PYTHON, "-c", script, PYTHONPATH=str(INSTALLED.site))
        self.assertEqual(answer, "True True\n")

    def test_package_is_compiled_to_bytecode(self):
        """Compiling the sources takes longer than all other work of an import."""
        if INSTALLED.site is None:
            self.skipTest("homefree was built without its Python package")
        sources = list((INSTALLED.site / "homefree").rglob("*.py"))
        self.assertIn("extension", {source.parent.name for source in sources})
        for source in sources:
            with self.subTest(source=source):
                self.assertTrue(list(source.parent.glob(f"__pycache__/{source.stem}.*.pyc")))

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

    def test_shell_in_one_line(self):
        """Also through make, whose shell replaces what looks like a variable."""
        line = "cc -shared -fPIC -I{include} -o greet.so greet.c "
        self.write("build.sh", line + "$(pkg-config --cflags --libs homefree-module)\n")
        self.write("makefile", f"all:\n\t{line}$(shell pkg-config --cflags --libs homefree-module)")
        for command in ("sh", "build.sh"), ("make",):
            run(*command, cwd=self.work, **self.pkgconfig)
            self.assert_module_is_right(self.work / "greet.so")
            dynamic = run("readelf", "-d", self.work / "greet.so")
            self.assertIn(f"(RUNPATH)            Library runpath: [{self.libdir}]", dynamic)
            (self.work / "greet.so").unlink()

    def test_version_script_of_any_module_lets_out_what_python_calls(self):
        names = [f"{one}{rest}" for one in ("PyInit", "PyModExport") for rest in ("_it", "U_n_3ua")]
        functions = [
            f"void *{name}(void) {{ return 0; }}\n" for name in (*names, "PyInite", "more")
        ]
        self.write("it.c", "".join(functions))
        line = "cc -shared -fPIC -o it.so it.c $(pkg-config --cflags --libs homefree-module)"
        run("sh", "-c", line, cwd=self.work, **self.pkgconfig)
        symbols = run("nm", "-D", "--defined-only", self.work / "it.so").split("\n")
        self.assertEqual(
            sorted(line.split()[-1] for line in symbols if line.split()), sorted(names)
        )

    def test_no_symbol_is_left_open(self):
        """The test of CMake and that of Meson build the same module."""
        for package in "homefree", "homefree-module":
            line = f"cc -shared -fPIC bare.c $(pkg-config --cflags --libs {package}) -Wl,-z,defs"
            run("sh", "-c", line, cwd=self.work, **self.pkgconfig)

    def assert_cmake_builds_it(self, definition):
        if shutil.which("cmake") is None:
            self.skipTest("cmake is not installed")
        run("cmake", "-S", self.work, "-B", self.work / "b", definition)
        run("cmake", "--build", self.work / "b")
        self.assert_module_is_right(self.work / "b/greet.so")

    def test_cmake(self):
        self.write("CMakeLists.txt", CMAKE)
        self.assert_cmake_builds_it(f"-DCMAKE_PREFIX_PATH={INSTALLED.root}")

    def test_cmake_gives_the_source_the_name_of_the_module(self):
        greet = self.work / "greet.c"
        greet.write_text(greet.read_text().replace("PyInit_greet", "HF_MODULE_INIT"))
        renamed = CMAKE.replace("(greet ", "(target ").replace("(greet)", "(target)")
        self.write("CMakeLists.txt", renamed.replace('PREFIX ""', 'PREFIX "" OUTPUT_NAME greet'))
        self.assert_cmake_builds_it(f"-Dhomefree_DIR={self.libdir / 'cmake/homefree'}")

    def test_cmake_takes_a_prefix_for_a_part_of_the_name(self):
        renamed = CMAKE.replace("(greet ", "(eet ").replace("(greet)", "(eet)")
        self.write("CMakeLists.txt", renamed.replace('PREFIX ""', 'PREFIX "gr"'))
        self.assert_cmake_builds_it(f"-Dhomefree_DIR={self.libdir / 'cmake/homefree'}")

    def test_consumer(self):
        if shutil.which("cmake") is None:
            self.skipTest("cmake is not installed")
        consumer = SOURCE / "packaging/consumer/try.sh"
        said = run(consumer, self.work / "built", **INSTALLED.build_variables())
        self.assertIn("100% tests passed", said)
        self.assertRegex(said, r"Ok: +1\b")
        for build_system in "cmake", "meson":
            library = self.work / "built" / build_system / "libgreeting.so"
            self.assertIn("[libhomefree.so.1]", run("readelf", "-d", library))

    def test_each_file_has_its_debian_package(self):
        packages = {
            file.stem: [line.split()[0] for line in file.read_text().splitlines()]
            for file in (SOURCE / "packaging/debian").glob("*.install")
        }
        self.assertEqual(len(packages), 4)
        for file in INSTALLED.root.rglob("*"):
            if file.is_dir():
                continue
            if INSTALLED.site in file.parents:
                place = pathlib.PurePosixPath("usr/lib/python3/dist-packages", file.name)
            elif self.libdir in file.parents:
                # As Debian's rules move what is not for the dynamic linker.
                own = "homefree" if re.match(r"libhomefree-.*\.so$", file.name) else ""
                inside = file.relative_to(self.libdir)
                place = pathlib.PurePosixPath("usr/lib/machine", own, inside)
            else:
                place = pathlib.PurePosixPath("usr", file.relative_to(INSTALLED.root))
            having = [
                package
                for package, patterns in packages.items()
                if any(one.match(each) for one in (place, *place.parents) for each in patterns)
            ]
            with self.subTest(place=str(place)):
                self.assertEqual(len(having), 1, having)

    def test_meson_installed(self):
        self.write_meson()
        run("meson", "setup", self.work / "b", self.work, **self.pkgconfig)
        run("ninja", "-C", self.work / "b")
        self.assert_module_is_right(self.work / "b/greet.so")
        self.assert_module_is_right(self.work / "b/one/greet.so")


class Subproject(Module):
    def test_meson_subproject(self):
        self.write_meson()
        inside = self.work / "subprojects"
        inside.mkdir()
        shutil.copytree(
            SOURCE,
            inside / "homefree",
            ignore=shutil.ignore_patterns("build*", ".git", "__pycache__"),
        )
        # Built before: this test is about the dependency, not about jemalloc.
        prebuilt = inside / "homefree/prebuilt/alloc/pages"
        prebuilt.mkdir(parents=True)
        shutil.copy2(BUILD / "alloc/pages/libhf_pages_jemalloc.a", prebuilt)
        # The sources of what homefree is built with, unpacked already.
        for wrap in SOURCE.glob("subprojects/*.wrap"):
            text = wrap.read_text()
            directory = re.search("^directory = (.*)$", text, re.MULTILINE)[1]
            if (SOURCE / "subprojects" / directory).is_dir():
                shutil.copytree(SOURCE / "subprojects" / directory, inside / directory)
                provided = text[text.index("[provide]") :]
                self.write(
                    f"subprojects/{wrap.name}",
                    f"[wrap-file]\ndirectory = {directory}\n\n{provided}",
                )
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
        run("ninja", "-C", self.work / "b", "greet.so", "one/greet.so")
        self.libdir = self.work / "b/subprojects/homefree/loader"
        self.assert_module_is_right(self.work / "b/greet.so")
        self.assert_module_is_right(self.work / "b/one/greet.so")


if __name__ == "__main__":
    BUILD, SOURCE = (pathlib.Path(argument) for argument in sys.argv[1:3])
    with tempfile.TemporaryDirectory(prefix="homefree-prefix-") as directory:
        INSTALLED = installation.prefix(BUILD, directory)
        unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
