"""What was built has the names it should have and no others: the archive, the library and modules.

The shim must define every function of functions.def, hidden, and nothing else that a module could
export; the library must export exactly what the headers declare; a C module must not come to need
libstdc++, a module exports what its version script says, and says that it needs libc.

Usage: test_built.py --functions FILE --archive FILE --library FILE --include DIRECTORY --map FILE
                     --entries FILE --c-modules FILE… --cxx-modules FILE… [unittest arguments]
"""

import argparse
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

parser = argparse.ArgumentParser()
for option in ("functions", "archive", "library", "include", "map", "entries"):
    parser.add_argument(f"--{option}", required=True, type=Path)
parser.add_argument("--asks", required=True)
parser.add_argument("--c-modules", nargs="+", required=True)
parser.add_argument("--cxx-modules", nargs="+", required=True)

# Exported so that copies of the library and `homefree doctor --pid` find them; not for users.
INTERNAL = {"hf_instance_record", "hf_live_state", "hf_loader_lock_call"}
NODE = "HOMEFREE_1.0"
# Seven thread-local pointers of ours: glibc keeps little more room for late libraries.
STATIC_TLS_MAX = 56


def readelf(*arguments):
    return subprocess.run(
        ["readelf", "--wide", *arguments], check=True, text=True, stdout=subprocess.PIPE
    ).stdout


def symbols(table):
    """The symbols in readelf's output: (binding, visibility, section, name)."""
    row = re.compile(
        r"\s*\d+:\s+[0-9a-f]+\s+\S+\s+\S+"
        r"\s+(\S+)\s+(\S+)\s+(?:\[.*?\]\s+)?(\S+)\s+(\S+)(?: \(\d+\))?$"
    )
    return [match.groups() for match in map(row.match, table.splitlines()) if match]


def exports(path):
    """The names that an object exports, without versions."""
    return {
        name.split("@")[0]
        for binding, visibility, section, name in symbols(readelf("--dyn-syms", path))
        if binding != "LOCAL" and visibility == "DEFAULT" and section not in ("UND", "ABS")
    }


