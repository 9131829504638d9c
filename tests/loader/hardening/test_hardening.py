"""Every object that homefree installs, and a module with the shim, has the properties that checksec
looks for and SECURITY.md promises.

Usage: test_hardening.py BUILD-DIRECTORY ARCHIVE MODULE COMPILER… [-- unittest arguments]
"""

import json
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import unittest

OBJECTS, COMPILER = [], []
ARCHIVE = MODULE = pathlib.Path()
# No function of theirs has an array.
NO_ARRAYS = {"homefree_hidden.so", "_torch_allocator.so"}


def readelf(*arguments):
    return subprocess.run(
        ["readelf", "--wide", *arguments], check=True, text=True, stdout=subprocess.PIPE
    ).stdout


def properties(path):
    """Of the processor: what .note.gnu.property says (IBT, SHSTK; BTI, PAC)."""
    found = re.findall(r"(?:x86|AArch64) feature: (.*)", readelf("--notes", path))
    return set(", ".join(found).split(", ")) - {""}


def installed(build):
    """The programs and libraries of an installation, where they were built; not the one that is
    made so that it can never be loaded (python/homefree/missing)."""
    listed = json.loads((build / "meson-info/intro-installed.json").read_text(encoding="utf-8"))
    for path in map(pathlib.Path, listed):
        if path.parent.name == "missing" or path.suffix == ".a" or not path.is_file():
            continue
        with path.open("rb") as file:
            if file.read(4) == b"\x7fELF":
                yield path


class Objects(unittest.TestCase):
    def test_all_are_here(self):
        names = {path.name for path in OBJECTS}
        self.assertLessEqual(
            {"homefree", "libhomefree-preload.so", "libhomefree-diagnose.so"}, names
        )
        self.assertTrue([name for name in names if name.startswith("libhomefree.so.")])

    def test_segments(self):
        """RELRO, no code that can be written, no stack that can be executed."""
        for path in [*OBJECTS, MODULE]:
            with self.subTest(path.name):
                segments = re.findall(
                    r"^\s+(LOAD|GNU_STACK|GNU_RELRO)\s+\S+ \S+ \S+ \S+ \S+\s+([RWE ]{3})",
                    readelf("--segments", path),
                    re.MULTILINE,
                )
                kinds = [kind for kind, _ in segments]
                self.assertIn("GNU_RELRO", kinds)
                self.assertIn("GNU_STACK", kinds)
                for kind, flags in segments:
                    self.assertFalse(kind == "GNU_STACK" and "E" in flags, flags)
                    self.assertFalse("W" in flags and "E" in flags, flags)

    def test_slots_are_bound_at_once(self):
        """So that RELRO covers all of them."""
        for path in OBJECTS:
            with self.subTest(path.name):
                self.assertRegex(readelf("--dynamic", path), r"\(FLAGS(_1)?\).*NOW")

    def test_code_needs_no_relocation(self):
        for path in [*OBJECTS, MODULE]:
            with self.subTest(path.name):
                self.assertNotIn("TEXTREL", readelf("--dynamic", path))

    def test_libraries_are_looked_for_beside_the_object_alone(self):
        for path in OBJECTS:
            with self.subTest(path.name):
                searched = re.findall(
                    r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", readelf("--dynamic", path)
                )
                for directory in ":".join(searched).split(":"):
                    # Meson fills the place of build directories with X.
                    self.assertRegex(directory, r"^(\$ORIGIN(/.*)?|X*)$")

    def test_programs_lie_anywhere(self):
        for path in OBJECTS:
            with self.subTest(path.name):
                self.assertRegex(readelf("--file-header", path), r"Type:\s+DYN")

    def test_functions_with_arrays_have_canaries(self):
        for path in OBJECTS:
            with self.subTest(path.name):
                if path.name not in NO_ARRAYS:
                    self.assertIn("__stack_chk_fail", readelf("--dyn-syms", path))

    def test_shadow_stacks(self):
        """A process with shadow stacks refuses to load an object that does not say that it keeps to
        them. What says so of indirect branches needs the C library's start files to say it, too."""
        with tempfile.TemporaryDirectory() as directory:
            empty = pathlib.Path(directory) / "empty.so"
            source = ["-shared", "-fPIC", "-xc", "/dev/null", "-o", empty]
            subprocess.run([*COMPILER, *source], check=True)
            expected = properties(empty)
        if platform.machine() == "x86_64":
            expected.add("SHSTK")
        for path in OBJECTS:
            with self.subTest(path.name):
                self.assertLessEqual(expected, properties(path))

    def test_the_shim_takes_no_mark_from_a_module(self):
        if platform.machine() != "x86_64":
            self.skipTest("it has no shadow stacks")
        members = re.split(r"^File: ", readelf("--notes", ARCHIVE), flags=re.MULTILINE)[1:]
        self.assertGreater(len(members), 30)
        for member in members:
            self.assertIn("SHSTK", member)


if __name__ == "__main__":
    if platform.system() != "Linux":
        print("this test reads ELF files of Linux")
        sys.exit(77)
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    build, ARCHIVE, MODULE, *COMPILER = words[:end]
    MODULE = pathlib.Path(MODULE)
    OBJECTS = [*installed(pathlib.Path(build))]
    unittest.main(argv=[sys.argv[0], *words[end + 1 :]], verbosity=2)
