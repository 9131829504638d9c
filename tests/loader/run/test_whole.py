"""`homefree run` with the real library: the whole process is on the heap, its children too, and
programs of the system behave as they do without it.

Usage: test_whole.py OWNED HOMEFREE [unittest arguments]
"""

import ctypes
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

OWNED, HOMEFREE = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
PYTHON = sys.executable


def environment(**more):
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith(("HOMEFREE_", "LD_"))},
        **more,
    }


def run(*command, **options):
    """(status, stdout, stderr)"""
    done = subprocess.run(command, capture_output=True, timeout=120, **options)
    return done.returncode, done.stdout, done.stderr


def on_heap(*command, env=None, **options):
    return run(HOMEFREE, "run", "--", *command, env=env or environment(), **options)


class Whole(unittest.TestCase):
    maxDiff = None

    def test_every_block_is_the_heaps(self):
        self.assertEqual(run(OWNED)[1], b"no heap\n")
        self.assertEqual(on_heap(OWNED), (0, b"heap\n", b""))

    def test_children(self):
        script = '"$0"; "$0" | cat; env "$0"; (exec "$0"); "$1" -c "import os; os.system(\'$0\')"'
        self.assertEqual(on_heap("sh", "-c", script, OWNED, PYTHON), (0, b"heap\n" * 5, b""))

    def test_other_preloads_stay(self):
        for other in ("libm.so.6", "libjemalloc.so.2"):
            try:
                ctypes.CDLL(other)
            except OSError:
                continue
            code = "print(open('/proc/self/maps').read())"
            status, out, _ = on_heap(PYTHON, "-c", code, env=environment(LD_PRELOAD=other))
            self.assertEqual(status, 0)
            self.assertIn(other.partition(".so")[0].encode(), out)
            self.assertEqual(on_heap(OWNED, env=environment(LD_PRELOAD=other))[1], b"heap\n")

    def test_run_in_run(self):
        self.assertEqual(on_heap(HOMEFREE, "run", OWNED), (0, b"heap\n", b""))

    def test_doctor_of_run(self):
        """The record is the program's, and there is one heap."""
        _, out, err = run(HOMEFREE, "doctor", "--", HOMEFREE, "run", OWNED, env=environment())
        self.assertEqual(err, b"")
        self.assertTrue(out.startswith(b"heap\n"))
        self.assertIn(b"libhomefree-preload.so: the heap", out)
        self.assertNotIn(b"several-homefrees", out)

    def test_options_of_the_heap(self):
        status, out, err = on_heap(OWNED, env=environment(HOMEFREE_CONF="region:1G,nonsense:1"))
        self.assertEqual((status, out), (0, b"heap\n"))
        self.assertIn(b"unknown key 'nonsense'", err)

    def test_ends(self):
        for status in (0, 1, 3, 255):
            self.assertEqual(on_heap(PYTHON, "-c", f"raise SystemExit({status})")[0], status)
        for number in (signal.SIGABRT, signal.SIGKILL, signal.SIGTERM):
            code = f"import os; os.kill(os.getpid(), {int(number)})"
            self.assertEqual(on_heap(PYTHON, "-c", code, preexec_fn=no_core)[0], -number)

    def test_diagnose(self):
        """Each mode: the program ends as it does, and its report is where the line says."""
        with tempfile.TemporaryDirectory() as directory:
            for mode in ("", "=count", "=report", "=strict"):
                command = ["run", "--diagnose" + mode, "--", "sh", "-c", f"{OWNED}; exit 7"]
                status, out, err = run(HOMEFREE, *command, env=environment(), cwd=directory)
                self.assertEqual((status, out), (7, b"heap\n"), err)
                report = re.search(r"the report will be in '(.*)'\n", err.decode()).group(1)
                self.assertEqual(os.path.dirname(report), os.path.realpath(directory))
                files = [name for name in os.listdir(report) if name.endswith(".hfreport")]
                self.assertGreaterEqual(len(files), 2, "one for each process")

    def test_programs_of_the_system(self):
        """Same status and output as without."""
        for command in (
            ("sh", "-c", "echo $((6 * 7)); exit 5"),
            ("bash", "-c", "for i in {1..300}; do x+=($i); done; echo ${x[@]} | md5sum"),
            ("ls", "-la", "/usr/bin"),
            ("sort", "-R", "--random-source=/bin/true", "/etc/services"),
            ("git", "--version"),
            ("gcc", "-E", "-dM", "-xc", "/dev/null"),
            ("perl", "-e", "print join ',', map { $_ * 2 } 1 .. 10000"),
            ("tar", "-c", "/etc/passwd"),
            (PYTHON, "-c", "import json, decimal; print(json.dumps(list(range(10000))))"),
            (PYTHON, "-m", "this"),
        ):
            try:
                plain = run(*command, env=environment())
            except FileNotFoundError:
                continue
            with self.subTest(command):
                self.assertEqual(on_heap(*command), plain)

    def test_python_threads_and_processes(self):
        code = (
            "import concurrent.futures as f\n"
            "with f.ThreadPoolExecutor(8) as pool:\n"
            "    print(sum(pool.map(lambda n: len(str(2 ** n)), range(2000))))\n"
            "with f.ProcessPoolExecutor(2) as pool:\n"
            "    print(sum(pool.map(len, ['x' * n for n in range(200)])))\n"
        )
        self.assertEqual(on_heap(PYTHON, "-c", code), run(PYTHON, "-c", code, env=environment()))


def no_core():
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    unittest.main()
