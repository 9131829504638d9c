"""homefree.interpreters.Executor: calls, results and errors as concurrent.futures promises them,
cancelling, initializers, ends in any order, and what crosses by reference. Each test is a program
of its own, whose functions the interpreters import from its file. In a free-threaded CPython the
interpreters are threads, which promise the same but for what is pickled.
"""

import pathlib
import signal
import sys
import unittest

import support

sys.path.insert(0, str(pathlib.Path(support.__file__).resolve().parents[1] / "support"))
import guide  # noqa: E402

OWN_GIL = sys.version_info >= (3, 12) and not support.FREE_THREADED
own_gil = unittest.skipUnless(OWN_GIL, "nothing is pickled without a GIL")

try:
    import numpy
except ImportError:
    numpy = None

HEAD = """
import concurrent.futures, os, sys, threading, time, traceback
import homefree
from homefree import interpreters
from homefree.interpreters import Executor

def cube(number):
    return number ** 3

def where():
    if interpreters.engine() == "threads":
        return threading.get_ident()
    return homefree._homefree.interpreter_current()

def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.001)
    return path

def add(a, b=1, *, c=0):
    return a + b + c

tasks = []

def begin():
    tasks.append("begun")

def begun():
    return len(tasks)

def begin_once(path):
    open(path, "x").close()

def begin_in(path, most):
    with open(path, "a+") as begun:
        print(file=begun)
        begun.seek(0)
        assert len(begun.readlines()) <= most

def wait_for_lines(path, count):
    until = time.monotonic() + 60
    while not os.path.exists(path) or len(open(path).readlines()) < count:
        assert time.monotonic() < until
        time.sleep(0.001)
    return where()

def names(frame):
    return [frame.f_code.co_name, *names(frame.f_back)] if frame else []

def spin():
    while True:
        pass

def read(descriptor):
    return os.read(descriptor, 1)

def patiently(executor, function, *arguments):
    while True:
        try:
            return executor.submit(function, *arguments).result()
        except TimeoutError:  # its interpreter was still importing
            pass

def own_frames():
    (frame,) = sys._current_frames().values()
    return [frame.f_code.co_name]
"""


@unittest.skipUnless(OWN_GIL or support.FREE_THREADED, "one GIL for all interpreters")
class Program(support.ProgramTest):
    head = HEAD


