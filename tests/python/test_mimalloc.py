"""CPython's mimalloc in the region: whose its blocks are, wherever its memory comes from; that they
go home, and that the collector still finds every object; what trim() gives back; and what is known
of it from outside.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import unittest
from pathlib import Path

import homefree
import support

HELPERS = """
import gc, time, weakref
library = next(line.split()[-1] for line in open("/proc/self/maps") if "/libhomefree" in line)
owns = function(ctypes.CDLL(library), "hf_owns", ctypes.c_bool, pointer)
MIB = 1 << 20
def its(block, size=None):
    owner = owner_of(block)
    assert owner.allocator == "mimalloc" and "python" in owner.object, owner
    assert size is None or (owner.block == block and size <= owner.size), (size, owner)
    return True
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")
def rows():
    return [row for row in homefree.trim() if row.allocator == "mimalloc"]
"""
PRELUDE = support.PRELUDE + HELPERS

# 3.13 exports no way to stop the world; from 3.15 on, threads use its memory that would not stop.
TRIMS = sys.version_info[:2] == (3, 14)

# More than an arena of 1 GiB, none of it touched.
MANY = "[mem_malloc(24 * MIB) for _ in range(60)]"


class TestCase(support.TestCase):
    def fine(self, code, *flags, prelude=PRELUDE, **environment):
        super().fine(code, *flags, prelude=prelude, **environment)


@unittest.skipUnless(support.FREE_THREADED, "this CPython has a GIL")
class Region(TestCase):
    def test_installed_late(self):
        """The first arena stays where it is, the next ones come from the region."""
        code = f"""
        sizes = (0, 1, 500, 5000, MIB, 20 * MIB)
        early = [(n, f(n)) for n in sizes for f in (mem_malloc, object_malloc)]
        homefree.install()
        assert not any(owns(block) for _, block in early)
        assert all(its(block, n) for n, block in early)
        assert all(usable(block) >= n for n, block in early)
        for _, block in early:
            free(realloc(block, 3000))
        if not os.environ["PYTHONMALLOC"]:  # debug hooks would write to all of it
            many = {MANY}
            assert owns(many[-1]) and all(its(block, 24 * MIB) for block in many)
            huge = mem_malloc(3 << 30)
            assert owns(huge) and its(huge, 3 << 30)
            for block in [huge, *many]:
                free(block)
        assert churn() == 80000
        """
        for allocator in ("", "debug"):
            with self.subTest(allocator=allocator):
                self.fine(code, PYTHONMALLOC=allocator)

    def test_without_install(self):
        self.fine(
            f"""
            many = {MANY}
            assert owns(many[-1]) and its(many[-1])
            free(many[-1])
            """
        )

    def test_preloaded(self):
        """Every block is in the region, from the first on."""
        code = f"""
            assert owns(id(object())) and not owns(id(None))
            blocks = [(n, f(n)) for n in (0, 1, 500, 5000, MIB, 20 * MIB)
                      for f in (mem_malloc, object_malloc)]
            assert all(owns(block) and usable(block) >= n and its(block, n) for n, block in blocks)
            for _, block in blocks:
                free(realloc(block, 2000))
            if not os.environ["PYTHONMALLOC"]:
                many = {MANY}
                assert all(owns(block) and its(block) for block in many)
            assert all(owns(id(thing)) for thing in gc.get_objects() if type(thing) is list)
            assert churn() == 80000
            """
        preload = f"{homefree.get_library_dir()}/libhomefree-preload.so"
        for allocator in ("", "debug"):
            with self.subTest(allocator=allocator):
                self.fine(code, LD_PRELOAD=preload, PYTHONMALLOC=allocator)

    def test_unmapped(self):
        """A block of more than an arena is a mapping of its own, which goes back."""
        self.fine(
            """
            for _ in range(40):
                block = mem_malloc(2 << 30)
                assert owns(block)
                used = homefree.stats()["region_used"]
                assert used > 2 << 30
                mem_free(block)
                assert homefree.stats()["region_used"] <= used - (2 << 30)
            """
        )

    def test_zeroed(self):
        """It relies on fresh memory being zero."""
        self.fine(
            """
            calloc = function(python, "PyMem_Calloc", pointer, size_t, size_t)
            for size in (2 << 30, 2 << 30):
                block = calloc(1, size)
                assert owns(block)
                for at in range(0, size, 64 * MIB):
                    assert ctypes.string_at(block + at, 4096) == bytes(4096)
                    ctypes.memset(block + at, 1, 4096)
                mem_free(block)
            """
        )

    def test_region_is_too_small(self):
        """The system serves it, and the blocks are known all the same."""
        self.fine(
            f"""
            homefree.install()
            many = {MANY}
            huge = mem_malloc(3 << 30)
            assert not any(owns(block) for block in many + [huge])
            assert all(its(block, 24 * MIB) for block in many) and its(huge, 3 << 30)
            for block in many + [huge]:
                free(block)
            assert churn() == 80000
            """,
            HOMEFREE_CONF="region:64M",
        )

    def test_limits_of_the_process(self):
        for limit in ("RLIMIT_AS", "RLIMIT_DATA"):
            with self.subTest(limit=limit):
                self.fine(
                    f"""
                    import resource
                    homefree.install()
                    resource.setrlimit(resource.{limit}, (3 << 30, 3 << 30))
                    blocks = []
                    while (block := mem_malloc(24 * MIB)):
                        blocks.append(block)
                    assert 10 < len(blocks) < 200, len(blocks)
                    assert all(its(block) for block in blocks)
                    assert mem_malloc(4 << 30) is None
                    for block in blocks:
                        free(block)
                    assert churn() == 80000
                    """
                )

    def test_mmap_module(self):
        """Its mappings, and those of perf's trampolines, are not taken for mimalloc's."""
        self.fine(
            """
            import mmap
            homefree.install()
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            for more in (0, getattr(mmap, "MAP_NORESERVE", 0x4000)):
                mapping = mmap.mmap(-1, 256 * MIB, flags=flags | more)
                at = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
                assert not owns(at) and owner_of(at).allocator != "mimalloc", owner_of(at)
            if sys._is_gil_enabled() is False:
                sys.activate_stack_trampoline("perf")
                assert churn(500) == 2000
                sys.deactivate_stack_trampoline()
            """
        )

    def test_not_a_block(self):
        self.dies("homefree.install(); free(mem_malloc(400) + 64)", "at the first byte of no block")

    @unittest.skipIf(sys.version_info < (3, 14), "no concurrent.interpreters")
    def test_interpreters(self):
        self.fine(
            f"""
            import concurrent.interpreters
            homefree.install()
            many = {MANY}
            def run(_=None):
                one = concurrent.interpreters.create()
                one.exec("things = [[number] for number in range(30000)]")
                one.close()
            threads = started(3, run)
            joined(threads)
            assert rows()[0].how == ("madvise" if TRIMS else None)
            assert churn() == 80000
            """.replace("TRIMS", str(TRIMS))
        )

    def test_fork(self):
        """A child of a process whose threads allocate has the same memory, and gets more. trim()
        opens a file, by which a child of CPython 3.13.5's hangs, without homefree as well."""
        trim = "rows()" if sys.version_info >= (3, 14) else ""
        self.fine(
            f"""
            homefree.install()
            stop = threading.Event()
            threads = started(4, lambda: [churn(500) for _ in iter(stop.is_set, True)])
            for _ in range(10):
                child = os.fork()
                if child == 0:
                    block = mem_malloc(100)
                    many = {MANY}
                    good = its(block) and its(many[-1]) and churn(500) == 2000
                    free(many[-1])
                    {trim}
                    os._exit(not good)
                assert os.waitpid(child, 0)[1] == 0
            stop.set()
            joined(threads)
            """,
            "-W",
            "ignore",
        )


