"""Blocks of CPython's domains that another domain or libc frees, and calls without the GIL: each is
found with its places, and the process goes on. Under every CPython of this machine.

Usage: test_domains.py --homefree COMMAND --library FILE [unittest arguments]
"""

import os
import signal

import pythons
from diagnosis import DiagnosisTest, arguments, main, parser

parser.add_argument("--library", required=True, type=os.path.abspath)

SMALL, LARGE = 40, 5000
FAMILIES = {"raw": "PyMem_Raw", "mem": "PyMem_", "object": "PyObject_", "plain": ""}
# What this family allocates is libc's.
LIBC = {"raw", "plain"}

CROSSINGS = f"""
for size in {SMALL}, {LARGE}:
    for allocate in FAMILIES:
        for release in FAMILIES:
            globals()[release + "_free"](globals()[allocate + "_malloc"](size))
for size in {SMALL}, {LARGE}:
    for allocate, resize in ("mem", "plain"), ("object", "raw"), ("plain", "mem"):
        block = globals()[allocate + "_calloc"](size)
        ctypes.memset(block, 7, size)
        moved = globals()[resize + "_realloc"](block, 2 * size)
        assert ctypes.string_at(moved, size) == bytes([7]) * size
print("done")
"""

WITHOUT_GIL = f"""
block = mem_malloc({SMALL})
ctypes.memset(block, 7, {SMALL})
grown = mem_realloc_bare(block, 80)
assert ctypes.string_at(grown, {SMALL}) == bytes([7]) * {SMALL}
mem_free(grown)
for size in {SMALL}, {LARGE}:
    mem_free_bare(mem_malloc_bare(size))
    object_free(object_calloc_bare(size))
    object_free_bare(object_malloc(size))
    plain_free_bare(raw_malloc_bare(size))
    raw_free_bare(raw_realloc_bare(plain_malloc_bare(size), 2 * size))
mem_free_bare(None)
print("done")
"""

GROWTH = """
for family in FAMILIES:
    allocate = globals()[family + "_malloc"]
    resize = globals()[family + "_realloc"]
    release = globals()[family + "_free"]
    for first in 0, 1, 16, 500, 512, 513, 600, 4000, 100_000:
        for second in 0, 1, 400, 512, 513, 700, 5000, 300_000:
            block = allocate(first)
            assert block
            ctypes.memset(block, 9, first)
            if family == "plain":
                second += 1
            moved = resize(block, second)
            assert moved
            kept = min(first, second)
            assert ctypes.string_at(moved, kept) == bytes([9]) * kept
            release(moved)
        release(resize(None, first))
        release(globals()[family + "_calloc"](first))
    release(None)
print("done")
"""


def functions(family, verb):
    return FAMILIES[family] + verb if family != "plain" else verb.lower()


