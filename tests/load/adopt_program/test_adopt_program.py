"""Nothing is adopted where the program itself has the malloc that serves its process.

Debian's archives of tcmalloc and jemalloc are linked into the programs, exported or as the linker
exports them by itself. A plugin bound to libc (RTLD_DEEPBIND) is from gperftools' issue 1148: it
resizes the program's blocks, which needs homefree.

Usage: test_adopt_program.py HOMEFREE LIBHOMEFREE PLUGIN PLUGIN PROGRAM... [unittest arguments]
"""

import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import adopting  # noqa: E402

HOMEFREE, LIBRARY, *PLUGINS = (os.path.abspath(sys.argv.pop(1)) for _ in range(4))
PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:] if "/" in path]
del sys.argv[1 : 1 + len(PROGRAMS)]


class Program(adopting.Case):
    def fine(self, *command, **environment):
        self.environment.update(environment)
        result = self.run_it(*command)
        said = f"{command}: {result.stderr}"
        self.assertEqual((result.returncode, result.stdout), (0, "fine\n"), said)
        return result.stderr

    def each(self, *kinds):
        for program in PROGRAMS:
            for plugin in PLUGINS:
                for kind in kinds:
                    yield program, kind, plugin

    def test_plain(self):
        for command in self.each("shared"):
            self.fine(*command)

    def test_run(self):
        for command in self.each("shared", "deep"):
            self.fine(HOMEFREE, "run", *command)

    def test_run_adopting(self):
        for command in self.each("shared", "deep"):
            for patterns in ("--adopt", "--adopt=*.so"):
                said = self.fine(HOMEFREE, "run", patterns, *command)
                self.assertIn("malloc of its own", said)
                self.assertIn("nothing is adopted", said)

    def test_diagnosed(self):
        report = f"--report={self.directory}/report"
        for command in self.each("shared", "deep"):
            self.fine(HOMEFREE, "run", "--diagnose", report, "--adopt", *command)

    def test_late(self):
        """By hf_adopt() and hf_adopt_file(), and where dlopen() shall adopt."""
        for command in self.each("shared", "deep"):
            for conf in ("", "adopt:all"):
                self.fine(*command, LIBRARY, HOMEFREE_CONF=conf)


if __name__ == "__main__":
    unittest.main()
