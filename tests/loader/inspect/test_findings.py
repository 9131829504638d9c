"""Every rule finds what it is for, in modules that are built for it and in real ones, and nothing
in what is clean.

Usage: test_findings.py HOMEFREE LIBRARY SHIM [unittest arguments]
"""

import ctypes.util
import json
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from command import CC, LIBRARY, MODULE, MULTIARCH, ONLY_INIT, SHIM, InspectTest, inspect, main

# Names that give away a hidden allocator. These doubles do nothing, because only the names count.
DOUBLES = {
    "jemalloc": ("private_mallctl", "private_"),
    "mimalloc": ("mi_malloc", ""),
    "tcmalloc": ("tc_malloc", ""),
    "rpmalloc": ("rpmalloc_initialize", ""),
    "snmalloc": ("sn_rust_alloc", ""),
    "tbbmalloc": ("scalable_malloc", ""),
}
STRINGS = {
    "jemalloc": "<jemalloc>: %s: Error in munmap(): ",
    "mimalloc": "mimalloc: warning: ",
    "tcmalloc": "MALLOC: + %12u (%7.1f MiB) Bytes in central cache freelist",
    "tbbmalloc": "TBBmalloc: SPECIFICATION VERSION\\t1.0",
}
KEEP = '__attribute__((used, visibility("%s")))'


def libtorch(test):
    """The system's libtorch, of any release."""
    found = sorted(MULTIARCH.glob("libtorch_cpu.so.*"))
    if not found:
        test.skipTest("libtorch is not installed")
    return found[0]


class Clean(InspectTest):
    def test_a_module_that_exports_its_init_function(self):
        module = self.build("it.so", script=ONLY_INIT)
        facts = self.facts(module)
        self.assertEqual(facts["findings"], [])
        self.assertEqual(facts["module"], "it")
        self.assertEqual(facts["kind"], "shared object")
        self.assertEqual(facts["exports"], 1)
        self.assertEqual(facts["homefree"], {"itself": False, "linked": False, "needed": None})
        self.assertEqual(inspect(module).returncode, 0)

    def test_a_module_that_is_linked_with_homefree(self):
        source = MODULE + "#include <stdlib.h>\nvoid *keep; void f(void) { keep = malloc(1); }"
        module = self.build("it.so", source, SHIM, LIBRARY, "-lpthread", script=ONLY_INIT)
        facts = self.facts(module)
        self.assertEqual(facts["findings"], [])
        self.assertEqual(facts["allocators"], [])
        self.assertTrue(facts["homefree"]["linked"])
        self.assertEqual(facts["homefree"]["needed"], "HOMEFREE_1.0")

    def test_a_module_that_is_linked_with_homefree_too_late(self):
        """-lstdc++ has operator new, so the shim's is not taken; malloc still is."""
        source = (
            MODULE
            + "#include <stdlib.h>\nvoid *keep, *_Znwm(unsigned long);"
            + "void f(void) { keep = malloc(1); keep = _Znwm(1); }"
        )
        late = self.build("late.so", source, "-lstdc++", SHIM, LIBRARY, script=ONLY_INIT)
        self.assert_rules(late, "allocates-elsewhere")
        (finding,) = self.facts(late)["findings"]
        self.assertEqual(finding["names"], ["_Znwm"])
        self.assert_rules(self.build("it.so", source, SHIM, LIBRARY, "-lstdc++", script=ONLY_INIT))

    def test_libhomefree(self):
        facts = self.facts(LIBRARY)
        self.assertEqual(facts["findings"], [])
        self.assertTrue(facts["homefree"]["itself"])

    def test_who_only_asks_an_allocator(self):
        """Calling jemalloc's interface, or configuring it, does not make a module contain it."""
        source = (
            MODULE
            + """
        int mallctl(const char *, void *, void *, void *, unsigned long) __attribute__((weak));
        void mi_free(void *) __attribute__((weak));
        const char *malloc_conf = "narenas:1";
        const char *property = "tcmalloc.max_total_thread_cache_bytes";
        void ask(void) { if (mallctl) mallctl("epoch", 0, 0, 0, 0); if (mi_free) mi_free(0); }
        """
        )
        self.assert_rules(self.build("it.so", source, script=ONLY_INIT))
        self.assertEqual(self.facts(self.directory / "it.so")["allocators"], [])