def needed(path):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic", path))


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def shim_names():
    listed = re.findall(
        r"^HF_(?:SHIM|MALLOC_FAMILY|SHIM_VARIADIC|NEW|DELETE)\((\w+),",
        arguments.functions.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert len(listed) == len(set(listed)), "a function is listed twice"
    return set(listed)


class Archive(unittest.TestCase):
    def setUp(self):
        self.symbols = symbols(readelf("--symbols", arguments.archive))

    def test_defines_every_listed_function_hidden(self):
        hidden = {
            name
            for binding, visibility, section, name in self.symbols
            if binding == "GLOBAL" and visibility == "HIDDEN" and section != "UND"
        }
        self.assertEqual(shim_names() - hidden, set())
        self.assertGreater(len(hidden), 40)

    def test_defines_nothing_that_could_be_exported(self):
        # Compilers add these for exceptions; they are hidden and the same everywhere.
        others = {
            name
            for binding, visibility, section, name in self.symbols
            if binding != "LOCAL"
            and section != "UND"
            and name not in shim_names()
            and not name.startswith(("DW.ref.", "__clang_call_terminate"))
        }
        self.assertEqual(others, set())
        visible = {
            name
            for binding, visibility, section, name in self.symbols
            if binding != "LOCAL" and section != "UND" and visibility != "HIDDEN"
        }
        self.assertEqual(visible, set())

    def test_c_part_needs_no_cxx_runtime(self):
        members = subprocess.run(
            ["nm", "--undefined-only", arguments.archive],
            check=True,
            text=True,
            stdout=subprocess.PIPE,
        ).stdout
        for member in re.split(r"\n(?=\S+:\n)", members):
            if "module" in member.lstrip().split(":")[0]:
                self.assertNotRegex(member, r" U (_Z|__cxa_(?!finalize\b)|__gxx)")
                return
        self.fail("no member of module.c")


class Library(unittest.TestCase):
    def test_headers_map_and_exports_are_one_list(self):
        headers = sorted(arguments.include.rglob("*.h"))
        text = without_comments("".join(header.read_text("utf-8") for header in headers))
        declared = set(re.findall(r"^HF_API\b[^;{]*?\b(hf_\w+)(?:\(|;)", text, re.MULTILINE))
        node, listed = re.match(
            r"(\S+) \{\s*global:(.*?)local:\s*\*;",
            without_comments(arguments.map.read_text("utf-8")).strip(),
            re.DOTALL,
        ).groups()
        mapped = set(re.findall(r"\w+", listed.replace("hf_adopted_*;", "")))
        self.assertEqual(node, NODE)
        self.assertGreater(len(declared), 30)
        self.assertEqual(mapped - INTERNAL, declared)
        built = {
            name
            for binding, visibility, section, name in symbols(
                readelf("--dyn-syms", arguments.library)
            )
            if binding != "LOCAL" and section not in ("UND", "ABS")
        }
        own = {f"{name}@@{NODE}" for name in mapped}
        self.assertEqual({name for name in built if not name.startswith("hf_adopted_")}, own)

    def test_serves_every_entry_point_of_hidden_allocators(self):
        listed = arguments.entries.read_text("utf-8")
        functions = set(re.findall(r"^HF_ENTRY\(\w+, \S+, (\w+), \w+\)", listed, re.MULTILINE))
        self.assertGreater(len(functions), 40)
        self.assertEqual(functions - exports(arguments.library), set())

    def test_needs_only_libc(self):
        # Before glibc 2.34, some of its functions are in libraries of their own.
        allowed = re.compile(r"lib(c|dl|pthread|rt)\.so\.\d|ld-linux.*\.so\.\d|ld64\.so\.\d")
        self.assertEqual(
            [name for name in needed(arguments.library) if not allowed.fullmatch(name)], []
        )

    def test_dynamic_section(self):
        """What every object has is in tests/loader/hardening."""
        dynamic = readelf("--dynamic", arguments.library)
        self.assertNotRegex(dynamic, r"\((RPATH|RUNPATH)\)")
        self.assertRegex(dynamic, r"\(FLAGS_1\).*NODELETE")
        self.assertRegex(dynamic, r"\(SONAME\).*\[libhomefree\.so\.1\]")

    def test_thread_local_storage(self):
        (size,) = re.findall(
            r"^\s+TLS\s+\S+ \S+ \S+ \S+ (\S+)",
            readelf("--segments", arguments.library),
            re.MULTILINE,
        )
        self.assertLessEqual(int(size, 16), STATIC_TLS_MAX)


class Modules(unittest.TestCase):
    def test_export_what_the_script_says(self):
        for module in arguments.c_modules:
            self.assertEqual(exports(module), {"module_functions", "module_idioms"}, module)
        for module in arguments.cxx_modules:
            self.assertEqual(exports(module), {"module_cxx_functions"}, module)

    def test_ask_nobody_for_what_the_shim_has(self):
        for module in arguments.c_modules + arguments.cxx_modules:
            asked = {
                name.split("@")[0]
                for _, _, section, name in symbols(readelf("--dyn-syms", module))
                if section == "UND"
            }
            self.assertEqual(asked & shim_names(), set(), module)

    def test_need_what_they_use(self):
        for module in arguments.c_modules:
            self.assertEqual(
                [name for name in needed(module) if "stdc++" in name or "gcc" in name], [], module
            )
            self.assertIn("libhomefree.so.1", needed(module))

    def test_a_module_does_not_need_a_newer_glibc_for_dlsym(self):
        # From glibc 2.34 on, a reference to dlsym has that version.
        for module in arguments.cxx_modules:
            names = {name.split("@")[0] for *_, name in symbols(readelf("--dyn-syms", module))}
            self.assertNotIn("dlsym", names)


class Linkers(unittest.TestCase):
    """What linkers make of modules, each linker that is here."""

    C = """
        #include <stdlib.h>
        void *give(void);
        void *give(void) { return malloc(7); }
        void take(void *);
        void take(void *block) { free(block); }
    """
    CXX = """
        #include <cstdlib>
        #include <cstring>
        extern "C" {
            int *make() { return new int[7]; }
            void *give() { return std::calloc(7, 3); }
            char *copy(const char *text) { return strdup(text); }
            void take(void *block) { std::free(block); }
        }
    """

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)
        (self.directory / "greet.c").write_text(self.C)
        (self.directory / "greet.cc").write_text(self.CXX)

    def run_linker(self, linker, compiler, *words, **options):
        """The compiler takes `ld` from the directory after -B."""
        (self.directory / "ld").unlink(missing_ok=True)
        (self.directory / "ld").symlink_to(linker)
        command = [compiler, "-shared", "-fPIC", f"-B{self.directory}", *words]
        return subprocess.run(command, cwd=self.directory, check=False, **options).returncode

    def link(self, linker, source, *flags, compiler=None):
        """The module."""
        module = self.directory / "greet.so"
        compiler = compiler or ("cc" if source.endswith(".c") else "c++")
        words = [source, "-Wl,--as-needed", *flags, arguments.archive.resolve()]
        words += [arguments.library.resolve(), "-o", module]
        self.assertEqual(self.run_linker(linker, compiler, *words), 0)
        return module

    def optimises(self, linker, compiler):
        """Some linkers need a part of the compiler for it, which may not be installed."""
        (self.directory / "empty.c").write_text("int empty;")
        words = ["-flto", "empty.c", "-o", self.directory / "empty.so"]
        return self.run_linker(linker, compiler, *words, stderr=subprocess.DEVNULL) == 0

    def test_module_needs_libc_in_its_first_version(self):
        linkers = [shutil.which(f"ld.{name}") for name in ("bfd", "gold", "lld", "mold")]
        self.assertTrue(any(linkers))
        # lld with --gc-sections counts what relocations refer to. Start files may refer to libc.
        variants = [], ["-Wl,--gc-sections"], ["-Wl,--gc-sections", "-nostartfiles"]
        for compiler in filter(shutil.which, ("cc", "clang")):
            for linker in filter(None, linkers):
                for flags in variants:
                    with self.subTest(compiler=compiler, linker=linker, flags=flags):
                        module = self.link(
                            linker, "greet.c", "-fno-builtin", *flags, compiler=compiler
                        )
                        self.assert_needs_libc(module)

    def test_optimised_module_needs_libc(self):
        """With link-time optimisation, a linker chooses archive members more than once."""
        gcc = "gcc version" in self.version("cc")
        pairs = [("cc", name) for name in ("bfd", "gold", "mold") if gcc]
        pairs += [("clang", name) for name in ("gold", "lld", "mold")]
        for compiler, name in pairs:
            linker = shutil.which(f"ld.{name}")
            for flags in [], ["-nostartfiles"]:
                with self.subTest(compiler=compiler, linker=name, flags=flags):
                    if not shutil.which(compiler) or not linker:
                        self.skipTest(f"{compiler} or {name} is not installed")
                    if not self.optimises(linker, compiler):
                        self.skipTest(f"{name} cannot optimise for {compiler} here")
                    words = ["-O2", "-flto", "-Wl,--gc-sections", arguments.asks, *flags]
                    module = self.link(linker, "greet.c", *words, compiler=compiler)
                    self.assert_needs_libc(module)
                    asked = {row[3].split("@")[0] for row in symbols(readelf("--dyn-syms", module))}
                    self.assertEqual(asked & shim_names(), set())

    def assert_needs_libc(self, module):
        """In its first version, which is not later than that of any module."""
        self.assertEqual(sorted(needed(module)), ["libc.so.6", "libhomefree.so.1"])
        versions = set(re.findall(r"GLIBC_[\d.]+", readelf("--dyn-syms", module)))
        self.assertEqual(len(versions), 1, versions)
        self.assertIn(versions.pop(), ("GLIBC_2.2.5", "GLIBC_2.17"))

    def version(self, compiler):
        said = subprocess.run([compiler, "-v"], stderr=subprocess.PIPE, text=True, check=True)
        return said.stderr

    def test_link_time_optimisation(self):
        """GCC tells the linker about calls of malloc() and the like only when it has optimised."""
        if "gcc version" not in self.version("c++") or not shutil.which("ld.bfd"):
            self.skipTest("this is about GCC and GNU's linker")
        module = self.link(shutil.which("ld.bfd"), "greet.cc", "-O2", "-flto")
        asked = {name.split("@")[0] for *_, name in symbols(readelf("--dyn-syms", module))}
        self.assertEqual(asked & shim_names(), set())
        self.assertLessEqual({"hf_calloc", "hf_strdup", "hf_free"}, asked)

    def test_link_time_optimisation_beside_plain_objects(self):
        """Once libc is needed, GNU's linker no longer looks for members; what links the shim asks
        for them."""
        plain = self.directory / "plain.c"
        plain.write_text("#include <unistd.h>\nint process(void) { return getpid(); }")
        subprocess.run(["cc", "-c", "-fPIC", "plain.c"], cwd=self.directory, check=True)
        for linker in filter(None, (shutil.which(f"ld.{name}") for name in ("bfd", "gold"))):
            with self.subTest(linker=linker):
                module = self.link(linker, "greet.cc", "-O2", "-flto", "plain.o", arguments.asks)
                asked = {name.split("@")[0] for *_, name in symbols(readelf("--dyn-syms", module))}
                self.assertEqual(asked & shim_names(), set())
                self.assertLessEqual({"hf_calloc", "hf_strdup", "hf_free"}, asked)


if __name__ == "__main__":
    if platform.system() != "Linux":
        print("this test reads ELF files of Linux")
        sys.exit(77)
    arguments, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