class Calls(Program):
    def test_results_come_from_other_interpreters(self):
        self.fine(
            """
here = where()
with Executor(2) as executor:
    assert executor.submit(add, 1, b=2, c=3).result() == 6
    assert here not in {executor.submit(where).result() for _ in range(20)}
"""
        )

    def test_map_keeps_the_order(self):
        self.fine(
            """
with Executor(3) as executor:
    wanted = [cube(n) for n in range(500)]
    assert list(executor.map(cube, range(500))) == wanted
    assert list(executor.map(cube, range(500), chunksize=7)) == wanted
    assert list(executor.map(add, [1, 2, 3], [4, 5])) == [5, 7]
    assert list(executor.map(cube, [])) == []
"""
        )

    def test_errors_come_back(self):
        self.fine(
            """
with Executor(1) as executor:
    error = executor.submit(cube, "a").exception()
    assert type(error) is TypeError, error
    text = "".join(traceback.format_exception(error))
    assert "in cube" in text, text
    there = f"In interpreter {executor.submit(where).result()}:"
    assert interpreters.engine() == "threads" or there in text, text
    error = executor.submit(sys.exit, 5).exception()
    assert type(error) is SystemExit and error.code == 5, error
    assert executor.submit(cube, 2).result() == 8
"""
        )

    @own_gil
    def test_errors_that_do_not_pickle(self):
        self.definitions = """
class Odd(Exception):
    def __init__(self, a, b):
        super().__init__("odd")
        self.file = open("/dev/null")
def odd():
    raise Odd(1, 2)
def no_pickle():
    return lambda: 1
"""
        self.fine(
            """
with Executor(1) as executor:
    error = executor.submit(odd).exception()
    assert type(error) is interpreters.RemoteError, error
    assert str(error) == "definitions.Odd: odd", error
    error = executor.submit(no_pickle).exception()
    assert "pickle" in str(error), error
    error = executor.submit(lambda: 1).exception()
    assert any("top level" in note for note in error.__notes__), error.__notes__
    assert executor.submit(cube, 2).result() == 8
"""
        )

    @own_gil
    def test_buffers_that_cannot_be_passed(self):
        self.definitions = """
import pickle
class Strided:
    def __reduce_ex__(self, protocol):
        return bytes, (pickle.PickleBuffer(memoryview(bytearray(10))[::2]),)
class Silent(Exception):
    def __str__(self):
        raise ValueError
def make(kind):
    if kind is Silent:
        raise Silent
    return kind()
"""
        self.fine(
            """
with Executor(1) as executor:
    errors = [executor.submit(cube, Strided()).exception()]
    errors += [executor.submit(make, Strided).exception()]
    assert ["non-contiguous" in str(error) for error in errors] == [True, True], errors
    assert type(executor.submit(make, Silent).exception()) is Silent
    assert executor.submit(cube, 2).result() == 8
"""
        )

    def test_initializer(self):
        self.definitions = """
import threading
state = threading.local()
def begin(*values):
    state.values = values
def get():
    return state.values
def fail():
    raise ValueError("no state")
"""
        self.fine(
            """
with Executor(2, initializer=begin, initargs=(1, "b")) as executor:
    assert executor.submit(get).result() == (1, "b")
executor = Executor(2, initializer=fail)
try:
    executor.submit(cube, 1).result()
    raise AssertionError
except interpreters.BrokenInterpreters as error:
    assert "ValueError: no state" in str(error), error
executor.shutdown()
"""
        )

    @own_gil
    def test_arguments_of_the_initializer_cross_by_reference(self):
        self.definitions = """
def begin(view, array):
    global mine
    mine = view, array
def write(at):
    for one in mine:
        one[at] = at
def fail(view):
    raise ValueError(len(view))
"""
        self.fine(
            f"""
block = bytearray(10)
array = {"numpy.zeros(10)" if numpy else "memoryview(bytearray(10))"}
before = homefree.stats()["releases_live"]
with Executor(2, initializer=begin, initargs=(memoryview(block), array),
              max_tasks_per_child=3) as executor:
    list(executor.map(write, range(10)))
assert list(block) == list(array) == list(range(10)), (block, array)
while homefree.stats()["releases_live"] > before:
    time.sleep(0.001)
block.append(1)  # nobody has a buffer of it any more
try:
    with Executor(1, initializer=fail, initargs=(memoryview(block),)) as executor:
        executor.submit(cube, 1).result()
    raise AssertionError
except interpreters.BrokenInterpreters as error:
    assert "ValueError: 11" in str(error), error
""".replace("block = ", "import numpy\nblock = " if numpy else "block = ", 1)
        )

    def test_cancel(self):
        self.fine(
            """
gate = os.path.abspath(__file__) + ".gate"
executor = Executor(1)
running = executor.submit(wait_for, gate)
waiting = [executor.submit(cube, n) for n in range(5)]
while not running.running():
    time.sleep(0.001)
assert not running.cancel()
assert waiting[0].cancel() and waiting[0].cancelled() and waiting[0].cancel()
assert not waiting[1].running()
executor.shutdown(wait=False, cancel_futures=True)
assert all(future.cancelled() for future in waiting)
try:
    executor.submit(cube, 1)
    raise AssertionError
except RuntimeError as error:
    assert "after shutdown" in str(error)
open(gate, "w").close()
assert running.result() == gate
executor.shutdown()
assert concurrent.futures.wait(waiting, 0).not_done == set()
"""
        )

    @own_gil
    def test_new_interpreters_after_some_tasks(self):
        self.fine(
            """
with Executor(2, max_tasks_per_child=3) as executor:
    found = [future.result() for future in [executor.submit(where) for _ in range(30)]]
times = {one: found.count(one) for one in found}
assert max(times.values()) <= 3 and len(times) >= 10, times
assert homefree._homefree.interpreter_current() not in times
"""
        )

    @own_gil
    def test_what_is_left_is_done_by_new_interpreters(self):
        self.fine(
            """
executor = Executor(1, max_tasks_per_child=1, initializer=begin)
futures = [executor.submit(begun) for _ in range(8)]
executor.shutdown()
assert [future.result() for future in futures] == [1] * 8
"""
        )

    @own_gil
    def test_a_new_interpreter_that_cannot_begin_breaks_the_executor(self):
        self.fine(
            """
path = os.path.join(os.path.dirname(__file__), "once")
executor = Executor(1, max_tasks_per_child=1, initializer=begin_once, initargs=(path,))
first = executor.submit(where)
assert first.result() > 0
try:
    executor.submit(where).result()
except interpreters.BrokenInterpreters as error:
    assert "FileExistsError" in str(error), error
else:
    raise AssertionError
executor.shutdown()
"""
        )

    @own_gil
    def test_the_next_interpreter_is_there_before_one_retires(self):
        self.fine(
            """
path = os.path.join(os.path.dirname(__file__), "begun")
with Executor(1, max_tasks_per_child=20, initializer=begin_in, initargs=(path, 99)) as executor:
    found = [executor.submit(wait_for_lines, path, 1).result() for _ in range(18)]
    assert len(open(path).readlines()) == 1
    found += [executor.submit(wait_for_lines, path, 2).result() for _ in range(2)]
    assert len(set(found)) == 1, found
    assert executor.submit(wait_for_lines, path, 2).result() != found[0]
"""
        )

    @own_gil
    def test_one_interpreter_is_made_ahead_of_its_time(self):
        self.fine(
            """
path = os.path.join(os.path.dirname(__file__), "begun")
gate = os.path.join(os.path.dirname(__file__), "gate")
with Executor(3, max_tasks_per_child=1, initializer=begin_in, initargs=(path, 99)) as executor:
    running = [executor.submit(wait_for, gate) for _ in range(3)]
    wait_for_lines(path, 4)
    queue = executor._queue
    while queue.owed + queue.spares < 3:
        time.sleep(0.001)
    found = queue.spares, len(queue.groups)
    # It does nothing as long as three others work.
    waiting = executor.submit(where)
    runs = waiting.running()
    open(gate, "w").close()
    assert found == (1, 4) and not runs, (found, runs)
    assert waiting.result() > 0
    assert [future.result() for future in running] == [gate] * 3
"""
        )

    @own_gil
    def test_tasks_that_overtook_each_other_are_all_done(self):
        self.fine(
            """
arrived, gate = threading.Semaphore(0), threading.Event()
class Slow:
    def __reduce__(self):
        arrived.release()
        gate.wait()
        return int, (3,)
inside, outside = os.pipe()
executor = Executor(1, max_tasks_per_child=1)
late = []
threads = [threading.Thread(target=lambda: late.append(executor.submit(cube, Slow())))
           for _ in range(3)]
for thread in threads:
    thread.start()
    arrived.acquire()
first = executor.submit(read, inside)
gate.set()
for thread in threads:
    thread.join()
runs = [future.running() for future in late]
executor.shutdown(wait=False)
os.write(outside, b"x")
assert first.result() == b"x"
assert [future.result() for future in late] == [27] * 3
assert runs == [False] * 3, runs
"""
        )

    @own_gil
    def test_a_spare_interpreter_that_cannot_begin_matters_when_it_is_needed(self):
        self.fine(
            """
path = os.path.join(os.path.dirname(__file__), "begun")
executor = Executor(1, max_tasks_per_child=1, initializer=begin_in, initargs=(path, 1))
assert executor.submit(wait_for_lines, path, 2).result() > 0
try:
    executor.submit(where).result()
except interpreters.BrokenInterpreters as error:
    assert "AssertionError" in str(error), error
else:
    raise AssertionError
executor.shutdown()
"""
        )

    @own_gil
    def test_a_task_that_runs_too_long_is_interrupted(self):
        done = self.fine(
            """
with Executor(2, task_time_limit=0.3) as executor:
    for _ in range(2):
        futures = [executor.submit(spin) for _ in range(3)]
        for future in futures:
            try:
                future.result()
            except TimeoutError as error:
                assert "0.3 seconds" in str(error), error
            else:
                raise AssertionError
        assert patiently(executor, cube, 3) == 27
with Executor(1, task_time_limit=1) as executor:
    first = patiently(executor, where)
    spinning = executor.submit(spin)
    after = [executor.submit(where) for _ in range(20)]
    assert isinstance(spinning.exception(), TimeoutError)
    assert first not in {future.result() for future in after if future.exception() is None}
with Executor(1, task_time_limit=1, max_tasks_per_child=1) as executor:
    assert {patiently(executor, begun) for _ in range(3)} == {0}
print("done")
"""
        )
        self.assertEqual(done, "done\n")  # and no SystemExit

    @own_gil
    def test_one_that_is_stuck_in_c_is_replaced(self):
        done = self.fine(
            """
inside, outside = os.pipe()
with Executor(1, task_time_limit=0.5) as executor:
    try:
        executor.submit(read, inside).result()
    except TimeoutError:
        pass
    else:
        raise AssertionError
    assert patiently(executor, where) > 0
    assert patiently(executor, cube, 3) == 27
os.write(outside, b"x")
print("done")
"""
        )
        self.assertEqual(done, "done\n")

    @own_gil
    def test_the_program_ends_without_one_that_is_stuck_for_ever(self):
        done = self.outcome(
            """
inside, outside = os.pipe()
with Executor(2, task_time_limit=1) as executor:
    try:
        executor.submit(read, inside).result()
    except TimeoutError:
        pass
    assert patiently(executor, cube, 3) == 27
print("done")
sys.exit(3)
"""
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, "done\n", ""))

    @own_gil
    def test_a_task_in_time_has_its_result(self):
        self.fine(
            """
with Executor(2, task_time_limit=1000) as executor:
    assert list(executor.map(cube, range(200))) == [n ** 3 for n in range(200)]
    assert len({executor.submit(where).result() for _ in range(100)}) <= 2
"""
        )

    def test_ends_without_shutdown(self):
        for end in ("", "del executor", "sys.exit(0)"):
            self.fine(
                f"""
executor = Executor(2)
future = executor.submit(cube, 3)
assert future.result() == 27
{end}
"""
            )

    def test_many_threads_submit(self):
        self.fine(
            """
with Executor(2) as executor:
    results = []
    def submit(start):
        results.append([executor.submit(cube, n).result() for n in range(start, start + 50)])
    threads = [threading.Thread(target=submit, args=(n,)) for n in range(0, 400, 50)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sorted(sum(results, [])) == [cube(n) for n in range(400)]
"""
        )

    def test_other_processes_can_be_started(self):
        self.fine(
            """
import subprocess
with Executor(1) as executor:
    assert executor.submit(cube, 2).result() == 8
    done = subprocess.run([sys.executable, "-c", "print(5)"], capture_output=True)
    assert done.stdout == b"5\\n", done
    assert executor.submit(cube, 3).result() == 27
"""
        )

    @own_gil
    def test_the_frames_of_threads_are_this_interpreters(self):
        self.fine(
            """
event = threading.Event()
def waits():
    event.wait()
thread = threading.Thread(target=waits)
thread.start()
with Executor(2) as executor:
    busy = [executor.submit(sum, range(200_000)) for _ in range(20)]
    while not all(future.done() for future in busy):
        seen = sys._current_frames()
        assert "main" in names(seen[threading.get_ident()])
        assert "waits" in names(seen[thread.ident])
    assert executor.submit(own_frames).result() == ["own_frames"]
event.set()
thread.join()
"""
        )

    def test_wrong_arguments(self):
        self.fine(
            """
for arguments, error in (((0,), ValueError), ((-1,), ValueError), ((5000,), ValueError),
                         (("2",), TypeError), ((True,), TypeError)):
    try:
        Executor(*arguments)
    except error:
        continue
    raise AssertionError(arguments)
for keywords, error in (({"initializer": 5}, TypeError),
                        ({"max_tasks_per_child": 0}, ValueError),
                        ({"max_tasks_per_child": 2.0}, TypeError),
                        ({"max_tasks_per_child": True}, TypeError),
                        ({"task_time_limit": 0}, ValueError),
                        ({"task_time_limit": float("nan")}, ValueError),
                        ({"task_time_limit": "1"}, TypeError),
                        ({"max_memory_per_child": 0}, ValueError),
                        ({"memory_limit": []}, TypeError)):
    try:
        Executor(1, **keywords)
    except error:
        continue
    raise AssertionError(keywords)
"""
        )


