"""The crate `homefree` of shim/rust: its own tests, how its build script finds homefree, and a
Python module on it, in which Rust, C++ and Python free each other's memory.

usage: test_crate.py BUILD-DIRECTORY SOURCE-DIRECTORY [unittest's arguments]
"""

import ctypes
import gc
import importlib.machinery
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv[1]).resolve()
SOURCE = pathlib.Path(sys.argv[2]).resolve()

CARGO = shutil.which("cargo")
if CARGO is None or shutil.which("rustc") is None:
    print("cargo and rustc are missing; Debian's packages are cargo and rustc")
    sys.exit(77)


def environment(**more):
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(
            ("PYTHON", "PYO3", "HOMEFREE", "LD_", "PKG_CONFIG", "CARGO_", "RUST")
        )
        or name.startswith(("RUSTUP", "CARGO_HOME"))
    }
    return {**kept, "CARGO_NET_OFFLINE": "true", "NO_COLOR": "1", **more}


def run(*command, cwd=None, **more):
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=cwd, env=environment(**more), capture_output=True, text=True)


PLACE = pathlib.Path(tempfile.mkdtemp(prefix="homefree-rust-"))
VARIABLES = {
    "PYTHONPATH": str(BUILD / "python"),
    "PYO3_PYTHON": sys.executable,
    "CARGO_TARGET_DIR": str(PLACE / "target"),
    "CARGO_PROFILE_DEV_DEBUG": "0",
    "CARGO_PROFILE_TEST_DEBUG": "0",
}


def setUpModule():
    """Copies of the crate and the module, because Cargo writes beside what it builds."""
    unittest.addModuleCleanup(shutil.rmtree, PLACE)
    ignored = shutil.ignore_patterns("target", "Cargo.lock")
    shutil.copytree(SOURCE / "shim/rust", PLACE / "crate", ignore=ignored)
    shutil.copytree(SOURCE / "tests/rust/module", PLACE / "module", ignore=ignored)


def cargo(*words, directory, **more):
    result = run(CARGO, *words, cwd=PLACE / directory, **{**VARIABLES, **more})
    if result.returncode != 0 or "warning" in result.stderr:
        raise AssertionError(result.stdout + result.stderr)
    return result.stdout


class TestCrate(unittest.TestCase):
    def test_its_own_tests(self):
        # Before, examples in the documentation did not find the heap.
        version = run(CARGO, "--version").stdout.split()[1]
        documented = tuple(map(int, version.split(".")[:2])) >= (1, 80)
        words = [] if documented else ["--lib", "--tests"]
        said = cargo("test", "--offline", *words, directory="crate")
        self.assertEqual(said.count("test result: ok."), 3 if documented else 2, said)

    def test_style(self):
        for words in (["fmt", "--check"], ["clippy", "--all-features", "--", "-D", "warnings"]):
            if run(CARGO, words[0], "--version").returncode != 0:
                self.skipTest(f"cargo {words[0]} is missing")
            cargo(*words, directory="crate")

    def test_documentation(self):
        cargo("doc", "--offline", "--no-deps", directory="crate", RUSTDOCFLAGS="-D warnings")


