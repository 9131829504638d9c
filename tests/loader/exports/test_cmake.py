"""What find_package(homefree) gives to a project, from an installation that was moved.

Usage: test_cmake.py HOMEFREE CONFIG_FILE... [-- unittest arguments]. The installation is made here:
the command and the package's files are the built ones, the libraries are small stand-ins, so that
the test does not depend on the heap. Exits with 77, which Meson counts as skipped, without CMake.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

BUILT = [Path(name).resolve() for name in sys.argv[1:4]]
CC = shlex.split(os.environ.get("CC", "cc"))
VERSION = (0,)
if shutil.which("cmake") is not None:
    said = subprocess.run(["cmake", "--version"], capture_output=True, text=True).stdout
    VERSION = tuple(int(part) for part in re.findall(r"\d+", said)[:2])
GENERATORS = {"Ninja": "ninja", "Unix Makefiles": "make"}

# Meson computes how far the package is below the prefix; the test reads the result back.
UP = re.compile(r'\$\{_homefree_here\}/((?:\.\./?)+)" ABSOLUTE')

PROJECT = """
cmake_minimum_required(VERSION 3.15)
project(user C)
find_package(homefree 1.0 REQUIRED)

add_library(fast MODULE fast.c)
set_target_properties(fast PROPERTIES PREFIX "" SUFFIX ".cpython-311.so")
target_link_libraries(fast PRIVATE homefree::module)
homefree_exports(fast)

add_library(renamed MODULE fast.c)
homefree_exports(renamed VERSION MINE_1.0 SYMBOLS api.txt)
set_target_properties(renamed PROPERTIES OUTPUT_NAME fast)
target_link_libraries(renamed PRIVATE homefree::module)