class Memory(Program):
    definitions = """
def fill(view):
    view[0] = 7
    return view.format, view.shape, view.readonly
def back(value):
    return value
def make(size):
    return memoryview(bytearray(b"x" * size))
kept = []
def keep(value):
    kept.append(value)
def total():
    return sum(sum(value) for value in kept)
def forget():
    kept.clear()
"""

    def test_memoryviews_cross_by_reference(self):
        self.fine(
            """
with Executor(1) as executor:
    block = bytearray(1000)
    view = memoryview(block).cast("B", (10, 100))
    flat = memoryview(block).cast("i")
    assert executor.submit(fill, flat).result() == ("i", (250,), False)
    assert block[0] == 7
    assert executor.submit(back, view).result().shape == (10, 100)
    same = executor.submit(back, memoryview(block)).result()
    same[1] = 9
    assert block[1] == 9
    assert executor.submit(back, memoryview(b"abc")).result().readonly
    assert executor.submit(back, memoryview(block)[::2]).result() == memoryview(block)[::2]
"""
        )

    def test_a_result_outlives_its_interpreter(self):
        self.fine(
            """
executor = Executor(1)
view = executor.submit(make, 100_000).result()
executor.shutdown()
assert view[99_999] == ord("x")
del view
"""
        )

    def test_what_is_kept_elsewhere_stays(self):
        self.fine(
            """
executor = Executor(1)
executor.submit(keep, memoryview(bytearray(b"\\1" * 1000))).result()
import gc; gc.collect()
junk = [bytearray(1000) for _ in range(1000)]
assert executor.submit(total).result() == 1000
executor.submit(forget).result()
executor.shutdown()
"""
        )