class Members(InspectTest):
    """Allocators in the registry, which readers need not guess; tests/registry has hostile ones."""

    SOURCE = Path(__file__).parents[3]

    def member(self, name, more="", names=("first", "second")):
        """Two members, and what else gives an allocator away."""
        source = (self.SOURCE / "tests/registry/member.c").read_text()
        source = source.replace('"first"', f'"{names[0]}"').replace('"second"', f'"{names[1]}"')
        include = f"-I{self.SOURCE / 'include'}"
        return self.build(name, f"{source}\n{MODULE}\n{more}", include, script=ONLY_INIT)

    def test_what_a_member_offers(self):
        module = self.member("it.so")
        first = {"name": "first", "release": "1.0", "offers": ["allocate"]}
        second = {"name": "second", "release": None, "offers": []}
        self.assertEqual(
            self.facts(module)["members"],
            [{**first, "flags": ["TELLS_FIRST"]}, {**second, "flags": []}],
        )
        self.assertEqual(inspect(module).returncode, 0)
        text = inspect(module).stdout.decode()
        self.assertIn(
            "note     registry-member  it publishes first 1.0 in the registry, with", text
        )
        self.assertIn("it publishes second in the registry\n", text)
        results = json.loads(inspect("--sarif", "-", module).stdout)["runs"][0]["results"]
        self.assertEqual({result["ruleId"] for result in results}, {"registry-member"})
        self.assertEqual(inspect("--fail-on", "registry-member", module).returncode, 1)

    def test_its_allocator_is_not_warned_of(self):
        for name, (symbol, _) in DOUBLES.items():
            with self.subTest(name):
                double = f"{KEEP % 'hidden'} void {symbol}(void) {{}}"
                facts = self.facts(self.member("it.so", double))
                self.assertEqual([one["name"] for one in facts["allocators"]], [name])
                rules = {finding["rule"] for finding in facts["findings"]}
                self.assertEqual(rules, {"registry-member"})

    def test_another_allocator_in_the_file_is_warned_of(self):
        """A member that is called jemalloc answers for no mimalloc."""
        doubles = "".join(
            f"{KEEP % 'hidden'} void {DOUBLES[name][0]}(void) {{}}\n"
            for name in ("jemalloc", "mimalloc")
        )
        for first, warned in (("jemalloc", ["mimalloc"]), ("other", [])):
            with self.subTest(first):
                facts = self.facts(self.member("it.so", doubles, names=(first, "tcmalloc")))
                found = {one["name"]: one["published"] for one in facts["allocators"]}
                self.assertEqual(found, {"jemalloc": True, "mimalloc": not warned})
                texts = [
                    finding["message"]
                    for finding in facts["findings"]
                    if finding["rule"] == "embedded-allocator"
                ]
                self.assertEqual([name for name in warned if name in str(texts)], warned)
                self.assertEqual(len(texts), len(warned))

    def test_no_members(self):
        self.assertEqual(self.facts(self.build("it.so", script=ONLY_INIT))["members"], [])