@unittest.skipUnless(support.FREE_THREADED, "this CPython has a GIL")
class Frees(TestCase):
    def test_blocks_go_home(self):
        for allocator in ("", "debug"):
            with self.subTest(allocator=allocator):
                self.fine(
                    """
                    sizes, functions = (0, 1, 500, 5000, 1 << 20), (mem_malloc, object_malloc)
                    early = [f(n) for n in sizes for f in functions]
                    homefree.install()
                    late = [f(n) for n in sizes for f in functions]
                    for block in early + late:
                        owner = owner_of(block)
                        assert (owner.kind, owner.allocator) == ("allocator", "mimalloc"), owner
                        assert "python" in owner.object
                        size = usable(block)
                        ctypes.memset(block, 1, size)
                        grown = realloc(block, size + 100)
                        assert ctypes.string_at(grown, size) == b"\\1" * size
                        free(grown)
                    assert owner_of([]).allocator == "mimalloc"
                    assert kind(raw_malloc(1)) == "heap"
                    assert owner_of(mem_malloc(77)).domain in (None, "mem")
                    assert churn() == 80000
                    """,
                    PYTHONMALLOC=allocator,
                )

    def test_detached(self):
        for call in ("free_bare(block)", "realloc_bare(block, 9)"):
            for allocator in ("", "debug"):
                with self.subTest(call=call, allocator=allocator):
                    self.dies(
                        f"homefree.install(); block = object_malloc(40); {call}",
                        call.partition("_")[0],
                        "CPython's mimalloc",
                        "not attached",
                        "PyMem_RawMalloc",
                        PYTHONMALLOC=allocator,
                    )

    @unittest.skipIf(sys.version_info < (3, 15), "the domain RAW is libc's")
    def test_raw(self):
        """The domain RAW is mimalloc's, too, before install(), and any thread frees its blocks."""
        for allocator in ("", "debug"):
            with self.subTest(allocator=allocator):
                self.fine(
                    """
                    sizes = 0, 1, 500, 5000, 1 << 20
                    early = [[raw_malloc(n) for n in sizes] for _ in range(2)]
                    homefree.install()
                    for block in early[0]:
                        free_bare(block)
                    for block in early[1]:
                        assert owner_of(block).allocator == "mimalloc", owner_of(block)
                        size = usable(block)
                        ctypes.memset(block, 1, size)
                        grown = realloc_bare(block, size + 3000)
                        assert ctypes.string_at(grown, size) == b"\\1" * size
                        free(grown)
                    assert churn() == 80000
                    """,
                    PYTHONMALLOC=allocator,
                )

    def test_not_a_block(self):
        self.dies(
            "homefree.install(); free(mem_malloc(400) + 64)",
            "at the first byte of no block",
            PYTHONMALLOC="debug",
        )

    def test_after_the_interpreter(self):
        self.fine(
            """
            from homefree.harness._unload import at_unload
            homefree.install()
            address = ctypes.cast(bare.free, pointer).value
            nothing = os.open(os.devnull, os.O_WRONLY)
            for block in mem_malloc(40), object_malloc(4000), raw_malloc(40):
                at_unload(address, block, nothing)
            """
        )