@unittest.skipIf(numpy is None, "no NumPy")
class Arrays(Program):
    definitions = """
import numpy
def address(array):
    return array.__array_interface__["data"][0]
def back(array):
    return array
def make(size):
    return numpy.arange(size, dtype="f8")
def triple(array):
    array *= 3
    return float(array.sum())
class Columns:
    # Passes column-major memory, as pickle allows.
    def __init__(self, array):
        self.array = array
    def __reduce_ex__(self, protocol):
        import pickle
        return columns, (pickle.PickleBuffer(self.array), self.array.shape)
def columns(buffer, shape):
    return numpy.frombuffer(buffer).reshape(shape, order="F")
kept = []
def keep(array):
    kept.append(array)
    return array
def resize():
    kept[0].resize(10, refcheck=False)
    return kept[0].sum()
"""

    def test_arrays_cross_by_reference(self):
        self.fine(
            """
homefree.install()
array = numpy.arange(1000.0)
with Executor(2) as executor:
    assert executor.submit(address, array).result() == address(array)
    assert executor.submit(triple, array).result() == array.sum()
    part = array[10:20]
    assert executor.submit(address, part).result() == address(part)
    assert executor.submit(address, array.reshape(10, 100).T).result() == address(array)
    same = executor.submit(back, array).result()
    same[5] = -1
    assert array[5] == -1 and address(same) == address(array)
"""
        )

    @own_gil
    def test_column_major_buffers_cross_by_reference(self):
        self.fine(
            """
with Executor(1) as executor:
    turned = numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3))
    there = executor.submit(back, Columns(turned)).result()
    assert (there == turned).all() and address(there) == address(turned)
"""
        )

    def test_arrays_outlive_their_interpreters(self):
        self.fine(
            """
homefree.install()
live = homefree.stats()["releases_live"]
executor = Executor(1)
arrays = [executor.submit(make, size).result() for size in (1, 1000, 1_000_000)]
assert all(homefree.owner_of(address(array)).kind == "heap" for array in arrays)
executor.shutdown()
assert [array.sum() for array in arrays] == [0, 499500, 499999500000]
del arrays
assert homefree.stats()["releases_live"] <= live, homefree.stats()
"""
        )

    @own_gil
    def test_a_resized_array_moves(self):
        self.fine(
            """
homefree.install()
with Executor(1) as executor:
    executor.submit(make, 3).result()
    array = numpy.ones(1000)
    executor.submit(keep, array).result()
    other = numpy.ones(1000)
    sent = executor.submit(back, other).result()
    other.resize(100_000, refcheck=False)
    assert other[:1000].sum() == 1000 and sent.sum() == 1000
    assert address(other) != address(sent)
"""
        )


