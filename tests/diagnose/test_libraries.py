"""What the two libraries for LD_PRELOAD export: libhomefree's own names, and libc's and the C++
runtime's without a version, which is what the dynamic linker accepts for every version.

Usage: test_libraries.py --functions FILE --library FILE --preload FILE --diagnose FILE
                         [unittest arguments]
"""

import argparse
import re
import subprocess
import sys
import unittest
from pathlib import Path

from diagnosis import needs_names_of_modules

parser = argparse.ArgumentParser()
for option in ("functions", "library", "preload", "diagnose"):
    parser.add_argument(f"--{option}", required=True, type=Path)

# For `homefree report --pid`.
SHOWN = {"hf_live_records"}
# What a diagnosis watches besides: how a process ends, and what is unloaded.
WATCHED = {"_exit", "_Exit", "dlclose", "prctl", "sigaction", "signal", "syscall"}


def exported(path):
    """{name: version or ""} of the names that an object defines."""
    done = subprocess.run(
        ["readelf", "--wide", "--dyn-syms", path], capture_output=True, text=True, check=True
    )
    names = {}
    for line in done.stdout.splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[4] in ("GLOBAL", "WEAK") and fields[6] != "UND":
            name, _, version = fields[7].partition("@@")
            if fields[6] != "ABS":
                names[name] = version
    return names


def listed(*macros):
    text = arguments.functions.read_text(encoding="utf-8")
    return set(re.findall(rf"^(?:{'|'.join(macros)})\((\w+),", text, re.MULTILINE))


class Libraries(unittest.TestCase):
    def check(self, path, names):
        own, found = exported(arguments.library), exported(path)
        self.assertEqual(set(found), set(own) | names)
        for name, version in found.items():
            self.assertEqual(version, own.get(name, ""), name)

    def test_preload_adds_the_malloc_family(self):
        family = listed("HF_MALLOC_FAMILY")
        self.assertGreater(len(family), 12)
        self.check(arguments.preload, family)

    def test_diagnose_adds_the_operators_too(self):
        names = listed("HF_MALLOC_FAMILY", "HF_NEW", "HF_DELETE")
        self.check(arguments.diagnose, names | WATCHED | SHOWN)

    def test_both_stand_in_for_libhomefree(self):
        for path in (arguments.preload, arguments.diagnose):
            done = subprocess.run(
                ["readelf", "--wide", "--dynamic", path], capture_output=True, text=True, check=True
            )
            self.assertIn("Library soname: [libhomefree.so.1]", done.stdout)
            needed = re.findall(r"\(NEEDED\).*\[(.*)\]", done.stdout)
            self.assertTrue(
                all(name.startswith(("libc.so", "ld-linux")) for name in needed), needed
            )


if __name__ == "__main__":
    needs_names_of_modules()
    arguments, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
