"""The build backend: where something is missing, its last line says what, and how to get it.

usage: test_backend.py BUILD-DIRECTORY SOURCE-DIRECTORY [unittest's arguments]
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop(1))
SOURCE = pathlib.Path(sys.argv.pop(1))
BACKEND = SOURCE / "python/backend"
HOOK = "import homefree_build, sys; homefree_build.build_sdist(sys.argv[1])"


class Missing(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = work.name

    def last_line(self, *command, **environment):
        done = subprocess.run(
            [*command, HOOK, self.work],
            cwd=SOURCE,
            env={"PATH": self.work, "PYTHONPATH": str(BACKEND), **environment},
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn("Traceback", done.stderr)
        return done.stderr.splitlines()[-1]

    def test_meson_python(self):
        said = self.last_line(sys.executable, "-S", "-c")
        for text in ("homefree: No module named 'mesonpy'", "pip install 'meson-python >= "):
            self.assertIn(text, said)

    def test_compilers(self):
        python = BUILD / "wheels/tools/bin/python"
        if not python.exists():
            self.skipTest(f"no meson-python in {python.parent}; tests/run puts it there")
        tools = f"{python.parent}{os.pathsep}{self.work}"
        said = self.last_line(python, "-c", PATH=tools, CC="none -m64")
        for text in ("a C compiler (CC says none), a C++ compiler, make", "build-essential"):
            self.assertIn(text, said)


if __name__ == "__main__":
    unittest.main()