@own_gil
@unittest.skipIf(sys.version_info < (3, 13), "ctypes needs a private copy here")
class Ownership(Program):
    definitions = """
import ctypes
def make():
    function = ctypes.pythonapi["PyMem_Malloc"]
    function.restype, function.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    return function(48)
def free(address):
    function = ctypes.PyDLL(None)["free"]
    function.restype, function.argtypes = None, [ctypes.c_void_p]
    function(address)
"""

    def test_a_block_goes_home_to_its_interpreter(self):
        self.fine(
            """
executor = Executor(1)
address, later = executor.submit(make).result(), executor.submit(make).result()
owner = homefree.owner_of(address)
assert (owner.kind, owner.interpreter) == ("pymalloc", executor.submit(where).result()), owner
free(address)
while executor.submit(homefree.owner_of, address).result().block is not None:
    time.sleep(0.001)
executor.shutdown()
free(later)  # its interpreter has ended: leaked
"""
        )


class Replicas(Program):
    definitions = """
import os
made = []
class Model:
    def __init__(self, factor):
        self.factor = factor
    def __setstate__(self, state):
        self.__dict__.update(state)
        made.append(self)
    def __call__(self, number):
        return self.factor * number
def count(*unused):
    return len(made)
"""

    def test_one_object_for_each_interpreter(self):
        self.fine(
            """
with Executor(1) as executor:
    model = interpreters.Replica(Model(5), executor)
    assert [model(n) for n in range(5)] == [0, 5, 10, 15, 20]
    assert model.submit(3).result() == 15
    assert executor.submit(count, model).result() == 1
try:
    interpreters.Replica(1)(2)
    raise AssertionError
except RuntimeError as error:
    assert "has no executor" in str(error)
"""
        )


