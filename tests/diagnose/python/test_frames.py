"""Stacks have Python frames: file, function and line, also of generators, threads and long stacks,
and where a call through ctypes has given the GIL up. Places in Python's code that call through
libffi are places of their own. What is known of CPython's structures is what its headers say.

Usage: test_frames.py --homefree COMMAND --library FILE --lines FILE --source DIRECTORY
                      --compiler WORD…
                      [unittest arguments]
"""

import json
import os
import subprocess
import tempfile
from pathlib import Path

import pythons
from diagnosis import DiagnosisTest, arguments, main, parser

parser.add_argument("--library", required=True, type=os.path.abspath)
parser.add_argument("--lines", required=True, type=os.path.abspath)
parser.add_argument("--source", required=True, type=Path)
parser.add_argument("--compiler", required=True, nargs="+")

HERE = Path(__file__).resolve().parent
# Begins at line 1 of a file of its own.
PROGRAM = """exec(open("prelude.py").read())
import threading
class Owner:
    def give(self, block):
        mem_free(block)
def größe(size):
    return plain_malloc(size)
def generator():
    for size in 3000, 5000:
        yield größe(size)
def deep(depth, block):
    return deep(depth - 1, block) if depth else raw_free(block)
def everything():
    for block in generator():
        Owner().give(block)
    deep(100, object_malloc(6000))
    thread = threading.Thread(target=lambda: Owner().give(plain_calloc(7000)))
    thread.start()
    thread.join()
    exec("x = 1\\nobject_free(plain_malloc(8000))")
    mem_malloc_bare(9000)
everything()
print("done")
"""
FRAMES_MAX = 32
# Two places allocate and two free, through one call in libffi and without the GIL.
SITES = """import ctypes, sys, threading
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc._ZdlPv.restype, libc._ZdlPv.argtypes = None, [ctypes.c_void_p]
def make():
    return libc.malloc(1000)
def make_other():
    return libc.malloc(64)
def site_one(block):
    libc._ZdlPv(block)
def site_two(block):
    libc._ZdlPv(block)
site_one(make())
for _ in range(3):
    site_two(make())
def work():
    for _ in range(400):
        site_two(make_other())
thread = threading.Thread(target=work)
thread.start()
thread.join()
print("done")
"""
# By the places: how often, and with how many bytes.
CROSSED = {
    (("make", 6), ("site_one", 10)): (1, 1000),
    (("make", 6), ("site_two", 12)): (3, 3000),
    (("make_other", 8), ("site_two", 12)): (400, 400 * 64),
}