class Allocators(InspectTest):
    def allocator(self, file):
        (found,) = self.facts(file)["allocators"]
        return found

    def test_hidden_symbols(self):
        for name, (symbol, prefix) in DOUBLES.items():
            with self.subTest(name):
                source = f"{MODULE}\n{KEEP % 'hidden'} void {symbol}(void) {{}}"
                module = self.build("it.so", source, script=ONLY_INIT)
                found = self.allocator(module)
                self.assertEqual(
                    found,
                    {
                        "name": name,
                        "by": "symbol",
                        "evidence": symbol,
                        "prefix": prefix,
                        "exported": False,
                        "published": False,
                    },
                )
                self.assert_rules(module, "embedded-allocator")
                self.assertEqual(inspect(module).returncode, 1)

    def test_free_of_its_own(self):
        """Memory of libc's that reaches the module's own hidden free() causes a bare SIGSEGV."""
        frees = (
            "#include <stddef.h>\nchar *strdup(const char *);\n"
            "ptrdiff_t getline(char **, size_t *, void *);\n"
            "%s void free(void *ptr) { *(void *volatile *)ptr = 0; }\n"
            "void work(char **line, size_t *n) { getline(line, n, 0); free(strdup(*line)); }\n"
        )
        hidden = f"{MODULE}\n{frees % ''} {KEEP % 'default'} void je_mallctl(void) {{}}"
        with self.subTest("hidden"):
            module = self.build("it.so", hidden, "-fno-builtin", script=ONLY_INIT)
            found = self.findings(module)["own-free"]
            self.assertEqual(set(found["names"]), {"strdup", "getline"})
        with self.subTest("stripped"):
            text = f'{hidden}\nconst char *volatile text = "{STRINGS["jemalloc"]}";'
            module = self.build("it.so", text, "-s", "-fno-builtin", script=ONLY_INIT)
            self.assertEqual(set(self.findings(module)["own-free"]["names"]), {"strdup", "getline"})
        with self.subTest("exported"):
            self.assertNotIn("own-free", self.findings(self.build("it.so", hidden)))
        with self.subTest("libc's"):
            source = f"{MODULE}\n{frees % 'void free(void *);'}".replace(
                "void free(void *ptr) { *(void *volatile *)ptr = 0; }", ""
            )
            module = self.build("it.so", source, script=ONLY_INIT)
            self.assertNotIn("own-free", self.findings(module))

    def test_static_symbols(self):
        source = f"{MODULE}\n{KEEP % 'default'} static void _rjem_mallctl(void) {{}}"
        found = self.allocator(self.build("it.so", source, script=ONLY_INIT))
        self.assertEqual((found["name"], found["prefix"]), ("jemalloc", "_rjem_"))

    def test_exported_symbols(self):
        source = f"{MODULE}\n{KEEP % 'default'} void je_mallctl(void) {{}}"
        module = self.build("it.so", source)
        self.assertTrue(self.allocator(module)["exported"])
        self.assert_rules(module, "embedded-allocator", "extra-exports")

    def test_strings_of_a_stripped_module(self):
        for name, text in STRINGS.items():
            for shape in "sections", "no sections":
                with self.subTest(name, shape=shape):
                    source = f'{MODULE}\nconst char *volatile text = "{text}";'
                    module = self.build("it.so", source, "-s", script=ONLY_INIT)
                    if shape == "no sections":
                        image = bytearray(module.read_bytes())
                        image[40:48] = bytes(8)  # e_shoff
                        image[60:64] = bytes(4)  # e_shnum, e_shstrndx
                        module.write_bytes(image)
                    found = self.allocator(module)
                    self.assertEqual((found["name"], found["by"]), (name, "string"))
                    self.assert_rules(module, "embedded-allocator")

    def test_a_list_of_allocators(self):
        """A file that contains the strings of all allocators looks for them, as homefree does."""
        text = "; ".join(STRINGS.values())
        module = self.build(
            "it.so", f'{MODULE}\nconst char *volatile text = "{text}";', script=ONLY_INIT
        )
        self.assertEqual(self.facts(module)["allocators"], [])
        self.assert_rules(module)

    def test_strings_wherever_they_lie(self):
        """Strings across the border of two reads, at the beginning and at the end."""
        text = "<jemalloc>: "
        for before in 0, 1, 250_000, 262_144 - 6, 262_144 - 1, 262_144, 300_000, 524_288 - 11:
            with self.subTest(before):
                source = f"""{MODULE}
                const struct {{ char before[{before} + 1], text[12]; }} it =
                    {{ .before = {{1}}, .text = {{{", ".join(str(ord(c)) for c in text)}}} }};
                """
                module = self.build("it.so", source, "-s", script="{ local: *; };")
                self.assertEqual(self.allocator(module)["name"], "jemalloc")

    def test_a_real_one_in_a_module(self):
        """The build's own jemalloc, linked into a module as others do it."""
        archive = os.environ.get("JEMALLOC_ARCHIVE")
        if archive is None:
            self.skipTest("$JEMALLOC_ARCHIVE names no archive")
        names = subprocess.run(["nm", "-u", archive], capture_output=True, text=True, check=True)
        ours = {
            word for word in names.stdout.split() if word.startswith("hf_") and "je_" not in word
        }
        # The linker refuses a symbol of another type.
        thread_local = {"hf_gate_own", "hf_gate_inside"}
        source = MODULE + "".join(
            f"{KEEP % 'hidden'} {'__thread' if name in thread_local else ''} char {name}[64];"
            for name in ours
        )
        for flags, by in ([], "symbol"), (["-s"], "string"):
            with self.subTest(by):
                flags = [*flags, "-Wl,--whole-archive", archive, "-Wl,--no-whole-archive"]
                module = self.build("it.so", source, *flags, "-lpthread", script=ONLY_INIT)
                found = self.allocator(module)
                self.assertEqual((found["name"], found["by"]), ("jemalloc", by))
                self.assertEqual(found["prefix"], "hf_je_" if by == "symbol" else None)
                self.assertFalse(found["exported"])

    def test_shared_libraries(self):
        for library, name, rules in (
            ("libjemalloc.so.2", "jemalloc", {"static-tls-too-large", "exported-allocator"}),
            (ctypes.util.find_library("mimalloc"), "mimalloc", {"exported-allocator"}),
            ("libtcmalloc_minimal.so.4", "tcmalloc", {"exported-allocator"}),
            ("libtbbmalloc.so.2", "tbbmalloc", set()),
        ):
            with self.subTest(library):
                path = MULTIARCH / (library or name)
                if not path.exists():
                    self.skipTest(f"{library or name} is not installed")
                self.assertEqual(self.allocator(path)["name"], name)
                self.assertEqual(set(self.findings(path)), rules | {"embedded-allocator"})