add_subdirectory(below)
"""

BELOW = """
add_library(deep MODULE ../fast.c)
set_target_properties(deep PROPERTIES OUTPUT_NAME wrong LIBRARY_OUTPUT_NAME fast PREFIX "")
homefree_exports(deep)
# From another directory than the target's.
set_target_properties(other PROPERTIES PREFIX "" OUTPUT_NAME "$<1:fast>")
homefree_exports(other)
"""

SOURCE = """
#include <homefree/homefree.h>
int api(void);
int api(void) { return HF_VERSION_MAJOR; }
void *hf_stand_in_shim(void);
void *PyInit_fast(void);
void *PyInit_fast(void) { return hf_stand_in_shim(); }
"""


def call(*command, **options):
    return subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        timeout=120,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )


def exported(shared_object):
    out = call("nm", "-D", "--defined-only", shared_object).stdout
    return sorted(line.split(maxsplit=1)[1] for line in out.splitlines())


def needed(shared_object):
    out = call("readelf", "-d", shared_object).stdout
    return re.findall(r"NEEDED.*\[(.*)\]", out)


class Package(unittest.TestCase):
    def setUp(self):
        # A blank and a plus in the name: both have broken generated build rules.
        self.directory = Path(tempfile.mkdtemp(prefix="homefree c+make-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.prefix = self.install(self.directory / "first")
        self.prefix.rename(self.directory / "moved")
        self.prefix = self.directory / "moved"

    def install(self, prefix):
        command, config, version = BUILT
        ups = sorted(UP.findall(config.read_text()), key=len)
        depth = ups[-1].count("..") - ups[0].count("..")
        self.libdir = Path(*["lib", "a", "b", "c"][:depth])
        package = prefix / self.libdir / "cmake" / "homefree"
        package.mkdir(parents=True)
        shutil.copy(config, package)
        shutil.copy(version, package)
        (prefix / "bin").mkdir()
        shutil.copy(command, prefix / "bin" / "homefree")

        include = prefix / "include" / "homefree"
        include.mkdir(parents=True)
        (include / "homefree.h").write_text("#define HF_VERSION_MAJOR 1\n")
        (prefix / "heap.c").write_text(
            "void *hf_stand_in_heap(void);\nvoid *hf_stand_in_heap(void) { return 0; }\n"
        )
        (prefix / "shim.c").write_text(
            "void *hf_stand_in_heap(void);\n"
            "void *hf_stand_in_shim(void);\n"
            "void *hf_stand_in_shim(void) { return hf_stand_in_heap(); }\n"
        )
        library = prefix / self.libdir / "libhomefree.so.1"
        self.must(
            *CC,
            "-shared",
            "-fPIC",
            "-Wl,-soname,libhomefree.so.1",
            "-o",
            library,
            prefix / "heap.c",
        )
        (prefix / self.libdir / "libhomefree.so").symlink_to("libhomefree.so.1")
        self.must(*CC, "-fPIC", "-c", "-o", prefix / "shim.o", prefix / "shim.c")
        self.must("ar", "rcs", prefix / self.libdir / "libhomefree_shim.a", prefix / "shim.o")
        return prefix

    def must(self, *command, **options):
        result = call(*command, **options)
        self.assertEqual(result.returncode, 0, f"{command}\n{result.stdout}")
        return result.stdout

    def project(self, text=PROJECT, below=BELOW):
        source = self.directory / "source"
        (source / "below").mkdir(parents=True, exist_ok=True)
        text = text.replace(
            "add_subdirectory",
            "add_library(other MODULE fast.c)\n"
            "target_link_libraries(other homefree::module)\n"
            "add_subdirectory",
            1,
        )
        (source / "CMakeLists.txt").write_text(text)
        (source / "below" / "CMakeLists.txt").write_text(
            below + "target_link_libraries(deep PRIVATE homefree::module)\n"
        )
        (source / "fast.c").write_text(SOURCE)
        (source / "api.txt").write_text("api\n")
        return source

    def configure(self, generator="Ninja", source=None):
        build = self.directory / generator
        package = self.prefix / self.libdir / "cmake" / "homefree"
        return build, call(
            "cmake",
            "-G",
            generator,
            "-S",
            source or self.project(),
            "-B",
            build,
            f"-Dhomefree_DIR={package}",
            "-DCMAKE_C_COMPILER=" + CC[-1],
            # The linkers' lists of inputs, which CMake uses from 3.27 on, do not support a blank in
            # the directory's name: everything would be linked each time.
            "-DCMAKE_LINK_DEPENDS_USE_LINKER=OFF",
            "--no-warn-unused-cli",
        )

    def test_modules_export_only_their_init_function(self):
        for generator, program in GENERATORS.items():
            if shutil.which(program) is None:
                continue
            with self.subTest(generator):
                build, result = self.configure(generator)
                self.assertEqual(result.returncode, 0, result.stdout)
                self.must("cmake", "--build", build, "--parallel", "4")
                fast = build / "fast.cpython-311.so"
                renamed = build / "libfast.so"
                self.assertEqual(exported(fast), ["T PyInit_fast"])
                self.assertEqual(
                    exported(renamed), ["A MINE_1.0", "T PyInit_fast@@MINE_1.0", "T api@@MINE_1.0"]
                )
                self.assertEqual(exported(build / "below" / "fast.so"), ["T PyInit_fast"])
                self.assertEqual(exported(build / "fast.so"), ["T PyInit_fast"])
                self.assertEqual(needed(fast)[0], "libhomefree.so.1")

                # A build without changes does nothing; a changed list causes a link, only of what
                # uses it.
                def times(renamed=renamed, fast=fast):
                    return fast.stat().st_mtime_ns, renamed.stat().st_mtime_ns

                before = times()
                self.must("cmake", "--build", build)
                self.assertEqual(times(), before)
                time.sleep(1.1)
                (self.directory / "source" / "api.txt").write_text("# nothing more\n")
                self.must("cmake", "--build", build)
                self.assertEqual(exported(renamed), ["A MINE_1.0", "T PyInit_fast@@MINE_1.0"])
                self.assertEqual(times()[0], before[0])

    def test_the_link_line_has_the_shim_in_front_of_the_heap(self):
        build, result = self.configure()
        self.assertEqual(result.returncode, 0, result.stdout)
        lines = self.must("ninja", "-C", build, "-t", "commands", "fast").splitlines()
        line = lines[-1]
        self.assertIn("libhomefree_shim.a", line)
        self.assertLess(line.index("libhomefree_shim.a"), line.index("libhomefree.so"))

    def test_operators_are_the_shims_where_a_project_names_the_runtime(self):
        """As with static C++ libraries in modules in C, such as libzmq in pyzmq's."""
        (self.directory / "new.c").write_text(
            "void *hf_stand_in_heap(void);\n"
            '__attribute__((visibility("hidden"))) void *_Znwm(unsigned long);\n'
            "void *_Znwm(unsigned long size) { return (void)size, hf_stand_in_heap(); }\n"
        )
        self.must(*CC, "-fPIC", "-c", "-o", self.directory / "new.o", self.directory / "new.c")
        shim = self.prefix / self.libdir / "libhomefree_shim.a"
        self.must("ar", "rs", shim, self.directory / "new.o")
        for name in "stdc++", "-lstdc++":
            source = self.project(
                "cmake_minimum_required(VERSION 3.15)\n"
                "project(user C)\n"
                "find_package(homefree REQUIRED)\n"
                "add_library(part STATIC part.c)\n"
                "set_target_properties(part PROPERTIES POSITION_INDEPENDENT_CODE ON)\n"
                "add_library(fast MODULE module.c)\n"
                f"target_link_libraries(fast PUBLIC part {name} homefree::module)\n"
                "homefree_exports(fast)\n"
            )
            (source / "part.c").write_text(
                "void *_Znwm(unsigned long);\nvoid *part(void);\n"
                "void *part(void) { return _Znwm(1); }\n"
            )
            (source / "module.c").write_text(
                "void *part(void);\nvoid *PyInit_fast(void);\n"
                "void *PyInit_fast(void) { return part(); }\n"
            )
            with self.subTest(name):
                build, result = self.configure(source=source)
                self.assertEqual(result.returncode, 0, result.stdout)
                self.must("cmake", "--build", build)
                undefined = self.must("nm", "-D", "--undefined-only", build / "libfast.so")
                self.assertNotIn("_Znwm", undefined)

    def test_a_name_that_is_no_module_stops_the_build_with_one_line(self):
        source = self.project()
        with open(source / "CMakeLists.txt", "a") as lists:
            lists.write('set_target_properties(fast PROPERTIES OUTPUT_NAME "not-a-module")\n')
        build, result = self.configure(source=source)
        self.assertEqual(result.returncode, 0, result.stdout)
        result = call("cmake", "--build", build, "--target", "fast")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("homefree exports: 'not-a-module' is not a Python module name", result.stdout)

    def test_wrong_calls_are_named(self):
        for line, message in [
            ("homefree_exports(nothing)", "'nothing' is not a target"),
            ("homefree_exports(fast)", "'fast' was given twice"),
            ("homefree_exports(other VERSION)", "VERSION needs a value"),
            ("homefree_exports(other NODE x)", "unknown argument 'NODE;x'"),
            ("add_library(s STATIC fast.c)\nhomefree_exports(s)", "not a module or shared library"),
            ("homefree_exports(homefree::heap)", "not a module or shared library"),
        ]:
            source = self.project(below="add_library(deep MODULE ../fast.c)\n" + line + "\n")
            _, result = self.configure(source=source)
            self.assertNotEqual(result.returncode, 0, line)
            self.assertIn(message, " ".join(result.stdout.split()))

    def test_wrong_calls_of_the_one_line_are_named(self):
        """No language is enabled, so that each project is configured at once."""
        imported = "add_library({} MODULE IMPORTED)\n"
        for line, message in [
            ("homefree_module(nothing)", "homefree_module: 'nothing' is not a target"),
            ("homefree_module(homefree::heap)", "not a module or shared library"),
            ("homefree_add_module(a.b a.c)", "'a.b' is not the name of a module"),
            ("homefree_add_module(a-b a.c)", "'a-b' is not the name of a module"),
            ("homefree_add_module(1a a.c)", "'1a' is not the name of a module"),
            ("homefree_add_module(a)", "(a): it needs at least one source file"),
            ("homefree_add_module(a VERSION N)", "(a): it needs at least one source file"),
            ("homefree_add_module(a a.c DESTINATION)", "DESTINATION needs a value"),
            ("homefree_add_module(a a.c COMPONENT c)", "(a): COMPONENT goes with DESTINATION"),
            ("homefree_add_module(a a.c)", "find_package(Python COMPONENTS Interpreter Dev"),
            (imported.format("a") + "homefree_add_module(a a.c)", "use homefree_module(a)"),
        ]:
            source = self.directory / "wrong"
            source.mkdir(exist_ok=True)
            (source / "CMakeLists.txt").write_text(
                "cmake_minimum_required(VERSION 3.15)\nproject(user NONE)\n"
                f"find_package(homefree REQUIRED)\n{line}\n"
            )
            _, result = self.configure(source=source)
            self.assertNotEqual(result.returncode, 0, line)
            self.assertIn(message, " ".join(result.stdout.split()))

    def test_a_module_without_its_init_function_does_not_build(self):
        source = self.project(
            "cmake_minimum_required(VERSION 3.15)\nproject(user C)\n"
            "find_package(homefree REQUIRED)\n"
            "add_library(slow MODULE fast.c)\nset_target_properties(slow PROPERTIES PREFIX '')\n"
            "target_link_libraries(slow m)\n"  # not with PRIVATE: both ways are served
            "homefree_module(slow)\n".replace("''", '""')
        )
        build, result = self.configure(source=source)
        self.assertEqual(result.returncode, 0, result.stdout)
        result = call("cmake", "--build", build)
        self.assertNotEqual(result.returncode, 0)
        message = (
            "slow.so' defines no PyInit_slow and no PyModExport_slow, so Python cannot import it"
        )
        self.assertIn(message, result.stdout)

    def test_a_wheels_module_is_installed_with_its_stub_in_the_named_component(self):
        """Builds that install one component alone would otherwise leave the module out: pyzmq."""
        config = self.prefix / self.libdir / "cmake" / "homefree" / "homefree-config.cmake"
        text = config.read_text()
        config.write_text(text.replace("if(FALSE)", "if(TRUE)"))
        stub = self.prefix / "missing" / "libhomefree.so.1"
        stub.parent.mkdir()
        stub.write_text("stub")
        for words in "", "COMPONENT mine ":
            source = self.project(
                "cmake_minimum_required(VERSION 3.15)\nproject(user C)\n"
                "find_package(homefree REQUIRED)\n"
                "add_library(fast MODULE fast.c)\n"
                'set_target_properties(fast PROPERTIES PREFIX "")\n'
                f"homefree_module(fast DESTINATION package {words})\n"
            )
            build, result = self.configure(source=source)
            self.assertEqual(result.returncode, 0, result.stdout)
            self.must("cmake", "--build", build)
            for component in "mine", "Unspecified":
                place = self.directory / component
                shutil.rmtree(place, ignore_errors=True)
                self.must("cmake", "--install", build, "--prefix", place, "--component", component)
                found = sorted(str(path.relative_to(place)) for path in place.rglob("*.so*"))
                wanted = ["package/fast.needs/libhomefree.so.1", "package/fast.so"]
                with self.subTest(words=words, component=component):
                    named = "mine" if words else "Unspecified"
                    self.assertEqual(found, wanted if component == named else [])

    @unittest.skipIf(VERSION < (3, 19), "CMake defers no calls before 3.19")
    def test_libraries_that_are_named_later_are_linked_before_the_shim(self):
        """What a static library calls is found in archives behind it alone."""
        source = self.project(
            "cmake_minimum_required(VERSION 3.19)\nproject(user C)\n"
            "find_package(homefree REQUIRED)\n"
            "set(CMAKE_POSITION_INDEPENDENT_CODE ON)\n"
            "add_library(inner STATIC inner.c)\n"
            "add_library(part STATIC part.c)\n"
            "target_link_libraries(part PRIVATE inner)\n"
            "add_library(fast MODULE module.c)\n"
            "homefree_module(fast)\n"
            "target_link_libraries(fast PRIVATE part)\n"
        )
        call_of = "void *{0}(void);\nvoid *{1}(void);\nvoid *{1}(void) {{ return {0}(); }}\n"
        (source / "inner.c").write_text(call_of.format("hf_stand_in_shim", "inner"))
        (source / "part.c").write_text(call_of.format("inner", "part"))
        (source / "module.c").write_text(call_of.format("part", "PyInit_fast"))
        build, result = self.configure(source=source)
        self.assertEqual(result.returncode, 0, result.stdout)
        self.must("cmake", "--build", build)
        undefined = self.must("nm", "-D", "--undefined-only", build / "libfast.so")
        self.assertNotIn("hf_stand_in_shim", undefined)

    def test_an_installation_of_copies_has_no_development_link(self):
        (self.prefix / self.libdir / "libhomefree.so").unlink()
        build, result = self.configure()
        self.assertEqual(result.returncode, 0, result.stdout)
        self.must("cmake", "--build", build)

    def test_a_file_that_is_missing_is_named(self):
        (self.prefix / self.libdir / "libhomefree_shim.a").unlink()
        _, result = self.configure()
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("lacks", result.stdout)
        self.assertIn("libhomefree_shim.a", result.stdout)

    @unittest.skipIf(VERSION < (3, 19), "CMake knows no ranges of versions before 3.19")
    def test_versions(self):
        for version, good in [
            ("", True),
            ("1", True),
            ("1.0", True),
            ("1.0.0 EXACT", True),
            ("0.9", False),
            ("2", False),
            ("99.1", False),
            ("1.0...<2", True),
            ("0.5...<1", False),
            ("0.5...1.0.0", True),
            ("2...3", False),
        ]:
            build = self.directory / "versions"
            shutil.rmtree(build, ignore_errors=True)
            source = self.directory / "find"
            source.mkdir(exist_ok=True)
            (source / "CMakeLists.txt").write_text(
                "cmake_minimum_required(VERSION 3.19)\nproject(user C)\n"
                f"find_package(homefree {version} REQUIRED)\n"
            )
            result = call(
                "cmake",
                "-G",
                "Ninja",
                "-S",
                source,
                "-B",
                build,
                f"-Dhomefree_DIR={self.prefix / self.libdir / 'cmake' / 'homefree'}",
            )
            self.assertEqual(result.returncode == 0, good, f"{version}: {result.stdout}")


if __name__ == "__main__":
    if len(BUILT) != 3:
        sys.exit(__doc__)
    if shutil.which("cmake") is None or shutil.which("ninja") is None:
        print("needs cmake and ninja")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