@unittest.skipUnless(support.FREE_THREADED, "this CPython has a GIL")
class Collector(TestCase):
    def test_finds_every_object(self):
        """Eight threads make objects that are kept, dropped and in cycles, while others collect and
        trim() collects heaps and gives memory back: no object is lost, and none is left."""
        self.fine(
            """
            homefree.install()
            class Thing:
                __slots__ = "number", "other", "__weakref__"
            kept, references, lock = [], [], threading.Lock()
            working = [8]
            def work(_=None):
                mine, weak = [], []
                for number in range(6000):
                    first, second = Thing(), Thing()
                    first.number = second.number = number
                    first.other, second.other = second, first
                    if number % 3 == 0:
                        mine.append(first)
                    weak.append((number, weakref.ref(first)))
                with lock:
                    kept.extend(mine)
                    references.extend(weak)
                    working[0] -= 1
            def trims():
                while working[0]:
                    homefree.trim()
            threads = started(8, work) + started(1, trims)
            joined(threads)
            gc.collect()
            found = [thing for thing in gc.get_objects() if type(thing) is Thing]
            assert len(kept) == 16000 and len(found) == 32000, (len(kept), len(found))
            assert all(thing.number % 3 == 0 and thing.other.other is thing for thing in found)
            assert sum(reference() is not None for _, reference in references) == 16000
            del found, kept[:]
            gc.collect()
            assert not [thing for thing in gc.get_objects() if type(thing) is Thing]
            """
        )