class Exports(InspectTest):
    def test_allocator_functions(self):
        source = (
            MODULE
            + """
        void *malloc(unsigned long n) { return (void *)n; }
        void free(void *p) { (void)p; }
        void hidden(void) __asm__("_Znwm") __attribute__((visibility("hidden")));
        void hidden(void) {}
        void operator_delete(void) __asm__("_ZdlPvm");
        void operator_delete(void) {}
        """
        )
        module = self.build("it.so", source, "-fno-builtin", script="{ global: *; };")
        found = self.findings(module)["exported-allocator"]
        self.assertEqual(found["count"], 3)
        self.assertEqual(sorted(found["names"]), ["_ZdlPvm", "free", "malloc"])

    def test_more_than_the_init_function(self):
        source = MODULE + "\n".join(f"int api_{i}(void) {{ return {i}; }}" for i in range(9))
        source += "\nint _ZN1a1bEv(void) { return 1; }"
        module = self.build("it.so", source)
        found = self.findings(module)["extra-exports"]
        self.assertEqual(found["count"], 10)
        self.assertEqual(len(found["names"]), 5)
        self.assertTrue(all(name.startswith("api_") for name in found["names"]), found)
        self.assertIn("homefree exports", found["remedy"])
        self.assertIn("10 symbols besides PyInit_it", found["message"])

    def test_a_library_may_export(self):
        self.assert_rules(self.build("libplain.so", "int api(void) { return 1; }"))

    def test_which_module_it_is(self):
        two = MODULE + "void *PyInit_other(void) { return 0; }"
        self.assertEqual(self.facts(self.build("other.cpython-311.so", two))["module"], "other")
        self.assertEqual(self.facts(self.build("it.abi3.so", two))["module"], "it")
        self.assertIsNone(self.facts(self.build("libboth.so", two))["module"])
        self.assertEqual(self.facts(self.build("renamed.so"))["module"], "it")
        name = "void *PyInitU_n_3ua(void) { return 0; }"
        self.assertEqual(self.facts(self.build("ñ.so", name))["module"], "n_3ua")


