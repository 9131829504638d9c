"""A program that embeds CPython and starts it twice (embed.c). Skipped where there is no libpython.

usage: test_embedding.py EMBED-PROGRAM
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import unittest

import support

PROGRAM = sys.argv.pop()
UNDER = sys.executable, "-m", "homefree", "run", "--"


def libpython():
    name = sysconfig.get_config_var("INSTSONAME") or ""
    directories = [sysconfig.get_config_var("LIBDIR") or "", *sys.path]
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    for directory in [*directories, os.path.join("/usr/lib", multiarch)]:
        for suffix in ("", ".1.0"):
            path = os.path.join(directory, name.replace(".a", ".so") + suffix)
            if name and os.path.isfile(path):
                return path
    return None


@unittest.skipIf(libpython() is None, "no shared libpython")
class Embedding(support.TestCase):
    def check(self, *words, under=()):
        done = subprocess.run(
            [*under, PROGRAM, libpython(), *words],
            env={**os.environ, "PYTHONHOME": sys.base_prefix},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "fine\n", ""))

    def test_lives(self):
        for when in ("before", "inside", "between"):
            for mode in support.MODES:
                with self.subTest(when=when, mode=mode):
                    self.check(when, mode)

    @unittest.skipIf(support.FREE_THREADED, "its mimalloc is served from the first meeting on")
    def test_looks_at_another(self):
        with tempfile.TemporaryDirectory() as directory:
            other = shutil.copy(libpython(), directory)
            for when in "before", "inside":
                self.check(when, "arena", other, under=UNDER)


if __name__ == "__main__":
    sys.exit(support.main())