@unittest.skipUnless(support.FREE_THREADED, "this CPython has a GIL")
@unittest.skipUnless(TRIMS, "trim() leaves its mimalloc alone")
class Trim(TestCase):
    MAKE = """
    kept = []
    def make(_=None):
        kept.append([{"number": i, "texts": [i, str(i)]} for i in range(60000)])
        kept.append([bytes(3000) for _ in range(10000)])
    """

    def test_threads_that_ended(self):
        self.fine(
            self.MAKE
            + """
    homefree.install()
    joined(started(4, make))
    half = len(kept) // 2
    full = resident()
    kept.clear()
    row, = rows()
    assert row.how == "madvise", row
    assert row.after < row.before - 100 * MIB, row
    assert resident() < full - 100 * MIB
    assert churn() == 80000
    """
        )

    def test_in_the_child_of_a_plain_fork(self):
        """CPython knows nothing of it, and would wait for threads that are gone."""
        self.fine(
            """
    from homefree import _homefree
    homefree.install()
    stop = threading.Event()
    threads = started(4, lambda: [churn(500) for _ in iter(stop.is_set, True)])
    for _ in range(5):
        child = ctypes.CDLL(None).fork()
        if child == 0:
            _homefree.trim()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    stop.set()
    joined(threads)
    """
        )

    def test_threads_that_wait(self):
        self.fine(
            self.MAKE
            + """
    homefree.install()
    go, made = threading.Event(), threading.Barrier(5)
    def hold():
        make()
        made.wait()
        go.wait()
        assert churn() == 80000
    threads = started(4, hold)
    made.wait()
    before = resident()
    kept.clear()
    for _ in range(4):  # what an object holds is released when its own thread is asked
        gc.collect()
    rows()
    after = resident()
    go.set()
    joined(threads)
    assert after < before - 100 * MIB, (before, after)
    """
        )

    def test_from_other_threads(self):
        """By a thread that Python does not know, and by one that is attached."""
        self.fine(
            self.MAKE
            + """
    homefree.install()
    trim = ctypes.CDLL(library).hf_trim
    held = ctypes.PyDLL(library).hf_trim
    pthread = ctypes.CDLL(None)
    joined(started(2, make))
    kept.clear()
    before = resident()
    thread, result = ctypes.c_ulong(), ctypes.c_void_p()
    code = ctypes.cast(trim, ctypes.c_void_p)
    assert pthread.pthread_create(ctypes.byref(thread), None, code, None) == 0
    assert pthread.pthread_join(thread, None) == 0
    assert resident() < before - 50 * MIB, (before, resident())
    joined(started(2, make))
    kept.clear()
    before = resident()
    assert held(None, None) == 0
    assert resident() < before - 50 * MIB, (before, resident())
    assert churn() == 80000
    """
        )

    def test_several_interpreters(self):
        """A stop is one interpreter's own, so nothing is touched while there are others."""
        self.fine(
            """
            import concurrent.interpreters
            homefree.install()
            one = concurrent.interpreters.create()
            assert rows()[0].how is None
            one.close()
            assert rows()[0].how == "madvise"
            """
        )

    def test_interpreters_that_end(self):
        """None is stopped that may end meanwhile."""
        self.fine(
            """
            import concurrent.interpreters
            homefree.install()
            def come_and_go():
                for _ in range(30):
                    concurrent.interpreters.create().close()
            threads = [threading.Thread(target=come_and_go) for _ in range(3)]
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                homefree.trim()
            """
        )


@unittest.skipUnless(
    support.FREE_THREADED and shutil.which("strip"), "no free-threaded CPython, no strip"
)
class Stripped(TestCase):
    def test_late_and_trim(self):
        """Without symbols the blocks are known all the same; trim() gives back what is free
        already."""
        with tempfile.TemporaryDirectory(prefix="homefree-stripped-") as directory:
            python, library = self.stripped(Path(directory))
            code = f"""
            assert not any("/homefree-stripped-" not in line for line in open("/proc/self/maps")
                           if "libpython3." in line)
            early = [(n, mem_malloc(n)) for n in (1, 500, 5000, MIB, 20 * MIB)]
            homefree.install()
            many = {MANY}
            assert all(its(block, n) and usable(block) >= n for n, block in early)
            assert owns(many[-1]) and its(many[-1])
            free(realloc(early[1][1], 9000))
            """
            if TRIMS:
                code += """
            for block in many[:3]:
                ctypes.memset(block, 1, 24 * MIB)
                free(block)
            row, = rows()
            assert row.how == "madvise" and row.after < row.before - 60 * MIB, row
            """
            before = sys.executable
            sys.executable = str(python)
            try:
                self.fine(
                    code,
                    LD_LIBRARY_PATH=str(library),
                    PYTHONHOME=sys.base_prefix,
                    MIMALLOC_PURGE_DELAY="1000000",  # milliseconds
                )
            finally:
                sys.executable = before

    @staticmethod
    def stripped(directory):
        """A copy of this CPython without symbols, and where its library is."""
        python = directory / "python3"
        shutil.copy(os.path.realpath(sys.executable), python)
        files = [python]
        name = sysconfig.get_config_var("INSTSONAME") or ""
        if ".so" in name:
            files.append(directory / name)
            shutil.copy(Path(sysconfig.get_config_var("LIBDIR")) / name, files[-1])
        subprocess.run(["strip", *files], check=True)
        return python, directory


