"""Blocks of CPython's pymalloc that C frees, resizes and measures: with the GIL they go to CPython,
without it the process ends with one line; and what owner_of() says of them. Arenas from before
install() and after it.
"""

import subprocess
import sys
from textwrap import dedent

import support

# Blocks of every size class, from arenas made before and after install(); CPython's debug hooks
# need up to 32 bytes of each block.
BLOCKS = """
largest = 464 if os.environ.get("PYTHONMALLOC") == "debug" else 512
early = [object_malloc(n) for n in range(1, largest + 1)]
homefree.install({mode})
late = [object_malloc(n % largest + 1) for n in range(30000)]
"""


@support.without_gil
class Blocks(support.TestCase):
    def fine_with_hooks(self, code):
        """Calls fine() with BLOCKS first, with and without CPython's debug hooks."""
        for allocator in ("", "debug"):
            with self.subTest(allocator=allocator):
                self.fine(BLOCKS.format(mode="") + dedent(code), PYTHONMALLOC=allocator)

    def test_free(self):
        self.fine_with_hooks(
            """
            assert {kind(block) for block in early + late} == {"pymalloc"}
            assert all(usable(block) >= n + 1 for n, block in enumerate(early))
            count = sys.getallocatedblocks()
            for block in early + late:
                free(block)
            assert sys.getallocatedblocks() <= count - 30000
            for _ in range(3):
                for n in range(1, largest + 1):
                    free(mem_malloc(n))
            assert churn() == 80000
            """
        )

    def test_realloc(self):
        self.fine_with_hooks(
            """
            for block in [mem_malloc(n % 390 + 1) for n in range(1000)]:
                ctypes.memset(block, 7, 1)
                grown = realloc(block, 400)
                large = realloc(grown, 5000)
                assert kind(grown) == "pymalloc" and kind(large) in ("heap", "unknown")
                assert ctypes.string_at(large, 1) == bytes([7])
                mem_free(large)
            assert realloc(mem_malloc(10), 0) is None
            assert churn() == 80000
            """
        )

    def test_owner(self):
        self.fine(
            BLOCKS.format(mode="")
            + """
for blocks in early, late:
    block = blocks[200]
    owner = owner_of(block)
    assert owner.kind == owner.allocator == "pymalloc", owner
    assert owner.block == block and 201 <= owner.size <= 216 and owner.domain is None, owner
    assert "python" in owner.object, owner
    assert owner_of(block + 3)[:5] == owner[:5]
    object_free(block)
    assert owner_of(block).block is None, owner_of(block)
assert kind("a string" + str(early)) == "heap"
assert kind([1, 2]) == "pymalloc" and kind(object()) == "pymalloc"
"""
        )

    def test_arenas_that_do_not_fit_into_one_read(self):
        # arenas.c reads 32 entries of CPython's list at once; some of these are not used any more.
        self.fine(
            """
early = [object_malloc(512) for _ in range(120000)]
for block in early[40000:60000]:
    object_free(block)
del early[40000:60000]
homefree.install()
assert {kind(block) for block in early[::50]} == {"pymalloc"}
for block in early:
    free(block)
assert churn() == 80000
"""
        )

    def test_owner_domain(self):
        self.fine(
            BLOCKS.format(mode="")
            + """
assert owner_of(late[99]).domain == owner_of(early[99]).domain == "object"
block = mem_malloc(50)
assert owner_of(block)[3:6] == (block, 50, "mem"), owner_of(block)
assert owner_of(block - 8)[3:6] == (block, 50, "mem")
""",
            PYTHONMALLOC="debug",
        )

    def test_subprocess_without_install(self):
        """Without install() nothing is changed: nobody owns pymalloc's blocks then."""
        self.fine('assert kind(object()) in ("unknown", "pymalloc") and kind(0) != "heap"')


@support.without_gil
class Deaths(support.TestCase):
    def test_without_gil(self):
        for age in ("early", "late"):
            for call, name in (
                ("free_bare(block)", "free(0x"),
                ("realloc_bare(block, 9)", "realloc(0x"),
            ):
                with self.subTest(age=age, call=call):
                    self.dies(
                        BLOCKS.format(mode="") + f"block = {age}[99]\n{call}",
                        name,
                        "pymalloc",
                        "GIL",
                        "112 bytes",
                        "called from ",
                        "PyMem_RawMalloc",
                    )

    def test_usable_size_needs_no_gil(self):
        self.fine(
            BLOCKS.format(mode="")
            + """
measure = function(bare, "malloc_usable_size", size_t, pointer)
assert measure(early[99]) == measure(late[99]) == 112
"""
        )

    def test_another_thread_has_the_gil(self):
        self.dies(
            BLOCKS.format(mode="")
            + """
thread = threading.Thread(target=free_bare, args=(late[99],))
thread.start()
thread.join()
""",
            "pymalloc",
            "GIL",
        )

    def test_twice(self):
        for age in ("early", "late"):
            with self.subTest(age=age):
                self.dies(
                    BLOCKS.format(mode="") + f"block = {age}[99]\nfree(block)\nfree(block)",
                    "pymalloc",
                    "double free",
                )

    def test_twice_under_debug_hooks(self):
        self.dies(
            BLOCKS.format(mode="") + "free(late[99])\nfree(late[99])",
            "pymalloc",
            PYTHONMALLOC="debug",
        )

    def test_inside(self):
        for age in ("early", "late"):
            with self.subTest(age=age):
                self.dies(BLOCKS.format(mode="") + f"free({age}[99] + 16)", "inside a block")

    def test_no_block(self):
        """The head of a pool. An arena may begin at any page, so a wrong size of pools would find
        one outside of it now and then."""
        pool = 16384 if sys.version_info >= (3, 10) else 4096
        self.dies(
            BLOCKS.format(mode="") + f"free((late[99] & -{pool}) + 8)", "pymalloc", "no block"
        )