class StaticTls(InspectTest):
    def build_used(self, size, model="initial-exec"):
        source = f"""{MODULE}
        static _Thread_local char block[{size}] __attribute__((tls_model("{model}")));
        char *PyInit_use(void); char *PyInit_use(void) {{ return block; }}
        """
        return self.build(f"it{size}{model}.so", source, script=ONLY_INIT)

    def test_by_size(self):
        self.assert_rules(self.build_used(500))
        self.assertIn("static-tls", self.findings(self.build_used(600)))
        self.assertIn("static-tls", self.findings(self.build_used(1664)))
        self.assertIn("static-tls-too-large", self.findings(self.build_used(1665)))
        self.assert_rules(self.build_used(100_000, "global-dynamic"))

    def test_facts(self):
        facts = self.facts(self.build_used(700))
        self.assertEqual(facts["tls"], {"bytes": 700, "static": True})
        facts = self.facts(self.build_used(700, "global-dynamic"))
        self.assertEqual(facts["tls"], {"bytes": 700, "static": False})

    def test_where_the_linker_says_nothing(self):
        """GNU's linker for aarch64 sets no DF_STATIC_TLS (2.40), so relocations must tell."""
        compiler = shutil.which("aarch64-linux-gnu-gcc")
        if compiler is None:
            self.skipTest("there is no cross compiler for aarch64")
        for model, static in ("initial-exec", True), ("global-dynamic", False):
            source = self.directory / "foreign.c"
            source.write_text(
                "_Thread_local char block[700]; char *use(void); char *use(void) { return block; }"
            )
            module = self.directory / f"{model}.so"
            command = [compiler, "-shared", "-fPIC", "-nostdlib", f"-ftls-model={model}"]
            subprocess.run([*command, source, "-o", module], check=True)
            self.assertEqual(self.facts(module)["tls"], {"bytes": 700, "static": static})

    def test_what_the_dynamic_linker_says(self):
        """glibc sets the limit: a module that is called too large cannot be loaded, half of it
        can."""
        for size, loads in (800, True), (4000, False):
            module = self.build_used(size)
            code = f"import ctypes; ctypes.CDLL({str(module)!r})"
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
            self.assertEqual(done.returncode == 0, loads, done.stderr)
            if not loads:
                self.assertIn("static TLS", done.stderr)

    def build_with_needed(self):
        """A module, a library that it needs, and a library needed by that one, whose TLS is
        large."""
        self.build(
            "liblarge.so",
            """static _Thread_local char block[4000] __attribute__((tls_model("initial-exec")));
            char *large(void); char *large(void) { return block; }""",
            "-Wl,-soname,liblarge.so",
        )
        self.build(
            "libmiddle.so",
            "char *large(void); char *middle(void); char *middle(void) { return large(); }",
            *[f"-L{self.directory}", "-llarge", "-Wl,-soname,libmiddle.so", "-Wl,-rpath,$ORIGIN"],
        )
        return self.build(
            "it.so",
            MODULE + "char *middle(void); char *PyInit_use(void) { return middle(); }",
            *[f"-L{self.directory}", f"-Wl,-rpath-link,{self.directory}", "-lmiddle"],
            "-Wl,-rpath,$ORIGIN",
            script=ONLY_INIT,
        )

    def test_of_needed_libraries(self):
        module = self.build_with_needed()
        found = self.findings(module)["static-tls-too-large"]
        self.assertIn("liblarge.so", found["message"])
        self.assertIn("4000", found["message"])
        self.assertEqual(self.facts(module)["tls"], {"bytes": 0, "static": False})
        code = f"import ctypes; ctypes.CDLL({str(module)!r})"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertIn("static TLS", done.stderr)


