"""homefree.diagnose(): the findings of a block, by thread, mark and forked child; outside of
diagnostics mode an exception says what to do. Under every CPython of this machine.

Usage: test_block.py --homefree COMMAND --library FILE --package DIRECTORY [unittest arguments]
"""

import os
import subprocess

import pythons
from diagnosis import TIMEOUT, DiagnosisTest, arguments, main, parser

parser.add_argument("--library", required=True, type=os.path.abspath)
parser.add_argument("--package", required=True, type=os.path.abspath)

CODE = """
import os, threading, time
import homefree

def cross():
    mem_free(plain_malloc(3000))

def facts(findings):
    return [(one.rule, one.count, one.bytes) for one in findings]

cross()
with homefree.diagnose() as empty:
    pass
assert empty.findings == () and empty.marks == {}
with homefree.diagnose() as outer:
    cross()
    with homefree.diagnose() as inner:
        cross()
        assert facts(inner.mark("one")) == [("domain-mismatch", 1, 3000)]
        assert inner.mark("none") == ()
        threads = [threading.Thread(target=cross) for _ in range(5)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        raw_free(object_malloc(40))
        assert sorted(facts(inner.mark("all"))) == [
            ("domain-mismatch", 1, 0), ("domain-mismatch", 5, 15000)]
        assert len(inner.findings) == 2
        try:
            inner.mark("one")
        except RuntimeError as error:
            assert "another name" in str(error)
        else:
            raise AssertionError
        pid = os.fork()
        if pid == 0:
            assert inner.findings == (), inner.findings
            cross()
            assert facts(inner.findings) == [("domain-mismatch", 1, 3000)]
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    cross()
assert [*inner.marks] == ["one", "none", "all"]
assert ("domain-mismatch", 6, 18000) in facts(inner.findings)
assert ("domain-mismatch", 8, 24000) in facts(outer.findings)
try:
    inner.mark("late")
except RuntimeError as error:
    assert "diagnose()" in str(error)
else:
    raise AssertionError
(first,) = [one for one in inner.findings if one.count == 6]
assert first.severity == "error" and first.allocator == "heap" and first.first_freed is None
assert first.allocated[:2] == (sys.argv[1], "malloc") and first.allocated.offset > 0
assert first.freed[:2] == (sys.argv[1], "PyMem_Free")
assert "PyMem_Free" in first.remedy and first.remedy in str(first)
(small,) = [one for one in inner.findings if one.count == 1]
assert small.allocator == "PYTHONS" and small.allocated is None
try:
    with homefree.diagnose() as broken:
        cross()
        raise KeyError
except KeyError:
    assert len(broken.findings) == 1

def microseconds(count=100):
    begin = time.process_time()  # the machine may be busy
    for _ in range(count):
        with homefree.diagnose():
            pass
    return (time.process_time() - begin) / count * 1e6
assert min(microseconds() for _ in range(20)) < 20
print("done")
"""

# The blocks of CPython's own allocator are recognised, wherever they lie; the raw domain's blocks
# are the heap's then, which any function may free.
INSTALLED = """
import homefree
early = mem_malloc(40)
homefree.install()
late = [object_malloc(48) for _ in range(40000)]
with homefree.diagnose() as diagnosis:
    plain_free(early)
    plain_free(late.pop())
    object_free((plain_malloc if "PYTHONS" == "mimalloc" else mem_malloc)(5000))
    mem_free(plain_malloc(5000))
    mem_free(raw_malloc(5000))
    for block in late: object_free(block)
found = sorted((one.rule, one.count, one.allocator, one.freed.function)
               for one in diagnosis.findings)
assert found == [
    ("domain-mismatch", 1, "heap", "PyMem_Free"),
    ("domain-mismatch", 1, "heap", "PyObject_Free"),
    ("domain-mismatch", 2, "PYTHONS", "free"),
], found
print("done")
"""

OUTSIDE = """
import homefree
try:
    with homefree.diagnose():
        raise AssertionError
except RuntimeError as error:
    assert str(error).startswith("homefree: this process "), error
    assert "homefree run --diagnose -- " in str(error), error
print("done")
"""


class Block(DiagnosisTest):
    def diagnose(self, code, **more):
        def run(path, version, directory):
            allocator = "mimalloc" if version.free_threaded else "pymalloc"
            return path, pythons.run_python(
                *(arguments, path, code.replace("PYTHONS", allocator), directory),
                PYTHONPATH=arguments.package,
                **more,
            )

        return pythons.each(run, [(*one, self.directories.new()) for one in pythons.pythons()])

    def test_block(self):
        for path, run in self.diagnose(CODE):
            with self.subTest(path=path):
                self.assertEqual((run.status, run.output), (0, "done\n"), run.errors)

    def test_after_install(self):
        for path, run in self.diagnose(INSTALLED):
            with self.subTest(path=path):
                self.assertEqual((run.status, run.output), (0, "done\n"), run.errors)

    def test_counting_process(self):
        for path, run in self.diagnose(OUTSIDE, mode="count"):
            with self.subTest(path=path):
                self.assertEqual((run.status, run.output), (0, "done\n"), run.errors)

    def test_process_that_is_not_diagnosed(self):
        for path, _ in pythons.pythons():
            done = subprocess.run(
                [path, "-s", "-c", OUTSIDE],
                env=pythons.environment(PYTHONPATH=arguments.package),
                capture_output=True,
                timeout=TIMEOUT,
            )
            self.assertEqual((done.returncode, done.stdout), (0, b"done\n"), done.stderr)


if __name__ == "__main__":
    main(needs_names=True)