SUBINTERPRETERS = """
try:
    import _interpreters as interpreters
    create = lambda: interpreters.create("isolated")
except ImportError:
    import _xxsubinterpreters as interpreters
    create = interpreters.create
def run(code, interpreter=None, end=True):
    interpreter = create() if interpreter is None else interpreter
    failure = interpreters.run_string(interpreter, code)
    assert not failure, failure
    if end:
        interpreters.destroy(interpreter)
"""


@support.without_gil
class Interpreters(support.TestCase):
    def test_install_in_each(self):
        self.fine(
            SUBINTERPRETERS
            + """
old = create()
homefree.install()
code = '''
import homefree
assert homefree.install().python == "arena"
keep = [str(i) for i in range(30000)]
assert homefree.owner_of(keep[-1]).kind == "pymalloc", homefree.owner_of(keep[-1])
assert homefree.owner_of(bytearray(10)).kind == "pymalloc"
assert homefree.stats()["allocated"] > 0
assert homefree.route_report().objects > 0
'''
for interpreter in old, create(), create():
    run(code, interpreter)
assert churn() == 80000
"""
        )

    def test_own_block(self):
        """A subinterpreter frees its own block through libc's free()."""
        if sys.version_info[:2] == (3, 12):
            self.skipTest("ctypes of 3.12 does not load in subinterpreters")
        self.fine(
            SUBINTERPRETERS
            + """
homefree.install()
code = '''
import ctypes
python, libc = ctypes.pythonapi, ctypes.PyDLL(None)
python.PyObject_Malloc.restype = ctypes.c_void_p
python.PyObject_Malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
for size in range(1, 513):
    for block in [python.PyObject_Malloc(size) for _ in range(30)]:
        libc.free(block)
'''
run(code)
run(code)
"""
        )

    def test_main_interpreters_block(self):
        """From 3.12 on an isolated interpreter may not free the main one's blocks, which are sent
        there. Before, and if it shares the main one's memory, it may."""
        if sys.version_info[:2] == (3, 12):
            self.skipTest("ctypes of 3.12 does not load in subinterpreters")
        self.fine(
            SUBINTERPRETERS
            + """
import time
homefree.install()
block = [object_malloc(100) for _ in range(20000)][-1]
run(f'''
import ctypes
libc = ctypes.PyDLL(None)
libc.free.argtypes = [ctypes.c_void_p]
libc.free({block})
''')
while owner_of(block).block is not None:
    time.sleep(0.001)
"""
        )

    def test_block_of_an_interpreter_that_nobody_serves(self):
        """A block of an interpreter that homefree has not made cannot be sent there."""
        if sys.version_info < (3, 13):
            self.skipTest("ctypes does not load in subinterpreters, or they share one pymalloc")
        self.dies(
            SUBINTERPRETERS
            + """
homefree.install()
here, there = os.pipe()
run(f'''
import ctypes, os
make = ctypes.pythonapi.PyObject_Malloc
make.restype, make.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
os.write({there}, str([make(100) for _ in range(20000)][-1]).encode())
''', end=False)
free(int(os.read(here, 100)))
""",
            "pymalloc",
            "another interpreter",
        )


@support.without_gil
class Ends(support.TestCase):
    def test_after_the_interpreter(self):
        """An atexit handler in C frees a block that outlives the interpreter: it is left alone."""
        for mode in ("'arena'", "'full'"):
            with self.subTest(mode=mode):
                self.fine(
                    BLOCKS.format(mode=mode)
                    + """
raw = raw_malloc(100)
release = ctypes.cast(bare.free, pointer)
at_exit = function(bare, "__cxa_atexit", ctypes.c_int, pointer, pointer, pointer)
for block in early + late + [raw]:
    at_exit(release, block, None)
"""
                )

    def test_stderr_is_closed(self):
        code = support.PRELUDE + BLOCKS.format(mode="") + "os.close(2)\nfree_bare(late[9])"
        done = subprocess.run([sys.executable, "-s", "-c", code], check=False)
        self.assertEqual(done.returncode, -6)


if __name__ == "__main__":
    sys.exit(support.main())
