"""An adopted module is one object under all names that the program has for its file, and finds what
lies beside the file. What cannot be adopted is loaded as it is.

Usage: test_names.py RUNNER ONCE-RUNNER REPLACED-RUNNER ADOPT-RUNNER LIBHOMEFREE
                     PLUG PRELINKED BESIDE ONCE NEEDS STATIC HEADER [unittest arguments]
"""

import os
import platform
import shutil
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import adopting  # noqa: E402


class Names(adopting.Case):
    def setUp(self):
        super().setUp()
        self.environment["LD_LIBRARY_PATH"] = str(Path(LIBRARY).parent)
        self.runner = self.directory / "runner"
        shutil.copy(RUNNER, self.runner)
        shutil.copy(PLUG, self.directory / "libplug.so.1")
        shutil.copy(BESIDE, self.directory / "beside.so")
        (self.directory / "libplug.so").symlink_to("libplug.so.1")

    def opened(self, *names, runner=None, **environment):
        self.environment.update({"HOMEFREE_CONF": "adopt:all", **environment})
        result = self.run_it(runner or self.runner, *names, cwd=self.directory)
        self.assertEqual(result.stderr, "")
        return result.stdout.strip()

    def test_all_names_of_a_file_are_one_object(self):
        names = [
            self.directory / "libplug.so.1",
            "libplug.so",
            "libplug.so.1",
            "./libplug.so",
            "$ORIGIN/libplug.so",
            f"${{ORIGIN}}/../{self.directory.name}/libplug.so.1",
        ]
        self.assertEqual(self.opened(*names), "adopted")
        self.assertEqual(self.opened(*reversed(names)), "adopted")

    def test_a_copy_that_cannot_be_loaded_is_not_missed(self):
        file = self.directory / "libplug.so.1"
        self.assertEqual(self.opened(file), "adopted")
        (copy,) = (self.directory / "cache/homefree/adopted").glob("*libplug.so.1")
        with copy.open("r+b") as bytes:
            bytes.write(b"torn")
        self.assertEqual(self.opened(file, **ROOM), "not adopted")

    def test_addresses_that_do_not_begin_at_0(self):
        file = self.directory / "prelinked.so"
        shutil.copy(PRELINKED, file)
        self.assertEqual(self.opened(file, **ROOM), "not adopted")

    def test_a_file_that_changes_while_it_is_loaded(self):
        new = shutil.copy(PLUG, self.directory / "new.so")
        out = self.opened(
            self.directory / "libplug.so.1", new, runner=REPLACED_RUNNER, HOMEFREE_CONF=""
        )
        self.assertEqual(out, "3")

    def test_a_static_function_may_have_lost_arguments(self):
        out = self.opened("file", STATIC, runner=ADOPT_RUNNER)
        self.assertRegex(out, "^-95 mi_.* belongs to one source file alone")

    @unittest.skipUnless(platform.machine() == "x86_64", "told in code for x86-64 alone")
    def test_what_lies_in_front_of_blocks_is_not_on_the_heap(self):
        out = self.opened("file", HEADER, runner=ADOPT_RUNNER)
        self.assertEqual(
            out.splitlines()[0],
            "-95 _ZdlPv keeps something in front of the blocks of its allocator",
        )

    def test_a_library_that_another_stands_for_is_not_loaded(self):
        for name in ("one", "other"):
            (self.directory / name).mkdir()
            shutil.copy(ONCE, self.directory / name / "libonce.so.1")
        shutil.copy(NEEDS, self.directory / "other/needs.so")
        out = self.opened(
            self.directory / "one/libonce.so.1",
            self.directory / "other/needs.so",
            runner=ONCE_RUNNER,
            HOMEFREE_CONF="",
            **ROOM,
        )
        self.assertEqual(out, "0 loaded")


# For the thread-local storage of an allocator that stays.
ROOM = {"GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=16384"}
(RUNNER, ONCE_RUNNER, REPLACED_RUNNER, ADOPT_RUNNER, LIBRARY) = map(os.path.abspath, sys.argv[1:6])
(PLUG, PRELINKED, BESIDE, ONCE, NEEDS, STATIC, HEADER) = map(os.path.abspath, sys.argv[6:13])
unittest.main(argv=[sys.argv[0], *sys.argv[13:]])