@own_gil
class Crashes(Program):
    definitions = """
import signal

def crash(*ignored):
    signal.raise_signal(signal.SIGSEGV)
"""

    def lines(self, code, *flags):
        done = self.outcome(code, *flags)
        self.assertEqual(done.returncode, -signal.SIGSEGV, done.stderr)
        return done.stderr.splitlines()

    def test_a_crash_names_the_task(self):
        for call in "submit(crash)", "map(crash, range(2), chunksize=2)":
            with self.subTest(call):
                *before, last = self.lines(
                    f"""
with Executor(2, name_crashes=True) as executor:
    executor.submit(add, 1).result()
    waits = list(executor.{call}) if "map" in {call!r} else executor.{call}.result()
"""
                )
                self.assertEqual(before, [])
                self.assertRegex(
                    last,
                    r"^homefree: fatal: SIGSEGV in interpreter \d+ \(index [01] of 2\), "
                    r"which ran 'definitions:crash'; the instruction is at /.*\+0x",
                )

    def test_an_initializer_is_named(self):
        (line,) = self.lines(
            """
executor = Executor(1, name_crashes=True, initializer=crash)
executor.submit(add, 1).result()
"""
        )
        self.assertIn(" (index 0 of 1), which ran '<initializer>'; ", line)

    def test_faulthandler_has_its_say_before(self):
        *before, last = self.lines(
            """
with Executor(1, name_crashes=True) as executor:
    executor.submit(crash).result()
""",
            "-X",
            "faulthandler",
        )
        self.assertIn("Fatal Python error: Segmentation fault", before)
        self.assertIn("which ran 'definitions:crash'", last)

    def test_nothing_is_said_unasked(self):
        self.assertEqual(
            self.lines(
                """
import signal
Executor(1, name_crashes=True).shutdown()
with Executor(1) as executor:
    executor.submit(crash).result()
"""
            ),
            [],
        )


