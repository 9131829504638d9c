"""A header that appears where the compiler looks before the place where it has found one: the
module in the cache is stale."""

import shutil
import unittest

import support
from support import CXX_MODULE, MODULE


class Lookups(support.TestCase):
    def assert_followed(
        self, path, include='#include "value.h"', directories=("late", "found"), **environment
    ):
        """Once a header is at a path, it is the one that is read, in place of one in found/."""
        self.write("fast.c", MODULE.replace('#include "value.h"', include))
        (self.work / "value.h").unlink(missing_ok=True)
        shutil.rmtree(self.cache, ignore_errors=True)
        self.write("found/sub/value.h", "#define VALUE 1\n")
        self.write("found/value.h", "#define VALUE 1\n")
        paths = [str(self.work / directory) for directory in directories]
        code = f"print(load(extra_include_paths={paths}).value(), 'hashlib' in sys.modules)"
        self.assertEqual(self.fine(code, **environment), "1 True\n")
        self.assertEqual(self.fine(code, **environment), "1 False\n")
        self.write(path, "#define VALUE 2\n")
        self.assertEqual(self.fine(code, **environment), "2 True\n")
        self.assertEqual(self.fine(code, **environment), "2 False\n")
        (self.work / path).unlink()
        self.assertEqual(self.fine(code, **environment), "1 True\n")

    def test_header_that_appears_where_the_compiler_looks_first(self):
        (self.work / "late/sub").mkdir(parents=True)
        angled = "#include <sub/value.h>"
        self.assert_followed("late/value.h")
        self.assert_followed("value.h")
        self.assert_followed("late/sub/value.h", angled)
        # Beside the header that includes it.
        self.write("found/outer/outer.h", '#include "value.h"\n')
        self.assert_followed("found/outer/value.h", "#include <outer/outer.h>")

    def test_header_that_appears_in_a_directory_that_was_missing(self):
        self.assert_followed("late/value.h")
        shutil.rmtree(self.work / "late")
        self.assert_followed("late/sub/value.h", "#include <sub/value.h>")

    def test_header_that_appears_where_the_environment_says(self):
        for variable, include in (
            ("CPATH", "#include <value.h>"),
            ("C_INCLUDE_PATH", "#include <value.h>"),
            ("CPPFLAGS", '#include "value.h"'),
        ):
            with self.subTest(variable=variable):
                shutil.rmtree(self.work / "late", ignore_errors=True)
                late, found = self.work / "late", self.work / "found"
                value = f"{late}:{found}"
                if variable == "CPPFLAGS":
                    value = f"-iquote {late} -iquote {found}"
                self.assert_followed("late/value.h", include, (), **{variable: value})

    def test_header_that_appears_under_a_name_that_is_no_plain_include(self):
        (self.work / "late").mkdir()
        named = "#define NAME <value.h>\n#include NAME"
        self.assert_followed("late/value.h", named)
        self.write("first/value.h", "#include_next <value.h>\n")
        self.assert_followed("late/value.h", directories=("first", "late", "found"))
        maybe = '#if __has_include("maybe.h")\n#define VALUE 2\n#else\n#define VALUE 1\n#endif'
        self.assert_followed("maybe.h", maybe)
        self.assert_followed("late/maybe.h", maybe)

    def test_header_of_the_system_that_appears_in_a_directory_of_ones_own(self):
        (self.work / "late").mkdir()
        include = "#include <sys/mman.h>\n#ifndef VALUE\n#define VALUE 1\n#endif"
        self.assert_followed("late/sys/mman.h", include)

    def test_header_that_appears_for_cplusplus(self):
        self.write("fast.cc", CXX_MODULE)
        (self.work / "value.h").unlink()
        self.write("found/value.h", "#define VALUE 1\n")
        (self.work / "late").mkdir()
        late, found = self.work / "late", self.work / "found"
        code = f"""
            print(load(sources=["fast.cc"], extra_include_paths={[str(late), str(found)]}).value())
            """
        self.assertEqual(self.fine(code), "1\n")
        self.write("late/value.h", "#define VALUE 2\n")
        self.assertEqual(self.fine(code), "2\n")

    @unittest.skipUnless(shutil.which("ccache"), "there is no ccache")
    def test_header_that_appears_is_not_hidden_by_ccache(self):
        (self.work / "late").mkdir()
        self.assert_followed(
            "late/value.h",
            CC="ccache cc",
            CCACHE_DIR=self.work / "ccache",
            CCACHE_BASEDIR="/",
            CCACHE_NOHASHDIR="1",
        )

    def test_file_that_appears_and_is_no_header_is_not_noticed(self):
        self.value()
        self.write("results.csv", "")
        self.fine("load(); assert 'hashlib' not in sys.modules")
        # In a directory that is searched for everything, it is: the files are read, once.
        (self.work / "late").mkdir()
        self.fine("load(extra_include_paths=['late'])")
        self.write("late/results.csv", "")
        self.fine("load(extra_include_paths=['late'])")
        self.fine("load(extra_include_paths=['late']); assert 'hashlib' not in sys.modules")
        self.assertEqual(self.compiled(), 2)


if __name__ == "__main__":
    support.main()
