"""prebuilt= of load(), and build(): the same code loads what a wheel ships and what it compiles."""

import os
import subprocess

import support

NOTHING = {"CC": "/nowhere/cc"}


class Prebuilt(support.TestCase):
    def setUp(self):
        super().setUp()
        self.write("package/__init__.py", "")
        out = self.fine("print(extension.build('package.fast', ['fast.c'], 'package'))")
        self.path = self.work / out.strip()
        self.assertEqual(self.compiled(), 1)

    def loaded(self, code="prebuilt='package'", **environment):
        """The path of the file that was loaded."""
        return self.fine(f"print(load('package.fast', {code}).__file__)", **environment).strip()

    def assert_built(self, code="prebuilt='package'"):
        path = self.loaded(code)
        self.assertTrue(path.startswith(str(self.cache)), path)

    def test_it_is_taken_from_a_directory(self):
        self.assertEqual(
            self.loaded("prebuilt=os.path.abspath('package')", **NOTHING), str(self.path)
        )

    def test_it_is_taken_from_a_package(self):
        self.assertEqual(self.loaded(**NOTHING), str(self.path))
        code = "prebuilt=__import__('package')"
        self.assertEqual(self.loaded(code, **NOTHING), str(self.path))

    def test_it_is_taken_as_a_file(self):
        self.assertEqual(self.loaded(f"prebuilt={str(self.path)!r}", **NOTHING), str(self.path))

    def test_it_needs_no_sources(self):
        self.assertEqual(self.loaded("sources=[], prebuilt='package'", **NOTHING), str(self.path))
        os.unlink(self.work / "fast.c")
        self.assertEqual(self.loaded(**NOTHING), str(self.path))

    def test_its_memory_is_the_heaps(self):
        self.fine("assert load('package.fast', prebuilt='package').owned()", **NOTHING)

    def test_it_has_no_path_of_the_machine_that_built_it(self):
        done = subprocess.run(["readelf", "-d", self.path], stdout=subprocess.PIPE, text=True)
        self.assertIn("libhomefree.so.1", done.stdout)
        self.assertNotIn("RUNPATH", done.stdout)
        self.assertNotIn("RPATH", done.stdout)

    def test_changed_sources_are_compiled(self):
        with open(self.work / "fast.c", "a") as file:
            file.write("/* changed */\n")
        self.assert_built()

    def test_sources_of_another_time_are_the_same(self):
        os.utime(self.work / "fast.c", ns=(5, 5))
        self.assertEqual(self.loaded(**NOTHING), str(self.path))

    def test_without_a_record_it_is_taken_as_it_is(self):
        os.unlink(str(self.path) + ".sources")
        with open(self.work / "fast.c", "a") as file:
            file.write("/* changed */\n")
        self.assertEqual(self.loaded(**NOTHING), str(self.path))

    def test_none_there_is_built(self):
        os.unlink(self.path)
        self.assert_built()
        self.assert_built("prebuilt='no_such_package'")
        self.assert_built("prebuilt='/nowhere'")

    def test_one_for_another_python_is_built(self):
        os.rename(self.path, self.path.parent / "fast.cpython-27-x86_64-linux-gnu.so")
        self.assert_built()

    def test_one_for_another_python_without_sources_is_refused(self):
        os.rename(self.path, self.path.parent / "fast.cpython-27-x86_64-linux-gnu.so")
        self.fine(
            "refused('another Python', 'cpython-27', 'install', name='package.fast', "
            "sources=[], prebuilt='package')"
        )

    def test_one_for_another_machine_is_refused(self):
        with open(self.path, "r+b") as file:
            file.seek(18)
            file.write(b"\xb7\0")
        self.fine("refused('another machine', name='package.fast', sources=[], prebuilt='package')")

    def test_one_that_is_cut_short_is_refused(self):
        os.truncate(self.path, 10)
        self.fine(
            "refused('not a shared object', name='package.fast', sources=[], prebuilt='package')"
        )
        self.assert_built()

    def test_why_it_is_not_taken_is_told_when_verbose(self):
        os.rename(self.path, self.path.parent / "fast.cpython-27-x86_64-linux-gnu.so")
        outcome = self.run_code("load('package.fast', prebuilt='package', verbose=True)")
        self.assertIn("another Python (cpython-27-x86_64-linux-gnu)", outcome.err)

    def test_limited_api_fits_every_python(self):
        os.rename(self.path, self.path.parent / "fast.abi3.so")
        self.assertEqual(
            self.loaded("sources=[], prebuilt='package'"), str(self.path.parent / "fast.abi3.so")
        )

    def test_stable_abi_without_a_gil_fits_the_pythons_that_know_it(self):
        """CPython 3.15 and later look for .abi3t.so (PEP 803), which this one stands for."""
        path = self.path.parent / "fast.abi3t.so"
        os.rename(self.path, path)
        code = "from homefree import _importing\n_importing.extension_suffixes = lambda: {}\n"
        load = "print(load('package.fast', sources=[], prebuilt='package').__file__)"
        later = code.format("['.cpython-315.so', '.abi3.so', '.abi3t.so', '.so']")
        self.assertEqual(self.fine(later + load).strip(), str(path))
        self.fine(
            code.format("['.cpython-314.so', '.abi3.so', '.so']")
            + "refused('another Python (abi3t)', name='package.fast', sources=[], "
            "prebuilt='package')"
        )

    def test_build_again_replaces_it(self):
        self.fine("extension.build('package.fast', ['fast.c'], 'package')")
        self.assertEqual(self.compiled(), 1)
        self.write("value.h", "#define VALUE 8\n")
        self.fine("extension.build('package.fast', ['fast.c'], 'package')")
        self.assertEqual(
            self.fine("print(load('package.fast', prebuilt='package').value())"), "8\n"
        )


if __name__ == "__main__":
    support.main()