class Domains(DiagnosisTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.pythons = pythons.pythons()

    def diagnose(self, code, **more):
        """[(path, version, run)] of the code in each interpreter."""

        def run(path, version, directory):
            return path, version, pythons.run_python(arguments, path, code, directory, **more)

        self.assertTrue(self.pythons, "this machine has no CPython")
        return pythons.each(run, [(*one, self.directories.new()) for one in self.pythons])

    def fine(self, run):
        self.assertEqual((run.status, run.output), (0, "done\n"), run.errors)

    def test_crossings(self):
        for path, version, run in self.diagnose(CROSSINGS):
            with self.subTest(path=path):
                self.fine(run)
                findings = run.report["findings"]
                self.assertEqual({finding["rule"] for finding in findings}, {"domain-mismatch"})
                found = {
                    (pythons.side(finding, "allocated"), pythons.side(finding, "freed")): finding
                    for finding in findings
                }
                for allocate in FAMILIES:
                    for release in FAMILIES:
                        self.check(found, version, allocate, release)
                self.assertTrue(found.pop(((None, None), ("realloc", "plain_realloc"))))
                self.assertTrue(found.pop(((None, None), ("PyMem_RawRealloc", "raw_realloc"))))
                for allocate, resize in ("mem", "plain"), ("object", "raw"), ("plain", "mem"):
                    if version.free_threaded and allocate not in LIBC:
                        continue
                    sides = (
                        (functions(allocate, "Calloc"), allocate + "_calloc"),
                        (functions(resize, "Realloc"), resize + "_realloc"),
                    )
                    self.assertEqual(found.pop(sides)["count"], 2 if allocate in LIBC else 1)
                self.assertEqual(found, {})

    def check(self, found, version, allocate, release):
        """Removes what must have been found. Of CPython's own blocks only the place is known that
        frees them: the small ones, and all in a free-threaded CPython."""
        freed = functions(release, "Free"), release + "_free"
        sides = (functions(allocate, "Malloc"), allocate + "_malloc"), freed
        if allocate == release or {allocate, release} == LIBC:
            self.assertNotIn(sides, found)
        elif allocate in LIBC:  # both sizes are blocks of the heap
            finding = found.pop(sides)
            self.assertEqual((finding["count"], finding["bytes"]), (2, SMALL + LARGE))
        else:
            if not version.free_threaded:
                finding = found.pop(sides)
                self.assertEqual((finding["count"], finding["bytes"]), (1, LARGE))
            if release in LIBC and ((None, None), freed) in found:  # of both domains
                own = found.pop(((None, None), freed))
                self.assertEqual(
                    (own["count"], own["allocated"]["allocator"]),
                    (4, "mimalloc") if version.free_threaded else (2, "pymalloc"),
                )

    def test_calls_without_the_gil(self):
        for path, _, run in self.diagnose(WITHOUT_GIL):
            with self.subTest(path=path):
                self.fine(run)
                findings = run.report["findings"]
                self.assertEqual({finding["rule"] for finding in findings}, {"no-gil"})
                found = {}
                for finding in findings:
                    allocated, freed = (
                        pythons.side(finding, name) for name in ("allocated", "freed")
                    )
                    found[freed if freed[0] else allocated] = finding["count"]
                self.assertEqual(
                    found,
                    {
                        ("PyMem_Malloc", "mem_malloc"): 2,
                        ("PyMem_Realloc", "mem_realloc"): 1,
                        ("PyMem_Free", "mem_free"): 2,
                        ("PyObject_Calloc", "object_calloc"): 2,
                        ("PyObject_Free", "object_free"): 2,
                    },
                )
                for finding in findings:
                    stacks = [
                        (finding[name] or {}).get("stack") or [] for name in ("allocated", "freed")
                    ]
                    self.assertTrue(any(stacks), finding)

    def test_calls_while_another_thread_has_the_gil(self):
        code = f"""
import threading
call = function(bare, "call_meanwhile", None, size_t)
thread = threading.Thread(target=call, args=({SMALL},))
thread.start()
function(held, "hold_gil", None)()
thread.join()
print("done")
"""
        for path, _, run in self.diagnose(code):
            with self.subTest(path=path):
                self.fine(run)
                findings = run.report["findings"]
                self.assertEqual([finding["rule"] for finding in findings], ["no-gil"] * 2)

    def test_what_the_interpreter_freed_before_does_not_count(self):
        code = f"""
function(held, "reused_free", None, size_t)({SMALL})
print("done")
"""
        for path, _, run in self.diagnose(code):
            with self.subTest(path=path):
                self.fine(run)
                (finding,) = run.report["findings"]
                self.assertEqual(finding["rule"], "domain-mismatch")
                self.assertEqual(pythons.side(finding, "freed"), ("PyMem_RawFree", "reused_free"))

    def test_blocks_keep_their_contents_and_domains(self):
        for path, _, run in self.diagnose(GROWTH):
            with self.subTest(path=path):
                self.fine(run)
                self.assertEqual(run.report["findings"], [])

    def test_strict_mode_stops_at_the_first(self):
        for code, rule in (
            ("plain_free(mem_malloc(5000))", "domain-mismatch"),
            ("raw_free(object_malloc(50))", "domain-mismatch"),
            ("mem_malloc_bare(50)", "no-gil"),
        ):
            for path, _, run in self.diagnose(code, mode="strict"):
                with self.subTest(path=path, code=code):
                    self.assertEqual(run.status, -signal.SIGABRT, run.errors)
                    self.assertIn(f"homefree: fatal: {rule} of ", run.errors)

    def test_counting_installs_nothing(self):
        for path, _, run in self.diagnose(
            "object_free(raw_malloc(50)); print('done')", mode="count"
        ):
            with self.subTest(path=path):
                self.fine(run)
                self.assertEqual(run.report["findings"], [])

    def test_each_pair_of_many_objects_is_counted(self):
        many = 16
        code = f"""
import ctypes, os, shutil, tempfile
with tempfile.TemporaryDirectory() as directory:
    copies = []
    for i in range({many}):
        path = shutil.copy(sys.argv[1], os.path.join(directory, f"copy{{i}}.so"))
        copies.append(ctypes.PyDLL(path))
    for first in copies:
        allocate = function(first, "plain_malloc", pointer, size_t)
        for second in copies:
            release = function(second, "plain_free", None, pointer)
            for size in range(3):
                release(allocate(100))
print("done")
"""
        path = self.pythons[-1][0]
        run = pythons.run_python(arguments, path, code, self.directories.new())
        self.fine(run)
        report = run.report
        self.assertEqual([process["dropped"] for process in report["processes"]], [0])
        pairs = [
            pair
            for pair in report["matrix"]
            if "copy" in (pair["allocated_by"] or "") and "copy" in (pair["freed_by"] or "")
        ]
        # The report takes objects with one build id for one.
        self.assertEqual(sum(pair["blocks"] for pair in pairs), 3 * many * many)
        self.assertEqual(sum(pair["bytes"] for pair in pairs), 300 * many * many)


if __name__ == "__main__":
    main(needs_names=True)
