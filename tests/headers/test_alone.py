"""Each public header compiles alone, and twice, without a warning: a user may include any of them
first, in C11 and C++17, with gcc and clang. homefree/homefree.h includes every header of C.

Each alone in C11 with gcc and in C++17 with clang; the other way round those that include others,
because what one header needs of another does not depend on the compiler.

Usage: test_alone.py HEADER...
"""

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from conditions import flags_for

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]
LANGUAGES = {"c11": "c", "c++17": "c++"}
CXX = {"gcc": "g++", "clang": "clang++"}


class Alone(unittest.TestCase):
    def compile(self, compiler, standard, header):
        flags = flags_for(header)
        language = LANGUAGES[standard]
        program = CXX[compiler] if language == "c++" else compiler
        if flags is None or shutil.which(program) is None:
            return False
        name = header.relative_to(INCLUDE)
        source = f"#include <{name}>\n#include <{name}>\nint main(void) {{ return 0; }}\n"
        result = subprocess.run(
            [
                program,
                f"-std={standard}",
                *WARNINGS,
                f"-I{INCLUDE}",
                *flags,
                "-fsyntax-only",
                f"-x{language}",
                "-",
            ],
            input=source,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.assertEqual((result.returncode, result.stdout), (0, ""))
        return True

    def test_each(self):
        left_out = set()
        for header in HEADERS:
            contents = header.stem in ("homefree", "python", "check", "interpreters")
            for compiler in CXX:
                for standard in LANGUAGES:
                    usual = (compiler == "gcc") == (standard == "c11")
                    if not usual and not contents:
                        continue
                    with self.subTest(header=header.name, compiler=compiler, standard=standard):
                        if not self.compile(compiler, standard, header):
                            left_out.add(f"{header.name} with {compiler}")
        if left_out:
            print("not compiled, because something is missing:", ", ".join(sorted(left_out)))

    def test_the_table_of_contents_includes_every_header_of_c(self):
        contents = INCLUDE / "homefree/homefree.h"
        included = re.findall(r"#include <homefree/(\w+\.h)>", contents.read_text())
        others = {header.name for header in HEADERS if header.parent == contents.parent}
        self.assertEqual(
            set(included), others - {"homefree.h", "check.h", "interpreters.h", "python.h"}
        )
        self.assertEqual(sorted(HEADERS), sorted(contents.parent.rglob("*.h")))

    def test_homefree_h_alone_gives_every_name(self):
        """A program that includes only homefree/homefree.h may use every name of the interface."""
        with tempfile.TemporaryDirectory() as directory:
            source = Path(directory) / "all.c"
            source.write_text(
                "#include <homefree/homefree.h>\n"
                "int main(void)\n{\n"
                "    struct hf_stats stats = {.size = sizeof stats};\n"
                "    struct hf_owner owner = {.size = sizeof owner};\n"
                "    return hf_owns(hf_version()) + hf_stats(&stats) + hf_owner_of(0, &owner) +\n"
                "           hf_route() + HF_WATCHES_MAX;\n}\n"
            )
            subprocess.run(
                ["cc", "-std=c11", *WARNINGS, f"-I{INCLUDE}", "-fsyntax-only", source], check=True
            )


if __name__ == "__main__":
    HEADERS = [Path(argument).resolve() for argument in sys.argv[1:]]
    INCLUDE = next(header.parents[1] for header in HEADERS if header.name == "homefree.h")
    unittest.main(argv=sys.argv[:1], verbosity=2)