class PackagedReplicas(Program):
    definitions = """
import os, pathlib, sys, tempfile
import homefree.package
def write(directory):
    source = "class Model:\\n    def __call__(self, x): return self.base + x\\n"
    pathlib.Path(directory, "shipped.py").write_text(source)
    sys.path.insert(0, directory)
    import shipped
    model = shipped.Model()
    model.base = 7
    with homefree.package.Writer(directory + "/model.hfp") as writer:
        writer.intern("shipped")
        writer.add_pickle("models", "model.pkl", model)
    sys.path.remove(directory)
    os.remove(directory + "/shipped.py")
def is_same(first, second):
    return first is second, type(first).__module__
"""

    def test_a_package_is_loaded_where_it_is_used(self):
        self.fine(
            """
with tempfile.TemporaryDirectory() as directory:
    write(directory)
    os.chdir(directory)
    with Executor(1) as executor:
        model = interpreters.Replica.from_package("model.hfp", "models", "model.pkl", executor)
        lost = interpreters.Replica.from_package("model.hfp", "models", "none.pkl", executor)
        os.chdir("/")
        assert [model(n) for n in range(3)] == [7, 8, 9]
        assert executor.submit(is_same, model, model).result() == (True, "<package 1>.shipped")
        try:
            lost(1)
            raise AssertionError
        except homefree.package.MissingMember as error:
            assert "none.pkl" in str(error)
        try:
            interpreters.Replica.from_package("model.hfp", "models", "model.pkl")
            raise AssertionError
        except FileNotFoundError:
            pass
"""
        )


