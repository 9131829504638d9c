"""Records of a few megabytes, made so that a rule that compares each entry with each takes minutes.
Fuzzers do not find these: their inputs are small. Each takes a second or two.

Usage: test_large.py HOMEFREE [unittest arguments]
"""

import os
import resource
import subprocess
import sys
import tempfile
import unittest

HOMEFREE = os.path.abspath(sys.argv.pop(1))
SECONDS = 20  # of processor time, also under a sanitizer
COUNT = 60000


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


class Large(unittest.TestCase):
    def show(self, *lines):
        first = ["homefree-doctor\t2", "process\t12\texit\t0\t/bin/app\ton"]
        text = "\n".join([*first, *lines, f"end\t{len(first) + len(lines)}\n"])
        with tempfile.NamedTemporaryFile("w", prefix="homefree-record-") as file:
            file.write(text)
            file.flush()
            done = subprocess.run(
                [HOMEFREE, "doctor", "--read", file.name],
                capture_output=True,
                preexec_fn=limit,
                text=True,
            )
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return done.stdout

    def test_refused_slots(self):
        slots = [f"slot\t0\tf{i}\tcall\trefused\t-\tbecause" for i in range(COUNT)]
        shown = self.show("object\t0\tordinary\tp\t/bin/app\t-", *slots)
        self.assertEqual(shown.count(": because"), COUNT)

    def test_same_findings_are_one(self):
        slots = [f"slot\t0\tf{i % 3}\tcall\trefused\t-\tbecause" for i in range(COUNT)]
        shown = self.show("object\t0\tordinary\tp\t/bin/app\t-", *slots)
        self.assertEqual(shown.count(": because"), 3)

    def test_allocators(self):
        objects = [f"object\t0\tordinary\t-\t/lib/{i}.so\t-" for i in range(COUNT)]
        mallocs = [f"defines\t{i}\tmalloc" for i in range(COUNT)]
        frees = [f"defines\t{i}\tfree" for i in range(COUNT)]
        shown = self.show(*objects, *mallocs, *frees, "slot\t0\tfree\tcall\trouted\t7\t-")
        self.assertIn("/lib/7.so: used by 1 object\n", shown)

    def test_preloaded(self):
        objects = [f"object\t0\tordinary\t-\t/lib/{i}.so\t-" for i in range(COUNT // 4)]
        mallocs = [f"defines\t{i}\tmalloc" for i in range(COUNT // 4)]
        frees = [f"defines\t{i}\tfree" for i in range(COUNT // 4)]
        shown = self.show("preload\t" + "x:" * COUNT + "/other/5.so", *objects, *mallocs, *frees)
        self.assertIn("was preloaded", shown)
        self.assertIn("/lib/5.so", shown)


if __name__ == "__main__":
    unittest.main()