class NamedAsModules(InspectTest):
    def test_without_a_function(self):
        library = "int api(void) { return 1; }"
        for name in ("it.cpython-311-x86_64-linux-gnu.so", "it.abi3.so"):
            found = self.findings(self.build(name, library))
            self.assertIn("PyInit_it", found["no-init-function"]["message"])
        self.assert_rules(self.build("it.so", library))

    def test_hidden_function(self):
        hidden = f"{KEEP % 'hidden'} void *PyInit_it(void) {{ return 0; }}"
        self.assertIn("no-init-function", self.findings(self.build("it.abi3.so", hidden)))

    def test_what_later_pythons_call(self):
        """PEP 793: CPython 3.15 looks for PyModExport first, and for PyInit if there is none. A
        file that is named for an earlier one needs PyInit."""
        later = "void *PyModExport_it(void) { return 0; }\n"
        tag = "x86_64-linux-gnu"
        for source, name, fits in (
            (later, f"it.cpython-315-{tag}.so", True),
            (later, f"it.cpython-315t-{tag}.so", True),
            (later, "it.abi3t.so", True),
            (later, f"it.abi3t-{tag}.so", True),
            (later, "it.abi3.so", True),
            (later, f"it.cpython-311-{tag}.so", False),
            (later, f"it.cpython-314t-{tag}.so", False),
            (later, "other.abi3t.so", False),
            (later + MODULE, f"it.cpython-311-{tag}.so", True),
            (later + MODULE, "it.abi3t.so", True),
            (MODULE, f"it.cpython-315-{tag}.so", True),
        ):
            with self.subTest(name, source=source):
                path = self.module(name, source, script=None)
                found = self.findings(path)
                self.assertEqual("no-init-function" not in found, fits, found)
                self.assertNotIn("extra-exports", found)
                self.assertEqual(self.facts(path)["module"], "it")
        found = self.findings(self.module(f"it.cpython-311-{tag}.so", later, script=None))
        message = "named for CPython 3.11, which does not call its PyModExport_it"
        self.assertIn(message, found["no-init-function"]["message"])

    def test_what_it_exports_besides(self):
        both = MODULE + "void *PyModExport_it(void) { return 0; }\nint more(void) { return 1; }"
        found = self.findings(self.build("it.abi3t.so", both))
        self.assertIn("1 symbol besides PyInit_it", found["extra-exports"]["message"])
        self.assertEqual(self.facts(self.build("renamed.so", both))["module"], "it")
        later = both.replace(MODULE, "")
        found = self.findings(self.build("it.so", later))
        self.assertIn("1 symbol besides PyModExport_it", found["extra-exports"]["message"])
        name = "void *PyModExportU_n_3ua(void) { return 0; }"
        self.assert_rules(self.build("ñ.abi3t.so", name))

    def test_another_function(self):
        self.assertIn("no-init-function", self.findings(self.build("other.abi3.so", MODULE)))
        self.assertNotIn("no-init-function", self.findings(self.build("it.abi3.so", MODULE)))
        name = "void *PyInitU_n_3ua(void) { return 0; }"
        self.assertNotIn("no-init-function", self.findings(self.build("ñ.abi3.so", name)))