@unittest.skipUnless(support.FREE_THREADED, "for free-threaded CPythons")
class Threads(Program):
    definitions = """
import threading
gate = threading.Barrier(3)
def together(*values):
    gate.wait()
    return values
class Model:
    def __init__(self, memory):
        self.memory = memoryview(memory)
    def __reduce__(self):
        import pickle
        return Model, (pickle.PickleBuffer(self.memory),)
    def __call__(self):
        gate.wait()
        return self
"""

    def test_objects_are_passed_as_they_are(self):
        self.fine(
            """
value = [object()]
with Executor(2) as executor:
    same, = executor.submit(lambda value, *, other: [value], value, other=1).result()
    assert same is value
    assert not sys._is_gil_enabled()
"""
        )

    def test_each_thread_has_its_object_of_a_replica(self):
        self.fine(
            """
block = bytearray(10)
with Executor(3) as executor:
    model = interpreters.Replica(Model(block), executor)
    objects = [future.result() for future in [model.submit() for _ in range(3)]]
    assert len(set(map(id, objects))) == 3
    objects[0].memory[5] = 7
    assert block[5] == 7 and objects[2].memory[5] == 7
    arguments = executor.map(together, [model] * 3, [[model]] * 3)
    for own, (still,) in arguments:
        assert own in objects and still is model
    # In a worker, a replica inside of another object is this worker's object, too.
    call = lambda values: values[0]()
    assert set(executor.map(call, [[model]] * 3)) == set(objects)
    try:
        interpreters.Replica(lambda: 0)
        raise AssertionError
    except Exception as error:
        assert "lambda" in str(error), error
"""
        )

    def test_objects_of_a_dropped_replica_go(self):
        self.definitions += """
import weakref
references = []
class Noted:
    def __init__(self):
        references.append(weakref.ref(self))
    def __reduce__(self):
        return Noted, ()
"""
        self.fine(
            """
with Executor(1) as executor:
    replica = interpreters.Replica(Noted())
    executor.submit(id, replica).result()
    assert references[-1]() is not None
    del replica
    executor.submit(int).result()
    executor.submit(int).result()
    assert references[-1]() is None
"""
        )

    def test_a_forked_child_is_told(self):
        self.fine(
            """
executor = Executor(1)
assert executor.submit(int).result() == 0
child = os.fork()
if child == 0:
    try:
        executor.submit(int)
        os._exit(1)
    except interpreters.BrokenInterpreters as error:
        assert "was forked" in str(error), error
    executor.shutdown()
    with Executor(1) as own:
        os._exit(own.submit(int, 0).result())
assert os.waitpid(child, 0)[1] == 0
executor.shutdown()
""",
            "-W",
            "ignore",
        )

    def test_many_threads_do_everything_at_once(self):
        """Submit, exchange arrays, cancel, and end executors, all at the same time."""
        self.definitions += """
def fill(view, number):
    view[0] = number
    return view
"""
        self.fine(
            """
start = threading.Barrier(6)
errors = []
def work(number):
    start.wait()
    try:
        for turn in range(15):
            with Executor(2, initializer=int) as executor:
                replica = interpreters.Replica(Model(bytearray(8)), executor)
                views = [memoryview(bytearray(64)) for _ in range(20)]
                futures = [executor.submit(fill, view, number) for view in views]
                cancelled = [future for future in futures[10:] if future.cancel()]
                rest = [future for future in futures if future not in cancelled]
                assert all(future.result()[0] == number for future in rest)
                executor.submit(id, replica).result()
                late = [executor.submit(cube, number) for _ in range(10)]
                executor.shutdown(wait=turn % 2 == 0, cancel_futures=turn % 3 == 0)
                concurrent.futures.wait(late)
    except BaseException as error:
        errors.append(traceback.format_exc())
threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not errors, errors[0]
""",
            "-X",
            "dev",
        )


@unittest.skipUnless(OWN_GIL or support.FREE_THREADED, "one GIL for all interpreters")
@unittest.skipIf(numpy is None, "no NumPy")
class Guide(unittest.TestCase):
    def test_its_programs_print_the_same(self):
        one = guide.said(guide.ONE)
        self.assertRegex(one, r"^-\d+\.\d{4,6}$")
        self.assertEqual(guide.said(guide.EXECUTOR), one)


class Refused(unittest.TestCase):
    @unittest.skipIf(OWN_GIL or support.FREE_THREADED, "this Python can have interpreters")
    def test_older_pythons_say_why(self):
        from homefree import interpreters

        for call in (interpreters.engine, interpreters.Executor):
            with self.assertRaisesRegex(RuntimeError, "3.12"):
                call()


if __name__ == "__main__":
    unittest.main()