class Frames(DiagnosisTest):
    def lines(self, side):
        return [
            (os.path.basename(line["file"]), line["function"].rpartition(".")[2], line["line"])
            for line in side["python"]
        ]

    def test_frames(self):
        with tempfile.TemporaryDirectory() as directory:
            program = Path(directory) / "prögram.py"
            program.write_text(PROGRAM, encoding="utf-8")
            (Path(directory) / "prelude.py").write_text(pythons.PRELUDE, encoding="utf-8")
            code = f"import os, runpy; os.chdir({directory!r}); runpy.run_path('prögram.py')"

            def run(path, _, report):
                return (
                    path,
                    pythons.run_python(arguments, path, code, report, prelude="", PYTHONUTF8="1"),
                )

            tasks = [(*one, self.directories.new()) for one in pythons.pythons()]
            for path, done in pythons.each(run, tasks):
                with self.subTest(path=path):
                    self.assertEqual((done.status, done.output), (0, "done\n"), done.errors)
                    self.check(done.report["findings"])

    def check(self, findings):
        name = "prögram.py"
        outer = (name, "everything")
        self.assertEqual(len(findings), 5)
        by_lines = {}
        for finding in findings:
            side = finding["freed"] if finding["freed"]["function"] else finding["allocated"]
            by_lines[tuple(self.lines(side)[:2])] = finding
        give = by_lines[(name, "give", 5), (*outer, 15)]
        self.assertEqual(give["count"], 2)
        self.assertEqual(
            self.lines(give["allocated"])[:3],
            [(name, "größe", 7), (name, "generator", 10), (*outer, 14)],
        )
        deep = by_lines[(name, "deep", 12), (name, "deep", 12)]
        self.assertEqual(self.lines(deep["freed"]), [(name, "deep", 12)] * FRAMES_MAX)
        lambda_line = by_lines[(name, "give", 5), (name, "<lambda>", 17)]
        self.assertIn("run", [line[1] for line in self.lines(lambda_line["freed"])])
        executed = by_lines[("<string>", "<module>", 2), (*outer, 20)]
        self.assertEqual(executed["rule"], "domain-mismatch")
        (without,) = [one for one in findings if one["rule"] == "no-gil"]
        self.assertEqual(self.lines(without["allocated"])[:1], [(*outer, 21)])
        self.assertNotEqual(without["allocated"]["stack"], [])

    def test_sites_of_python(self):
        def run(path, _, report):
            return path, report, pythons.run_python(arguments, path, SITES, report, prelude="")

        tasks = [(*one, self.directories.new()) for one in pythons.pythons()]
        for path, report, done in pythons.each(run, tasks):
            with self.subTest(path=path):
                self.assertEqual((done.status, done.output), (0, "done\n"), done.errors)
                self.assertEqual(self.crossed(done.report["findings"]), CROSSED)
                text = done.text()
                for (allocating, line), (freeing, _) in CROSSED:
                    self.assertIn(f"called by {allocating} in <string>:{line}\n", text)
                    self.assertIn(f"called by {freeing} in <string>:", text)
                # As documents and as files, other reports of the same program have the same sites.
                document = report + ".json"
                Path(document).write_text(done.text("--json"))
                for old in report, document:
                    changes = json.loads(done.text("--json", "--compare", old))["compare"]
                    changes = {key: changes[key] for key in ("new", "more", "fewer", "gone")}
                    self.assertEqual(set(map(len, changes.values())), {0}, changes)

    def crossed(self, findings):
        self.assertEqual({finding["rule"] for finding in findings}, {"malloc-delete"})
        return {
            tuple(self.lines(finding[side])[0][1:] for side in ("allocated", "freed")): (
                finding["count"],
                finding["bytes"],
            )
            for finding in findings
        }

    def test_layouts_are_those_of_the_headers(self):
        checked = 0
        question = "import sysconfig; print(sysconfig.get_path('include'))"
        with tempfile.TemporaryDirectory() as directory:

            def check(path, number):
                include = subprocess.run(
                    [path, "-c", question], capture_output=True, check=True, text=True
                ).stdout.strip()
                if not os.path.exists(os.path.join(include, "internal/pycore_code.h")):
                    return path, None
                program = os.path.join(directory, str(number))
                command = [*arguments.compiler, "-w", "-o", program, HERE / "layouts.c"]
                for where in include, os.path.join(include, "internal"), arguments.source:
                    command += ["-I", where]
                subprocess.run(command, check=True)
                return path, subprocess.run([program], capture_output=True, text=True)

            tasks = [(path, i) for i, (path, _) in enumerate(pythons.pythons())]
            for path, done in pythons.each(check, tasks):
                with self.subTest(path=path):
                    if done is not None:
                        checked += 1
                        self.assertEqual((done.returncode, done.stdout), (0, ""))
        if checked == 0:
            self.skipTest("no CPython here has its headers")

    def test_lines_are_those_that_cpython_says(self):
        def check(path):
            return path, subprocess.run(
                [path, "-s", "-W", "ignore", HERE / "lines_check.py", arguments.lines],
                env=pythons.environment(),
                capture_output=True,
                text=True,
            )

        for path, done in pythons.each(check, [(path,) for path, _ in pythons.pythons()]):
            with self.subTest(path=path):
                self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done.stderr)


if __name__ == "__main__":
    main(needs_names=True)