class Homefree(InspectTest):
    def linked(self, node, name="libhomefree.so.1"):
        source = "int hf_new(void); int hf_new(void) { return 1; }"
        library = self.build(
            name,
            source,
            f"-Wl,-soname,{name}",
            script=f"{node} {{ global: hf_new; local: *; }};",
        )
        source = MODULE + "int hf_new(void); int PyInit_x(void) { return hf_new(); }"
        return self.build("it.so", source, library, "-Wl,-rpath,$ORIGIN", script=ONLY_INIT)

    def test_newer(self):
        for node in "HOMEFREE_1.1", "HOMEFREE_1.10", "HOMEFREE_2.0", "HOMEFREE_10.0":
            with self.subTest(node):
                module = self.linked(node)
                self.assertIn(node, self.findings(module)["newer-homefree"]["message"])
                self.assertEqual(self.facts(module)["homefree"]["needed"], node)

    def test_a_renamed_copy(self):
        """auditwheel puts a hash into the names of the libraries in a wheel."""
        module = self.linked("HOMEFREE_1.0", "libhomefree-1b2c3d4e.so.1.0.0")
        self.assert_rules(module)
        self.assertTrue(self.facts(module)["homefree"]["linked"])

    def test_not_newer(self):
        for node in "HOMEFREE_1.0", "HOMEFREE_0.9", "HOMEFREE_1.0x", "HOMEFREE_99999999.0", "HF":
            with self.subTest(node):
                self.assert_rules(self.linked(node))


class Loading(InspectTest):
    def test_executable_stack(self):
        self.assert_rules(self.build("it.so", MODULE, "-Wl,-z,execstack"), "executable-stack")

    @unittest.skipUnless(os.uname().machine == "x86_64", "only there is this the default")
    def test_unknown_stack(self):
        source = ".globl PyInit_it\n.type PyInit_it, @function\nPyInit_it: ret\n"
        module = self.build("it.so", source, "-nostdlib", language="assembler")
        self.assert_rules(module, "executable-stack")

    def test_text_relocations(self):
        source = ".section .note.GNU-stack\n.text\n.globl PyInit_it\nPyInit_it: .quad other\n"
        module = self.build(
            "it.so", source, "-nostdlib", "-Wl,-z,notext",
            "-Wl,-z,noexecstack", language="assembler",
        )  # fmt: skip
        self.assert_rules(module, "text-relocations")

    def test_another_machine(self):
        other = "aarch64" if os.uname().machine == "x86_64" else "x86_64"
        compiler = shutil.which(f"{other}-linux-gnu-gcc")
        if compiler is None:
            self.skipTest(f"there is no {other}-linux-gnu-gcc")
        source = self.file("it.c", MODULE)
        module = self.directory / "it.so"
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-nostdlib", "-o", module, source], check=True
        )
        self.assert_rules(module, "wrong-machine")
        facts = self.facts(module)
        self.assertEqual(facts["machine"], {"x86_64": "x86-64"}.get(other, other))
        self.assertEqual(facts["module"], "it")

    def test_no_shared_object(self):
        self.assert_rules(Path("/bin/true").resolve(), "not-a-shared-object")
        source = self.file("it.c", MODULE)
        subprocess.run([*CC, "-c", "-o", self.directory / "it.o", source], check=True)
        self.assert_rules(self.directory / "it.o", "not-a-shared-object")


