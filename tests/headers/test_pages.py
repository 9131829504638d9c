"""The manual pages of section 3 say what the headers declare, and groff and mandoc accept them.

Every function that a public header declares has a page, and so has every function that the library
exports. The prototypes that a reader sees are compiled against the header. The generator stops at a
comment that breaks the form, and names the place.

Usage: test_pages.py --include DIRECTORY --generator FILE --map FILE --pages FILE...
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from conditions import FOUND, flags_for

# Exported so that copies of the library and `homefree doctor --pid` find them, and the range that
# hf_owns() reads.
NOT_FUNCTIONS_OF_USERS = {
    "hf_instance_record",
    "hf_live_state",
    "hf_loader_lock_call",
    "hf_region_range",
}
INTERNAL = re.compile(r"hf_py_|hf_ck_(?!assert_|(?:fail_at|fail_reset|calls)\b)|HF_")
# Macros that are names of functions.
MODULE_NAMES = {"HF_MODULE_INIT", "HF_MODULE_EXPORT"}
# Includes another page.
LINK = re.compile(r"\.so man3/(\S+)\n")


def compile_c(source, *flags):
    """Runs gcc on C source; the exit status, the standard output and the standard error."""
    result = subprocess.run(
        ["gcc", "-std=gnu17", "-x", "c", f"-I{arguments.include}", *flags, "-"],
        input=source,
        text=True,
        capture_output=True,
    )
    return result.returncode, result.stdout, result.stderr


def umbrella():
    """One source that includes every header whose library is installed, and the flags that it
    needs."""
    names, flags = [], []
    for header in sorted(arguments.include.rglob("*.h")):
        more = flags_for(header)
        if more is not None:
            names.append(header.relative_to(arguments.include))
            flags += [flag for flag in more if flag not in flags or flag.startswith("-i")]
    return "".join(f"#include <{name}>\n" for name in names), flags


def synopses(pages):
    """The header that each page names, and its synopsis as it is displayed."""
    text = subprocess.run(
        ["groff", "-mdoc", "-Tascii", "-rLL=300n", "-P-cbou", *pages],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    sections = re.findall(r"^SYNOPSIS\n(.*?)^[A-Z]", text, re.MULTILINE | re.DOTALL)
    if len(sections) != len(pages):
        raise AssertionError(f"{len(sections)} synopses of {len(pages)} pages")
    for page, section in zip(pages, sections):
        header = re.search(r"#include <(.*)>", section)[1]
        yield page, header, re.sub(r"#(include|define) .*", "", section)


@unittest.skipUnless(shutil.which("gcc"), "gcc tells what a header declares")
class Contents(unittest.TestCase):
    def test_every_declared_function_has_a_page(self):
        source, flags = umbrella()
        with tempfile.TemporaryDirectory() as directory:
            table = Path(directory) / "declared"
            code, _, errors = compile_c(source, *flags, "-aux-info", table, "-S", "-o", "/dev/null")
            self.assertEqual(code, 0, errors)
            declared = set(
                re.findall(
                    rf"^/\* {re.escape(str(arguments.include))}/\S+ \*/ .*?\b(\w+) \(",
                    table.read_text(),
                    re.MULTILINE,
                )
            )
        _, macros, _ = compile_c(source, *flags, "-E", "-dM")
        declared |= set(re.findall(r"^#define (hf_\w+)\(", macros, re.MULTILINE))
        public = {name for name in declared if not INTERNAL.match(name)}
        self.assertGreater(len(public), 70)
        self.assertEqual(public - set(PAGES), set())
        known = MODULE_NAMES | ({"hf_numpy_own"} if FOUND["numpy"] is None else set())
        pages = {name for name in PAGES if not name.startswith("homefree")}
        if FOUND["check"] and FOUND["python"]:
            self.assertEqual(pages - public - known, set())

    def test_every_exported_function_has_a_page(self):
        text = re.sub(r"/\*.*?\*/", "", arguments.map.read_text(), flags=re.DOTALL)
        exported = set(re.findall(r"^\s+(hf_\w+);", text, re.MULTILINE)) - NOT_FUNCTIONS_OF_USERS
        self.assertGreater(len(exported), 50)
        self.assertEqual(exported - set(PAGES), set())

    def test_every_function_has_an_example(self):
        def examples(name):
            text = PAGES[name].read_text()
            link = LINK.fullmatch(text)
            text = PAGES[link[1].removesuffix(".3")].read_text() if link else text
            return text.partition(".Sh EXAMPLES")[2].partition("\n.Sh ")[0]

        functions = {name for name in PAGES if not name.startswith("homefree")}
        shown = {name for name in functions if re.search(rf"\b{name}\(", examples(name))}
        self.assertEqual(functions - shown, set(), "functions without an example")

    @unittest.skipUnless(shutil.which("groff"), "no groff")
    def test_prototypes_are_the_declarations(self):
        linked = {name: set() for name in PAGES}
        pages = []
        for name, page in PAGES.items():
            link = LINK.fullmatch(page.read_text())
            if link:
                linked[link[1].removesuffix(".3")].add(name)
            elif not name.startswith("homefree"):
                pages.append(page)
        compiled = 0
        of_header = {}
        for page, header, prototypes in synopses(pages):
            name = page.name.removesuffix(".3")
            flags = flags_for(arguments.include / header)
            if flags is None:
                continue
            with self.subTest(page=name):
                if name.startswith(("hf_ck_assert_", "hf_ck_fail_at")):
                    _, macros, _ = compile_c(f"#include <{header}>\n", *flags, "-E", "-dM")
                    shown = prototypes.strip().rstrip(";").replace(" ", "")
                    self.assertIn(f"#define {shown} ", macros)
                    continue
                of_header[header] = of_header.get(header, "") + prototypes
                functions = re.findall(r"\b(hf_\w+)\(", prototypes)
                if name not in MODULE_NAMES:
                    self.assertEqual(set(functions), linked[name] | {name})
                compiled += len(functions)
        for header, prototypes in of_header.items():
            # Two declarations that differ are an error in C.
            source = f"#include <{header}>\n#include <homefree/homefree.h>\n{prototypes}"
            flags = flags_for(arguments.include / header)
            code, _, errors = compile_c(source, *flags, "-fsyntax-only")
            self.assertEqual(code, 0, f"{prototypes}\n{errors}")
        self.assertGreater(compiled, 60)

    def test_a_wrong_prototype_is_an_error(self):
        """The test above can fail."""
        wrong = "#include <homefree/alloc.h>\nvoid *hf_malloc(int size);\n"
        code, _, errors = compile_c(wrong, "-fsyntax-only")
        self.assertNotEqual(code, 0)
        self.assertIn("conflicting types", errors)

    def test_links_lead_to_pages(self):
        for name, page in PAGES.items():
            link = LINK.fullmatch(page.read_text())
            if link:
                self.assertIn(link[1].removesuffix(".3"), PAGES, name)


class Form(unittest.TestCase):
    def test_pages_pass_the_checkers(self):
        tools = {
            "groff": ["groff", "-mdoc", "-ww", "-z"],
            "mandoc": ["mandoc", "-T", "lint", "-W", "warning"],
        }
        available = [command for tool, command in tools.items() if shutil.which(tool)]
        if not available:
            self.skipTest("no groff, no mandoc")
        pages = [page for page in PAGES.values() if not LINK.fullmatch(page.read_text())]
        for command in available:
            with self.subTest(tool=command[0]):
                result = subprocess.run(
                    [*command, *pages],
                    capture_output=True,
                    text=True,
                )
                self.assertEqual(result.stdout + result.stderr, "")

    def broken(self, change):
        """The generator's messages about alloc.h after a change to its text."""
        with tempfile.TemporaryDirectory() as directory:
            header = Path(directory) / "alloc.h"
            text = (arguments.include / "homefree/alloc.h").read_text()
            header.write_text(change(text))
            self.assertNotEqual(header.read_text(), text)
            result = subprocess.run(
                [sys.executable, arguments.generator, "--list", header],
                stderr=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                text=True,
            )
        self.assertEqual(result.returncode, 1)
        return result.stderr.replace(str(header), "alloc.h")

    def test_a_missing_field_is_named(self):
        said = self.broken(lambda text: text.replace(" * Fork: safe.\n", "", 1))
        self.assertRegex(said, r"^alloc\.h:\d+: fields are missing: Fork\n")

    def test_fields_in_another_order_are_named(self):
        swap = " * Threads: safe.\n * Fork: safe.\n"
        said = self.broken(
            lambda text: text.replace(swap, " * Fork: safe.\n * Threads: safe.\n", 1)
        )
        self.assertRegex(said, r"^alloc\.h:\d+: the fields are not in order: ")

    def test_a_parameter_without_text_is_named(self):
        said = self.broken(lambda text: re.sub(r" \*   count .*\n", "", text, count=1))
        self.assertRegex(said, r"^alloc\.h:\d+: parameters are count, size; described are size\n")

    def test_a_parameter_without_direction_is_named(self):
        said = self.broken(lambda text: text.replace("ptr  in: the", "ptr  the", 1))
        self.assertRegex(said, r"^alloc\.h:\d+: the parameter 'ptr' has no direction\n")

    def test_a_line_of_a_list_that_is_not_indented_is_named(self):
        said = self.broken(lambda text: text.replace(" *\n", " *\n *   - one\n * two\n *\n", 1))
        self.assertIn("a line of a list is not indented: 'two'", said)

    def test_a_function_without_a_comment_is_named(self):
        comment = "/*\n * Allocates"
        stray = f"HF_API int hf_new(void);\n{comment}"
        said = self.broken(lambda text: text.replace(comment, stray, 1))
        self.assertIn("alloc.h: hf_new has no comment in the form", said)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--include", type=Path, required=True)
    parser.add_argument("--generator", type=Path, required=True)
    parser.add_argument("--map", type=Path, required=True)
    parser.add_argument("--pages", type=Path, nargs="*")
    arguments, rest = parser.parse_known_args()
    if not arguments.pages:
        print("no pages of section 3 were made")
        sys.exit(77)
    PAGES = {page.name.removesuffix(".3"): page for page in arguments.pages}
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