class TestBuildScript(unittest.TestCase):
    """The build script alone, as Cargo starts it."""

    @classmethod
    def setUpClass(cls):
        cls.program = PLACE / "script"
        made = run("rustc", "--edition=2021", "-o", cls.program, PLACE / "crate/build.rs")
        assert made.returncode == 0, made.stderr

    def script(self, *, path="/nowhere", **more):
        out = pathlib.Path(tempfile.mkdtemp(dir=PLACE))
        variables = {
            "OUT_DIR": str(out),
            "CARGO_CFG_TARGET_OS": "linux",
            "CARGO_CFG_TARGET_ENV": "gnu",
            "CARGO_CFG_TARGET_ARCH": "x86_64",
            "PATH": path,
            "VIRTUAL_ENV": "/nowhere",
            **more,
        }
        return out, run(self.program, **variables)

    def works(self, **more):
        out, result = self.script(**more)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        lines = result.stdout.splitlines()
        self.assertIn("cargo:rustc-link-lib=static=homefree_shim", lines)
        self.assertIn("cargo:rustc-link-lib=dylib=homefree", lines)
        for name in ("libhomefree.so", "libhomefree.so.1", "libhomefree_shim.a"):
            self.assertTrue((out / "lib" / name).exists(), name)
        (argument,) = [line for line in lines if line.startswith("cargo:link_arg=")]
        return out, argument.partition("=")[2]

    def fails(self, *words, **more):
        _, result = self.script(**more)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("homefree: "))
        for word in words:
            self.assertIn(word, result.stderr)

    def test_python_knows(self):
        site = str(BUILD / "python")
        _, argument = self.works(PYO3_PYTHON=sys.executable, PYTHONPATH=site)
        self.assertIn(f"-rpath,{BUILD}/loader", argument)

    def test_pkg_config_knows(self):
        program = shutil.which("pkg-config")
        if program is None:
            self.skipTest("pkg-config is missing")
        directory = str(BUILD / "loader/pkgconfig")
        _, argument = self.works(PKG_CONFIG=program, PKG_CONFIG_PATH=directory)
        self.assertIn(f"-rpath,{BUILD}/loader", argument)

    def test_a_directory_is_named(self):
        self.works(HOMEFREE_LIB_DIR=str(BUILD / "loader"))

    def test_a_wheel_is_found_relative_to_the_module(self):
        site = PLACE / "site"
        package = site / "homefree"
        (package / "lib/homefree").mkdir(parents=True)
        (package / "missing").mkdir()
        shutil.copy(BUILD / "loader/libhomefree.so.1", package / "lib")
        shutil.copy(BUILD / "shim/libhomefree_shim.a", package / "lib")
        (package / "missing/libhomefree.so.1").write_text("a stub")
        rpath = (
            "--enable-new-dtags\n-rpath=$ORIGIN/../homefree/lib\n-rpath=$ORIGIN/homefree.needs\n"
        )
        (package / "lib/homefree/module.rpath").write_text(rpath)
        (package / "__init__.py").write_text("raise ImportError('only its place is asked')\n")
        (package / "_paths.py").write_text("LIBRARY, INCLUDE, MISSING = 'lib', '', 'missing'\n")
        out, argument = self.works(PYO3_PYTHON=sys.executable, PYTHONPATH=str(site))
        wanted = (
            "-Wl,--enable-new-dtags,-rpath,$ORIGIN/../homefree/lib,-rpath,$ORIGIN/homefree.needs"
        )
        self.assertEqual(argument, wanted)
        self.assertEqual((out / "homefree.needs/libhomefree.so.1").read_text(), "a stub")

    def test_an_earlier_build_is_replaced(self):
        link = PLACE / "again/lib/libhomefree.so"
        link.parent.mkdir(parents=True)
        link.symlink_to("/nowhere")
        again = {"OUT_DIR": str(link.parents[1]), "HOMEFREE_LIB_DIR": str(BUILD / "loader")}
        _, result = self.script(**again)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertTrue(link.exists())

    def test_the_c_plus_plus_runtime_comes_last(self):
        for given in ("", None, "c++"):
            more = {} if given is None else {"CXXSTDLIB": given}
            _, result = self.script(
                HOMEFREE_LIB_DIR=str(BUILD / "loader"), CARGO_FEATURE_CXX="1", **more
            )
            linked = [line for line in result.stdout.splitlines() if "rustc-link-lib=" in line]
            self.assertEqual(linked[-1], f"cargo:rustc-link-lib=dylib={given or 'stdc++'}")

    def test_there_is_none(self):
        self.fails("install its wheel", "HOMEFREE_LIB_DIR", "PYO3_PYTHON")

    def test_the_directory_is_wrong(self):
        self.fails("/nowhere/libhomefree.so.1", "HOMEFREE_LIB_DIR", HOMEFREE_LIB_DIR="/nowhere")

    def test_another_libc(self):
        self.fails("Linux with glibc", "linux musl", CARGO_CFG_TARGET_ENV="musl")

    def test_the_directory_has_a_comma(self):
        directory = PLACE / "a,b"
        directory.mkdir()
        shutil.copy(BUILD / "loader/libhomefree.so.1", directory)
        shutil.copy(BUILD / "shim/libhomefree_shim.a", directory)
        self.fails("comma", HOMEFREE_LIB_DIR=str(directory))


