"""What doctor, and a diagnosis, say of pyarrow's libarrow, which has two allocators inside. Both
are listed, with what each has mapped, also from outside. A null pointer that libarrow follows is
not its allocators' business.

Usage: test_wheels.py HOMEFREE DIRECTORY [unittest arguments]. DIRECTORY/cpython-VERSION are
environments with wheels. Exit status 77 if none has pyarrow.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
from glibc import needs_names_of_modules  # noqa: E402

HOMEFREE, WHEELS = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
BYTES = 300 << 20
# Ends at once, while it has the memory.
POOL = f"""
import os, sys, pyarrow
kept = pyarrow.allocate_buffer({BYTES}, memory_pool=pyarrow.mimalloc_memory_pool())
print("ready", flush=True)
sys.stdin.read()
os._exit(0)
"""
CRASH = """
import ctypes, glob, os, pyarrow
(path,) = glob.glob(os.path.join(os.path.dirname(pyarrow.__file__), "libarrow.so.*"))
block = ctypes.create_string_buffer(500)
ctypes.CDLL(path)._ZNK5arrow6Buffer6EqualsERKS0_(None, block)
"""


def with_pyarrow():
    """A Python for each release of pyarrow."""
    found = {}
    for python in sorted(Path(WHEELS).glob("cpython-*/bin/python")):
        for path in python.parents[1].glob("lib/python*/site-packages/pyarrow/libarrow.so.*"):
            found[path.name] = str(python)
    return found.values()


class Arrow(unittest.TestCase):
    def each(self):
        for python in with_pyarrow():
            with self.subTest(python=python):
                yield python

    def doctor(self, *arguments, status=0):
        done = subprocess.run(
            [HOMEFREE, "doctor", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
        )
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def of_arrow(self, done):
        """The allocators in libarrow, by name."""
        (process,) = json.loads(done.stdout[done.stdout.index("{") :])["processes"]
        return {
            each["name"]: each
            for each in process["allocators"]
            if os.path.basename(each["object"]).startswith("libarrow.so")
        }

    def test_both_allocators(self):
        for python in self.each():
            found = self.of_arrow(self.doctor("--json", "--", python, "-c", POOL))
            self.assertEqual(set(found), {"jemalloc", "mimalloc"})
            self.assertGreaterEqual(found["mimalloc"]["mapped"], BYTES)
            self.assertLess(found["jemalloc"]["mapped"], BYTES)
            text = self.doctor("--", python, "-c", POOL).stdout
            for name in found:
                self.assertRegex(
                    text, rf"(?m)^  {name}   .*/libarrow\.so\.[0-9]+: its own.* mapped$"
                )
            # What cannot be reached is named; of the dynamic linker, nothing is expected.
            self.assertIn(", 0 objects are out of reach.", text)
            self.assertNotIn("out-of-reach", text)

    def test_from_outside(self):
        for python in self.each():
            with subprocess.Popen(
                [HOMEFREE, "run", "--", python, "-c", POOL],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            ) as target:
                self.assertEqual(target.stdout.readline(), b"ready\n")
                found = self.of_arrow(self.doctor("--json", "--pid", str(target.pid)))
                text = self.doctor("--pid", str(target.pid)).stdout
                target.stdin.close()
            self.assertEqual(set(found), {"jemalloc", "mimalloc"})
            for each in found.values():
                self.assertIsNone(each["mapped"])
                self.assertGreaterEqual(each["mapped_in_object"], BYTES)
            self.assertIn(" mapped by these together\n", text)

    def test_a_null_pointer(self):
        for python in self.each():
            done = self.doctor("--json", "--", python, "-c", CRASH, status=1)
            self.assertNotIn("the program dies in", done.stderr)
            (process,) = json.loads(done.stdout)["processes"]
            rules = {each["rule"] for each in process["findings"]}
            self.assertIn("died", rules)
            self.assertNotIn("died-in-allocator", rules)
            with tempfile.TemporaryDirectory(prefix="homefree-test-doctor-") as directory:
                command = [HOMEFREE, "run", "--diagnose", "--report", directory, "--", python]
                run = subprocess.run(
                    [*command, "-c", CRASH], stderr=subprocess.DEVNULL, timeout=100
                )
                self.assertEqual(run.returncode, -signal.SIGSEGV)
                report = subprocess.run(
                    [HOMEFREE, "report", "--json", directory], capture_output=True, timeout=100
                )
                rules = {each["rule"] for each in json.loads(report.stdout)["findings"]}
                self.assertNotIn("foreign-free", rules)


if __name__ == "__main__":
    if not list(with_pyarrow()):
        print("skipped: no environment with pyarrow's wheel")
        sys.exit(77)
    needs_names_of_modules()
    unittest.main(verbosity=2)