class Libraries(InspectTest):
    def setUp(self):
        super().setUp()
        self.build("deep/libused.so", "int used(void) { return 1; }", "-Wl,-soname,libused.so")
        self.build("deep/libidle.so", "int idle(void) { return 1; }", "-Wl,-soname,libidle.so")

    def module(self, *flags):
        source = MODULE + "int used(void); int PyInit_x(void) { return used(); }"
        libraries = [f"-L{self.directory / 'deep'}", "-Wl,--no-as-needed", "-lused", "-lidle"]
        return self.build("it.so", source, *libraries, *flags, script=ONLY_INIT)

    def states(self, module):
        return {library["name"]: library["state"] for library in self.facts(module)["libraries"]}

    def test_unused(self):
        for flag in "--enable-new-dtags", "--disable-new-dtags":
            for directory in (
                "$ORIGIN/deep",
                "/nowhere:${ORIGIN}/deep",
                str(self.directory / "deep"),
            ):
                with self.subTest(directory, flag=flag):
                    module = self.module("-lm", f"-Wl,{flag},-rpath,{directory}")
                    states = self.states(module)
                    self.assertEqual(states["libused.so"], "used")
                    self.assertEqual(states["libidle.so"], "unused")
                    self.assertEqual(states["libm.so.6"], "unused")
                    found = self.findings(module)["unused-library"]
                    self.assertEqual(sorted(found["names"])[:1], ["libidle.so"])
                    self.assertEqual(inspect(module).returncode, 0, "a note is no finding")

    def test_used_by_version(self):
        source = MODULE + "double cos(double); double PyInit_x(double x) { return cos(x); }"
        module = self.build("it.so", source, "-lm", "-fno-builtin", script=ONLY_INIT)
        self.assertEqual(self.states(module)["libm.so.6"], "used")

    def test_not_found(self):
        module = self.module()
        self.assertEqual(self.states(module)["libused.so"], "not found")
        self.assertEqual(self.findings(module)["library-not-found"]["count"], 2)
        self.assertNotIn("libidle.so", str(self.findings(module).get("unused-library")))
        environment = dict(os.environ, LD_LIBRARY_PATH=str(self.directory / "deep"))
        self.assertIn(b"library-not-found", inspect(module, env=environment).stdout)

    def test_origin_is_where_the_path_leads(self):
        module = self.module("-Wl,-rpath,$ORIGIN/deep")
        elsewhere = self.directory / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "it.so").symlink_to(module)
        self.assertEqual(self.states(elsewhere / "it.so")["libused.so"], "not found")
        (self.directory / "directory").symlink_to(self.directory)
        self.assertEqual(self.states(self.directory / "directory" / "it.so")["libused.so"], "used")
        done = inspect("it.so", cwd=self.directory)
        self.assertNotIn(b"not-found", done.stdout)

    def test_a_library_that_is_damaged(self):
        module = self.module("-Wl,-rpath,$ORIGIN/deep")
        (self.directory / "deep" / "libidle.so").write_bytes(b"\x7fELF")
        self.assertEqual(self.states(module)["libidle.so"], "not found")

    def test_as_ldd_says(self):
        """Another tool's answer about a real library."""
        library = libtorch(self)
        done = subprocess.run(["ldd", "-u", library], capture_output=True, text=True)
        theirs = {Path(line.strip()).name for line in done.stdout.splitlines()[1:]}
        ours = {name for name, state in self.states(library).items() if state == "unused"}
        self.assertEqual(ours, theirs)


class RealModules(InspectTest):
    def test_torch_and_numpy(self):
        packages = Path("/usr/lib/python3/dist-packages")
        for pattern, rules in (
            ("torch/_C.cpython-*.so", set()),
            ("numpy/*core/_multiarray_umath.cpython-*.so", {"extra-exports"}),
        ):
            files = list(packages.glob(pattern))
            if not files:
                self.skipTest(f"{pattern} is not installed")
            for file in files:
                with self.subTest(file.name):
                    rules |= {"wrong-machine"} if os.uname().machine not in file.name else set()
                    theirs = {"library-not-found", "unused-library"}  # the release's own affair
                    found = {rule for rule in self.findings(file) if rule not in theirs}
                    self.assertEqual(found, rules)

    def test_a_hundred_megabytes_in_time(self):
        """Far more time than the scan takes (bench_inspect.py measures it), and far less than a
        quadratic scan would."""
        library = libtorch(self)
        self.assertEqual(inspect(library, timeout=30).returncode, 0)


if __name__ == "__main__":
    main()