class TestModule(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cargo("build", "--offline", directory="module")
        cls.file = PLACE / "target/debug/libcrossing.so"
        sys.path.insert(0, str(BUILD / "python"))
        loader = importlib.machinery.ExtensionFileLoader("crossing", str(cls.file))
        spec = importlib.util.spec_from_loader("crossing", loader)
        cls.module = importlib.util.module_from_spec(spec)
        loader.exec_module(cls.module)
        cls.libc = ctypes.CDLL(None)
        cls.libc.malloc.restype = ctypes.c_void_p
        cls.libc.free.argtypes = [ctypes.c_void_p]

    def inspect(self):
        return run(BUILD / "loader/command/homefree", "inspect", self.file)

    def test_it_exports_its_init_function_alone(self):
        names = run("nm", "-D", "--defined-only", self.file).stdout.split()[2::3]
        self.assertEqual(names, ["PyInit_crossing"])

    def test_the_shim_serves_archives_that_come_later(self):
        """Nothing before the crate calls these, but another crate's C code may."""
        names = run("nm", self.file).stdout.split()
        for name in ("reallocarray", "memalign", "strndup"):
            self.assertEqual(names[names.index(name) - 1], "t")

    def test_inspect_finds_nothing(self):
        found = self.inspect()
        self.assertEqual((found.returncode, found.stderr), (0, ""), found.stdout)
        self.assertIn("linked with homefree", found.stdout)

    def test_libc_frees_what_rust_allocated(self):
        for size in (1, 64, 5000, 3_000_000):
            address = self.module.give(size)
            self.assertTrue(self.module.owns(address))
            self.assertEqual(ctypes.string_at(address, size), b"\7" * size)
            self.libc.free(address)

    def test_cpython_frees_what_rust_allocated(self):
        address = self.module.give(64)
        ctypes.pythonapi.PyMem_RawFree(ctypes.c_void_p(address))

    def test_rust_grows_and_frees_what_others_allocated(self):
        total = 9 * 6400
        address = self.libc.malloc(64)
        self.assertFalse(self.module.owns(address))
        self.assertEqual(self.module.take(address), total)
        allocate = ctypes.pythonapi.PyMem_RawMalloc
        allocate.restype = ctypes.c_void_p
        self.assertEqual(self.module.take(allocate(ctypes.c_size_t(64))), total)
        self.assertEqual(self.module.take(self.module.give(64)), total)

    def test_c_plus_plus_in_the_module_uses_the_heap(self):
        for allocate in (self.module.cxx_malloc, self.module.cxx_new):
            address = allocate(64)
            self.assertTrue(self.module.owns(address), allocate.__name__)
            self.assertEqual(self.module.take(address), 9 * 6400)
        self.module.cxx_delete(self.module.give(100))
        self.libc.free(self.module.cxx_new(100))
        self.assertGreaterEqual(self.module.cxx_string(10_000), 10_000)

    def test_a_capsule_drops_what_it_owns(self):
        before = self.module.dropped()
        words = self.module.capsule(1000)
        self.assertEqual(self.module.dropped(), before)
        del words
        gc.collect()
        self.assertEqual(self.module.dropped(), before + 1000)

    def test_threads_of_rust_free(self):
        self.assertEqual(self.module.threads(8), sum(n * (100 + n) for n in range(8)))

    def test_too_much_is_a_memory_error(self):
        with self.assertRaises(MemoryError):
            self.module.give(1 << 62)


class TestRuntimeFirst(unittest.TestCase):
    """The C++ runtime in front of homefree, as the crate `cc` links it unless told otherwise."""

    def test_inspect_says_so(self):
        cargo("build", "--offline", directory="module", CROSSING_RUNTIME_FIRST="1")
        file = PLACE / "target/debug/libcrossing.so"
        found = run(BUILD / "loader/command/homefree", "inspect", file)
        self.assertEqual(found.returncode, 1, found.stdout)
        self.assertIn("allocates-elsewhere", found.stdout)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
