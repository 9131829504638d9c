"""README's five lines: they kill Python without homefree, and run with it, as README shows.

usage: test_five_lines.py PACKAGES [unittest's arguments]
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = sys.argv.pop(1)


class FiveLines(unittest.TestCase):
    def setUp(self):
        text = (ROOT / "README.md").read_text("utf-8")
        lines = re.search(r"`five\.py`.*?```python\n(.*?)```\n\n```\n(.*?)```", text, re.DOTALL)
        self.assertIsNotNone(lines)
        self.assertEqual(lines[1].count("\n"), 5)
        self.commands = re.findall(r"^\$ (.*)python3 -c '(.*)'$", lines[2], re.MULTILINE)
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        (Path(self.directory.name) / "five.py").write_text(lines[1])

    def run_command(self, before, code):
        left_out = ("PYTHONMALLOC", "PYTHONDEVMODE", "MALLOC_CHECK_", "LD_PRELOAD")
        variables = {name: text for name, text in os.environ.items() if name not in left_out}
        variables.update(PYTHONPATH=PACKAGES, PYTHONDONTWRITEBYTECODE="1")
        return subprocess.run(
            [
                *([sys.executable, "-m", *before.split()] if before else []),
                sys.executable,
                "-c",
                code,
            ],
            cwd=self.directory.name,
            env=variables,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def test_they_do_what_readme_shows(self):
        without, *with_homefree = self.commands
        done = self.run_command(*without)
        self.assertIn(done.returncode, (-signal.SIGABRT, -signal.SIGSEGV), done.stderr)
        self.assertEqual(done.stdout, "")
        # glibc's words depend on what lies in front of the block. From 2.41 on it may die unawares.
        if done.returncode == -signal.SIGABRT:
            self.assertRegex(done.stderr, r"^(double free or corruption|munmap_chunk|free)\b")
        self.assertEqual([before for before, _ in with_homefree], ["", "homefree run -- "])
        for command in with_homefree:
            done = self.run_command(*command)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "still here\n", ""))


if __name__ == "__main__":
    unittest.main()
