"""The package in a free-threaded CPython: it keeps the GIL off, and allocates what can come from
the heap; its functions run in several threads at once, and modules that need the GIL are not run
without it.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import unittest
from pathlib import Path

import support

MODULE = """
#include <Python.h>
#include <stdlib.h>
static long calls;
static PyObject *call(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return PyLong_FromLong(++calls);
}
static PyObject *make(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return PyLong_FromVoidPtr(malloc(100));
}
struct blocks {
    void *libc, *raw, *mem;
};
static void release(PyObject *capsule)
{
    struct blocks *blocks = PyCapsule_GetPointer(capsule, NULL);
    PyMem_RawFree(blocks->libc);
    free(blocks->raw);
    free(realloc(blocks->mem, 3000));
    free(blocks);
}
static PyObject *hold(PyObject *self, PyObject *unused)
{
    struct blocks *blocks = malloc(sizeof *blocks);
    (void)self, (void)unused;
    *blocks = (struct blocks){malloc(100), PyMem_RawMalloc(200), PyMem_Malloc(300)};
    return PyCapsule_New(blocks, NULL, release);
}
static PyMethodDef methods[] = {{"call", call, METH_NOARGS, NULL},
                                {"make", make, METH_NOARGS, NULL},
                                {"hold", hold, METH_NOARGS, NULL},
                                {NULL, NULL, 0, NULL}};
