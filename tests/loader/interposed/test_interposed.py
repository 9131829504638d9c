"""Preloaded libraries that define functions of libc's which the heap calls, such as libfaketime.

They allocate when they are called first, and the heap calls these functions while it starts and
under its locks.

usage: test_interposed.py LIBHOMEFREE PRELOAD DIAGNOSE INTERPOSES
"""

import glob
import os
import subprocess
import sys
import tempfile
import unittest

late, preload, diagnose, interposes = map(os.path.abspath, sys.argv[1:5])

WORK = f"""
import ctypes, sys, threading, time
if sys.argv[1] == "late":
    ctypes.CDLL({late!r})
def work():
    for size in range(1, 20000, 7):
        bytearray(size), bytearray(50 * size)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(time.gmtime().tm_year)
"""


class Interposed(unittest.TestCase):
    def check(self, library, year=None, **environment):
        for way, libraries in {
            "alone": [library],
            "late": [library],
            "first": [preload, library],
            "last": [library, preload],
            "diagnosed, first": [diagnose, library],
            "diagnosed, last": [library, diagnose],
        }.items():
            with self.subTest(way=way), tempfile.TemporaryDirectory() as directory:
                result = subprocess.run(
                    [sys.executable, "-c", WORK, way],
                    capture_output=True,
                    text=True,
                    timeout=120,
                    env={
                        **os.environ,
                        "LD_PRELOAD": ":".join(libraries),
                        "HOMEFREE_DIAGNOSE": f"mode:report,quiet:1,directory:{directory}",
                        **environment,
                    },
                )
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                if year is not None:
                    self.assertEqual(result.stdout, f"{year}\n")

    def test_each_allocates(self):
        self.check(interposes)

    def test_faketime(self):
        found = glob.glob("/usr/lib/*/faketime/libfaketime.so.1")
        if not found:
            self.skipTest("libfaketime is not installed")
        self.check(found[0], year=2020, FAKETIME="@2020-06-01 00:00:00")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
