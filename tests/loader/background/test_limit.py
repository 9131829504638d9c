"""Under a real limit of a cgroup, a program whose allocators keep what is free dies without the
option pressure, and lives with it; and what last_words wrote is there when the kernel has killed.

Usage: test_limit.py HOARD [unittest arguments]
"""

import os
import pathlib
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from cgroups import cgroup

HOARD = pathlib.Path(sys.argv[1]).resolve()
MEBIBYTE = 1 << 20
LIMIT = 160 * MEBIBYTE
GROWS_TO = 288  # MiB, in 12 steps of a tenth of a second


def run(made, *arguments, conf):
    return made.run([HOARD, *arguments], env={**os.environ, "HOMEFREE_CONF": conf})


class Limit(unittest.TestCase):
    def test_what_is_free_goes_back_before_the_limit(self):
        with cgroup(LIMIT) as made:
            without = run(made, "free", GROWS_TO, conf="")
            self.assertEqual(without.returncode, -signal.SIGKILL, without)
            done = run(made, "free", GROWS_TO, conf="pressure:70")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "done\n", ""))

    def test_last_words(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = pathlib.Path(directory.name, "words-%p")
        with cgroup(LIMIT) as made:
            died = run(made, "live", GROWS_TO, conf=f"last_words:{path}")
        self.assertEqual(died.returncode, -signal.SIGKILL, died)
        (file,) = path.parent.iterdir()
        lines = file.read_text().splitlines()
        self.assertEqual(lines[0], "homefree-last-words 1")
        self.assertEqual(lines[-1], "end")
        facts = {line.split()[0]: line.split()[1:] for line in lines}
        self.assertEqual(file.name, f"words-{facts['process'][0]}")
        self.assertEqual(facts["process"][1], "hoard")
        used, limit = map(int, facts["cgroup"])
        self.assertEqual(limit, LIMIT)
        self.assertGreater(used, LIMIT * 0.6)
        self.assertGreater(int(facts["heap"][0]), LIMIT * 0.5)
        self.assertGreater(int(facts["resident"][0]), LIMIT * 0.5)

    def test_last_words_are_not_written_without_need(self):
        with tempfile.TemporaryDirectory() as directory, cgroup(LIMIT) as made:
            done = run(made, "live", 72, conf=f"last_words:{directory}/words")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "done\n", ""))
            self.assertEqual(os.listdir(directory), [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