static PyModuleDef_Slot slots[] = {
#ifdef SAFE
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL}};
static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "NAME", .m_methods = methods, .m_slots = slots};
PyMODINIT_FUNC PyInit_NAME(void)
{
    return PyModuleDef_Init(&definition);
}
"""
# tests/long/thread_sanitizer.py has the second alone: there, nobody knows mimalloc's blocks.
MODES = os.environ.get("HOMEFREE_TEST_MODES", "arena full").split()
NUMPY_LACKS = None if importlib.util.find_spec("numpy") else "no NumPy"
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")

# Six threads call a function until each has done so often enough: HOMEFREE_TEST_DIVIDED makes that
# less, for where all takes longer. Returns the number of all calls.
TOGETHER = """
def together(work, times):
    times = max(1, times // int(os.environ.get("HOMEFREE_TEST_DIVIDED", 1)))
    errors = []
    start = threading.Barrier(6)
    def run():
        start.wait()
        try:
            for i in range(times):
                work(i)
        except BaseException as error:
            errors.append(error)
    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert not errors, errors
    return 6 * times
"""


RUN_IN_ANOTHER = """
try:
    import concurrent.interpreters
    def run(code):
        one = concurrent.interpreters.create()
        one.exec(code)
        one.close()
except ImportError:
    import _interpreters
    def run(code):
        one = _interpreters.create()
        error = _interpreters.run_string(one, code)
        assert error is None, error
        _interpreters.destroy(one)
"""


class Build(support.TestCase):
    def test_gil_stays_off(self):
        self.fine(
            """
            import homefree.check, homefree.extension, homefree.harness._unload
            homefree.install()
            assert not sys._is_gil_enabled()
            assert homefree._homefree.__file__.endswith(SUFFIX), homefree._homefree.__file__
            """.replace("SUFFIX", repr(SUFFIX)),
            "-W",
            "error",
        )

    def test_modes(self):
        self.fine(
            """
            assert homefree.install("off").python == "off"
            assert kind(raw_malloc(40)) != "heap"
            assert homefree.install().python == homefree.install("arena").python == "raw"
            assert kind(raw_malloc(40)) == "heap" and churn() == 80000
            homefree.uninstall()
            assert kind(raw_malloc(40)) != "heap" and churn() == 80000
            """
        )


class Full(support.TestCase):
    """install("full"): RAW and MEM are the heap's, and objects CPython's."""

    def test_domains(self):
        for allocator in ("", "debug"):
            with self.subTest(allocator=allocator):
                self.fine(
                    """
                    sizes = 0, 1, 40, 512, 513, 100000
                    functions = raw_malloc, mem_malloc, object_malloc
                    before = [[f(n) for f in functions] for n in sizes]
                    lists = [[i] * (i % 90) for i in range(5000)]
                    homefree.install()
                    state = homefree.install("full")
                    assert state.python == "full" == homefree.install("arena").python, state
                    after = [[f(n) for f in functions] for n in sizes]
                    assert {kind(a[0]) for a in after} == {kind(a[1]) for a in after} == {"heap"}
                    assert {owner_of(a[2]).allocator for a in after} == {"mimalloc"}
                    for raw, mem, one in before + after:
                        raw_free(raw_realloc(raw_realloc(raw, 3000), 1))
                        mem_free(mem_realloc(mem_realloc(mem, 3000), 0))
                        object_free(one)
                    for i in lists:
                        i.extend(range(200))
                    del lists
                    assert churn() == 80000 and owner_of([]).allocator == "mimalloc"
                    homefree.uninstall()
                    assert owner_of(mem_malloc(40)).allocator == "mimalloc" and churn() == 80000
                    """,
                    PYTHONMALLOC=allocator,
                )

    def test_detached(self):
        """A block of the heap needs no interpreter."""
        self.fine(
            """
            homefree.install("full")
            free_bare(realloc_bare(mem_malloc(40), 4000))
            """
        )

    def test_limit_of_the_process(self):
        """At its limit, arrays get what mimalloc has: the limit counts the addresses that it has
        reserved."""
        self.fine(
            """
            import resource
            MIB = 1 << 20
            calloc = function(python, "PyMem_Calloc", pointer, size_t, size_t)
            homefree.install("full")
            data = next(line for line in open("/proc/self/status") if line.startswith("VmData"))
            limit = int(data.split()[1]) * 1024 + 64 * MIB
            places = [None] * 10000
            def fill():
                count = 0
                while (block := mem_malloc(MIB)):
                    places[count] = block
                    count += 1
                return places[:count]
            first = mem_malloc(MIB)
            ctypes.memset(first, 7, MIB)
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
            for _ in range(3):
                blocks = fill()
                assert len(blocks) > 500, len(blocks)
                assert kind(first) == kind(blocks[0]) == "heap"
                assert owner_of(blocks[-1]).allocator == "mimalloc", owner_of(blocks[-1])
                for block in blocks[-20:]:
                    mem_free(block)
                grown = mem_realloc(first, 4 * MIB)
                assert owner_of(grown).allocator == "mimalloc", owner_of(grown)
                assert ctypes.string_at(grown, MIB) == bytes([7]) * MIB
                cleared = calloc(2, MIB)
                assert owner_of(cleared).allocator == "mimalloc", owner_of(cleared)
                assert ctypes.string_at(cleared, 2 * MIB) == bytes(2 * MIB)
                for block in blocks[:-20] + [cleared, grown]:
                    mem_free(block)
                first = mem_malloc(MIB)
                ctypes.memset(first, 7, MIB)
            from homefree import check
            with check.watch():
                blocks = fill()
                assert owner_of(blocks[-1]).allocator == "mimalloc", owner_of(blocks[-1])
            with check.fail_at(1):
                assert mem_malloc(MIB) is None
            for block in blocks:
                mem_free(block)
            assert churn() == 80000
            """
        )

    def test_arrays_that_others_read(self):
        """Lists, dictionaries and objects' attributes change in some threads, are read without a
        lock in others, and end in whichever; the collector, install() and uninstall() come in
        between."""
        self.fine(
            TOGETHER
            + """
import gc, random
class Thing:
    pass
shared, table, things = [0] * 50, {i: i for i in range(50)}, [Thing() for _ in range(8)]
def work(i):
    global shared, table
    thing = things[i % 8]
    for n in range(60):
        shared.append(n)
        shared[n % 40] = [n]
        table[f"{i}.{n}"] = [n]
        setattr(thing, f"name{(i + n) % 40}", n)
        thing.__dict__.pop(f"name{n % 40}", None)
        try:
            shared[n], table.get(f"{i}.{n - 1}"), getattr(thing, "name7", None)
            sum(1 for _ in shared), list(table), vars(thing).copy()
        except (IndexError, RuntimeError):  # it changed meanwhile
            pass
    if len(shared) > 2000:
        shared, table = [0] * 50, {i: i for i in range(50)}
    if i % 10 == 0:
        gc.collect()
    if i % 7 == 0:
        homefree.uninstall()
    if i % 7 == 3:
        assert homefree.install("full").python in ("full", "off")
homefree.install("full")
together(work, 100)
"""
        )

    def test_collector(self):
        """It finds every object, and none that is not one, while arrays come from the heap."""
        self.fine(
            TOGETHER
            + """
import gc, weakref
homefree.install("full")
class Node:
    pass
kept = []
def work(i):
    ring = [Node() for _ in range(50)]
    for one, next in zip(ring, ring[1:] + ring[:1]):
        one.next, one.list, one.table = next, [ring], {one: ring}
    kept.append(weakref.ref(ring[0]))
    if i % 10 == 0:
        gc.collect()
        assert all(gc.is_tracked(one) for one in ring)
calls = together(work, 50)
gc.collect()
assert len(kept) == calls and not [1 for one in kept if one() is not None]
assert not [1 for one in gc.get_objects() if type(one) is Node]
"""
        )


class Threads(support.TestCase):
    def fine_in_modes(self, code, *flags):
        """The same with install() in each mode; MODE is what it is called with, and AS what it says
        of that."""
        for mode in MODES:
            with self.subTest(mode=mode):
                told = "raw" if mode == "arena" else mode
                self.fine(f"MODE, AS = {mode!r}, {told!r}\n" + TOGETHER + code, *flags)

    def test_blocks_of_other_threads(self):
        """A block goes from thread to thread, is resized there, and is freed where nobody made
        it."""
        self.fine_in_modes(
            """
import queue
homefree.install(MODE)
blocks = queue.SimpleQueue()
def work(i):
    for make, grow, end in (raw_malloc, raw_realloc, raw_free), (mem_malloc, mem_realloc, mem_free):
        for size in (1, 40, 700, 5000, 70000):
            block = make(size + i % 50)
            ctypes.memset(block, size % 251, size)
            blocks.put((block, size, grow, end))
        for _ in range(5):
            block, size, grow, end = blocks.get()
            block = grow(block, size * 2)
            assert ctypes.string_at(block, size) == bytes([size % 251]) * size
            (end if i % 2 else free)(block)
together(work, 300)
"""
        )

    def test_blocks(self):
        self.fine_in_modes(
            """
homefree.install(MODE)
def work(i):
    free(realloc(mem_malloc(i % 3000), i % 5000 + 1))
    raw_free(raw_realloc(raw_malloc(i % 700), i % 900))
    assert len([str(i), bytearray(i), {i: i}]) == 3
together(work, 3000)
"""
        )

    def test_package(self):
        """The package's functions, all at once, while CPython's allocators are read and written."""
        self.fine_in_modes(
            """
import gc, tracemalloc, homefree.check
def work(i):
    assert homefree.install(MODE).python in (AS, "off")
    assert owner_of([]).kind in ("allocator", "unknown")
    assert kind(raw_malloc(10)) in ("heap", "libc", "unknown")
    if i % 5 == 0:
        homefree.uninstall()
    if i % 20 == 0:
        assert homefree.stats()["arenas"] and homefree.route_report().objects
        gc.collect()
    if i % 30 == 0 and MODE != "full":
        tracemalloc.start()
    if i % 30 == 15:
        tracemalloc.stop()
together(work, 120)
assert homefree.install(MODE).python == AS
"""
        )

    def test_finder_of_numpy(self):
        """It comes to sys.meta_path and goes from there in several threads at once."""
        self.fine(
            TOGETHER
            + """
def work(i):
    homefree.install()
    homefree.uninstall()
together(work, 20000)
assert not [finder for finder in sys.meta_path if "Numpy" in repr(finder)]
"""
        )

    def test_watches(self):
        self.fine(
            TOGETHER
            + """
import homefree.check
homefree.install()
with homefree.check.watch() as shared:
    def work(i):
        with homefree.check.watch() as own:
            raw_free(raw_malloc(100))
        assert own.allocations and own.frees and shared.allocations
    together(work, 20)
"""
        )

    def test_fork(self):
        self.fine_in_modes(
            """
homefree.install(MODE)
def work(i):
    blocks = [raw_malloc(j) for j in range(200)]
    if i % 8 == 0:
        child = os.fork()
        if child == 0:
            homefree.install(MODE)
            free(realloc(mem_malloc(10), 5000))
            raw_free(raw_malloc(10))
            os._exit(len([str(j) for j in range(1000)]) != 1000)
        assert os.waitpid(child, 0)[1] == 0
    for block in blocks:
        raw_free(block)
together(work, 16)
""",
            "-W",
            "ignore",
        )

    def test_interpreters(self):
        self.fine(
            TOGETHER
            + RUN_IN_ANOTHER
            + '''
CODE = """
import homefree, sys
assert homefree.install().python == "raw"
assert homefree.owner_of([]).allocator == "mimalloc"
assert not sys._is_gil_enabled()
"""
homefree.install()
together(lambda i: run(CODE), 3)
'''
        )


class Python(support.TestCase):
    """State of the package that is Python's."""

    @unittest.skipIf(sys.version_info < (3, 14), "CPython 3.13 exports nothing that stops others")
    def test_frames_of_threads_that_end(self):
        self.fine(
            TOGETHER
            + """
import _thread
from homefree.interpreters import prepare
prepare()
assert sys._current_frames.__self__ is homefree._homefree
def work(i):
    for _ in range(8):
        _thread.start_new_thread(sum, (range(i * 20),))
        frames = sys._current_frames()
        assert frames[threading.get_ident()] is sys._getframe()
        assert all(frame.f_code.co_name and frame.f_lineno != 0 for frame in frames.values())
together(work, 100)
"""
        )

    def test_replica_that_two_threads_use_first(self):
        self.fine(
            """
            from homefree.interpreters import Replica
            from homefree.interpreters._replica import object_of
            both = threading.Barrier(2)
            class Made:
                def __reduce__(self):
                    return make, ()
            def make():
                both.wait()
                return Made()
            found = []
            replica = Replica(Made())
            threads = [threading.Thread(target=lambda: found.append(object_of(replica)))
                       for _ in range(2)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            assert found[0] is found[1] is object_of(replica)
            """
        )

    def test_hooks_that_go_meanwhile(self):
        """As if another thread removed hooks while the one that is meant is looked for."""
        self.fine(
            """
            import importlib.util, json
            hook = homefree.import_hook()
            others = [homefree.import_hook(["_csv"]) for _ in range(3)]
            create, made = hook.create, []
            hook.create = lambda loader, spec: (made.append(spec.name), create(loader, spec))[1]
            others[-1].covers = lambda name: any(map(type(hook).remove, others))
            importlib.util.module_from_spec(importlib.util.find_spec("_json"))
            assert made == ["_json"], made
            """
        )

    @unittest.skipIf(NUMPY_LACKS, NUMPY_LACKS)
    def test_arrays_of_other_threads(self):
        """Arrays are made, resized, shared and freed by different threads, while NumPy's handler is
        taken and left."""
        self.fine(
            TOGETHER
            + """
import queue, numpy
from homefree.interpreters import share
homefree.install()
arrays = queue.SimpleQueue()
def work(i):
    made = numpy.arange(i * 7 % 5000) + i
    message = share(made)
    arrays.put((i, made, message))
    del made, message
    number, array, message = arrays.get()
    again = message.open()
    size = number * 7 % 5000
    assert len(array) == len(again) == size
    assert (array == again).all() and (size == 0 or array[-1] == number + size - 1)
    del message, again
    array.resize(size + 100, refcheck=False)
    assert size == 0 or array[size - 1] == number + size - 1
    if i % 10 == 0:
        homefree.uninstall()
    if i % 10 == 5:
        homefree.install()
together(work, 200)
"""
        )


@unittest.skipUnless(shutil.which("cc"), "no C compiler")
class Modules(support.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory(prefix="homefree-free-threading-")
        cls.addClassCleanup(directory.cleanup)
        cls.directory = Path(directory.name)
        for name, more in (("safe", ["-DSAFE"]), ("unsafe", [])):
            source = cls.directory / f"{name}.c"
            source.write_text(MODULE.replace("NAME", name))
            subprocess.run(
                ["cc", "-shared", "-fPIC", "-O1", *more, source]
                + ["-I", sysconfig.get_path("include"), "-o", cls.directory / f"{name}{SUFFIX}"],
                check=True,
            )
        for name in ("safe", "unsafe"):
            shutil.copy(cls.directory / f"{name}{SUFFIX}", cls.directory / f"{name}.abi3.so")

    def code(self, text):
        begin = "DIRECTORY, SUFFIX = {!r}, {!r}\n".format(str(self.directory) + "/", SUFFIX)
        return begin + "sys.path.insert(0, DIRECTORY)\nimport homefree, threading\n" + text

    def test_adopt(self):
        self.fine(
            self.code("""
module = homefree.load(DIRECTORY + "safe" + SUFFIX, adopt=True)
block = module.make()
assert kind(block) == "heap"
free(block)
assert not sys._is_gil_enabled()
""")
        )

    def test_objects_of_other_threads(self):
        """Objects end in another thread than they began, by the collector too, beside threads that
        end, gc.freeze() and install(); each holds blocks that cross on release."""
        for mode in MODES:
            with self.subTest(mode=mode):
                self.objects_of_other_threads(mode)

    def objects_of_other_threads(self, mode):
        self.fine(
            self.code(
                """
import gc, queue, safe, weakref
homefree.install(MODE)
mimalloc_is_known = owner_of([]).kind == "allocator"
class Thing:
    pass
ended, things = [], queue.SimpleQueue()
def work(i):
    thing = Thing()
    thing.held = [safe.hold() for _ in range(20)]
    thing.itself = thing
    weakref.finalize(thing, ended.append, i)
    things.put((thing, weakref.ref(thing)))
    other, reference = things.get()
    assert reference is None or reference() is other
    del thing, other
    short = threading.Thread(target=lambda: things.put((safe.hold(), None)))
    short.start()
    short.join()
    assert things.get() is not None
    if i % 10 == 0:
        gc.freeze()
        gc.unfreeze()
        gc.collect()
    if i % 20 == 5 and mimalloc_is_known:
        homefree.uninstall()
        homefree.install(MODE)
""".replace("MODE", repr(mode))
            )
            + TOGETHER
            + """
calls = together(work, 60)
del things
gc.collect()
assert len(ended) == calls, (len(ended), calls)
"""
        )

    def test_private(self):
        self.fine(
            self.code("""
def work(i):
    module = homefree.load(DIRECTORY + "safe" + SUFFIX, private=True)
    assert [module.call() for _ in range(3)] == [1, 2, 3]
""")
            + TOGETHER
            + "together(work, 3); assert not sys._is_gil_enabled()"
        )

    def test_hook(self):
        self.fine(
            self.code("""
with homefree.import_hook(adopt=True):
    import safe
assert kind(safe.make()) == "heap" and not sys._is_gil_enabled()
""")
        )

    def test_hook_in_interpreters(self):
        """In the main interpreter it changes nothing; in others it says what cannot be loaded."""
        self.fine(
            self.code("""
hook = homefree.import_hook(private="interpreter")
import safe
assert hook.loaded["safe"] == "native", hook.loaded
assert not [line for line in open("/proc/self/maps") if ".homefree-" in line]
CODE = f"import sys; sys.path[:] = {sys.path!r}" + '''
import homefree
hook = homefree.import_hook(private="interpreter")
import _json
try:
    import safe
    raise AssertionError
except ImportError as error:
    assert "cannot be told to accept it; import it in the main" in str(error), error
from homefree.interpreters import Executor
with Executor(2) as executor:
    assert list(executor.map(lambda x: x * 2, range(3))) == [0, 2, 4]
'''
""")
            + RUN_IN_ANOTHER
            + "run(CODE); assert not sys._is_gil_enabled()"
        )

    def test_private_module_that_needs_the_gil(self):
        """CPython enables the GIL when it loads such a module; a private copy is refused."""
        self.fine(
            self.code("""
try:
    homefree.load(DIRECTORY + "unsafe" + SUFFIX, private=True)
except ImportError as error:
    assert "Py_mod_gil" in str(error) and "-X gil=1" in str(error), error
else:
    raise AssertionError("loaded")
assert not sys._is_gil_enabled()
""")
        )
        for option in ("gil=0", "gil=1"):
            self.fine(
                self.code("""
module = homefree.load(DIRECTORY + "unsafe" + SUFFIX, private=True)
assert module.call() == 1
"""),
                "-X",
                option,
            )

    def test_module_that_needs_the_gil(self):
        self.fine(
            self.code("""
import warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    homefree.load(DIRECTORY + "unsafe" + SUFFIX)
assert "has been enabled" in str(said[0].message) and sys._is_gil_enabled()
""")
        )

    def test_limited_api(self):
        """Their objects differ, but CPython would load them."""
        self.fine(
            self.code("""
try:
    homefree.load(DIRECTORY + "safe.abi3.so")
except ImportError as error:
    assert "stable ABI of CPythons with a GIL" in str(error), error
else:
    raise AssertionError("loaded")
""")
        )


if __name__ == "__main__":
    sys.exit(support.main())