@unittest.skipIf(
    support.FREE_THREADED or sys.version_info < (3, 13), "it has no mimalloc, or no GIL"
)
class WithGil(TestCase):
    def test_asked_for(self):
        """PYTHONMALLOC=mimalloc: from the region, too, also with the debug hooks."""
        for allocator in ("mimalloc", "mimalloc_debug"):
            with self.subTest(allocator=allocator):
                self.fine(
                    f"""
                    early = [(n, mem_malloc(n)) for n in (0, 1, 500, 5000, MIB)]
                    homefree.install()
                    assert all(its(block, n) for n, block in early)
                    for _, block in early:
                        free(realloc(block, 100))
                    if not os.environ["PYTHONMALLOC"].endswith("debug"):
                        many = {MANY}
                        assert owns(many[-1]) and its(many[-1], 24 * MIB)
                        free(many[-1])
                    assert churn() == 80000
                    """,
                    PYTHONMALLOC=allocator,
                )

    def test_full(self):
        """Its blocks in the region come back to it past homefree's own hooks."""
        preload = f"{homefree.get_library_dir()}/libhomefree-preload.so"
        for allocator in ("mimalloc", "mimalloc_debug"):
            with self.subTest(allocator=allocator):
                self.fine(
                    """
                    early = [(n, f(n)) for n in (1, 500, 5000) for f in (mem_malloc, object_malloc)]
                    lists = [[number] for number in range(1000)]
                    homefree.install("full")
                    assert all(owns(block) and its(block) for _, block in early)
                    for _, block in early[:2]:
                        free(realloc(block, 3000))
                    object_free(early[3][1])
                    mem_free(mem_realloc(early[2][1], 3000))
                    mem_free(realloc(early[4][1], 300))
                    for one in lists:
                        one.extend(range(100))
                    del lists, one
                    assert kind(mem_malloc(10)) == "heap" and churn() == 80000
                    """,
                    PYTHONMALLOC=allocator,
                    LD_PRELOAD=preload,
                )

    def test_raw(self):
        """From CPython 3.15 on the raw domain is its, too, as here: any thread frees such blocks,
        also those in the region."""
        self.fine(
            """
            allocator = (pointer * 5)()
            python.PyMem_GetAllocator(1, allocator)
            python.PyMem_SetAllocator(0, allocator)
            early = [raw_malloc(n) for n in (1, 500, 5000, MIB) for _ in range(3)]
            assert all(owns(block) and its(block) for block in early)
            homefree.install()
            assert kind(raw_malloc(10)) == "heap"
            raw_free_bare = function(bare, "PyMem_RawFree", None, pointer)
            raw_realloc_bare = function(bare, "PyMem_RawRealloc", pointer, pointer, size_t)
            raw_free(early.pop())
            for block in early:
                raw_free_bare(raw_realloc_bare(block, 3000))
            assert churn() == 80000
            """,
            PYTHONMALLOC="mimalloc",
            LD_PRELOAD=f"{homefree.get_library_dir()}/libhomefree-preload.so",
        )

    def test_not_asked_for(self):
        self.fine("homefree.install(); assert owner_of(object()).allocator == 'pymalloc'")


@unittest.skipUnless(support.FREE_THREADED, "this CPython has a GIL")
class Books(TestCase):
    def test_memory(self):
        """Its segments are told from the heap's memory, from inside and outside, live bytes too."""
        for mode in ("off", "arena"):
            with self.subTest(mode=mode):
                self.fine(
                    f"""
                    homefree.install({mode!r})
                    blocks = [object_malloc(1000) for _ in range(60000)]
                    for block in blocks:
                        ctypes.memset(block, 1, 1000)
                    many = {MANY}
                    ctypes.memset(many[-1], 1, 20 * MIB)
                    row, = [row for row in homefree.memory()["rows"]
                            if row["allocator"] == "mimalloc"]
                    assert "libpython" in row["object"] or "python" in row["object"], row
                    assert row["how"] == "counted", row
                    assert 80 * MIB < row["resident"] < 200 * MIB, row
                    assert 60 * MIB + 60 * 24 * MIB < row["live"], row
                    """
                )


if __name__ == "__main__":
    sys.exit(support.main())
