"""homefree.interpreters.Executor with tasks, exceptions, callbacks and surroundings that are as odd
as correct programs can be: nothing of it may reach other tasks, or keep a program from ending.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import support
import test_executor


class Exceptions(test_executor.Program):
    definitions = """
import sys

class Ends(Exception):
    "Its code ends threads wherever it runs."
    def __reduce__(self):
        raise SystemExit(3)

class EndsElsewhere(Exception):
    def __reduce__(self):
        return sys.exit, (3,)

class Frozen(Exception):
    def __setattr__(self, name, value):
        raise AttributeError(name)

class Named(str):
    def __reduce__(self):
        raise SystemExit(4)

class Speaks(Exception):
    def __str__(self):
        return Named("hello")
    def __reduce__(self):
        raise TypeError("not this one")

class Silent(Exception):
    def __str__(self):
        raise ValueError

def fail(kind):
    raise kind()

class Unmade:
    def __reduce__(self):
        return sys.exit, (5,)
"""

    @test_executor.own_gil
    def test_their_own_code_cannot_stop_anything(self):
        self.fine(
            """
with Executor(1) as executor:
    for kind in (Ends, EndsElsewhere, Speaks):
        error = executor.submit(fail, kind).exception(timeout=60)
        assert type(error) is interpreters.RemoteError, (kind, error)
        assert kind.__name__ in str(error), error
    assert str(error) == "definitions.Speaks: hello", error
    error = executor.submit(fail, Frozen).exception(timeout=60)
    assert type(error) is Frozen, error
    assert "in fail" in str(error.__cause__), error.__cause__
    error = executor.submit(Unmade).exception(timeout=60)
    assert type(error) is SystemExit and error.code == 5, error
    error = executor.submit(cube, Frozen()).exception(timeout=60)
    assert type(error) is TypeError, error
    assert executor.submit(cube, 2).result(timeout=60) == 8
"""
        )

    def test_an_initializer_may_raise_anything(self):
        self.fine(
            """
for kind in Silent, SystemExit:
    try:
        with Executor(2, initializer=fail, initargs=(kind,)) as executor:
            executor.submit(cube, 2).result(timeout=60)
        raise AssertionError(kind)
    except interpreters.BrokenInterpreters as error:
        assert "an interpreter is lost: " in str(error), error
"""
        )

    def test_callbacks_cannot_stop_anything(self):
        done = self.outcome(
            """
with Executor(1) as executor:
    future = executor.submit(cube, 2)
    future.add_done_callback(lambda future: sys.exit(3))
    assert executor.submit(cube, 3).result(timeout=60) == 27
"""
        )
        self.assertEqual(done.returncode, 0, done.stderr)


class Many(test_executor.Program):
    def test_cancelling_costs_the_same_in_a_long_queue(self):
        self.fine(
            """
import random, tempfile

def cost(count):
    # Of one cancelled task, in processor time, with as many in the queue.
    with tempfile.TemporaryDirectory() as directory, Executor(1) as executor:
        go = os.path.join(directory, "go")
        executor.submit(wait_for, go)
        futures = [executor.submit(cube, n) for n in range(count)]
        random.shuffle(futures)
        for future in futures[: count // 4]:
            assert future.cancel()
        start = time.thread_time()
        for future in futures[count // 4 : count // 2]:
            future.cancel()
        spent = time.thread_time() - start
        open(go, "x").close()
        assert all(future.result(timeout=60) is not None for future in futures[count // 2 :])
        assert all(future.cancelled() for future in futures[: count // 2])
    return spent / count

# A long queue misses the processor's caches; where a neighbour fills them, once is not enough.
assert any(cost(30_000) < 4 * max(cost(1000), cost(1000)) for _ in range(3))
"""
        )


class Nested(test_executor.Program):
    definitions = """
from homefree.interpreters import Executor

def outer(function, number):
    with Executor(2) as executor:
        return sum(executor.map(function, range(number)))

def left_alone(function):
    global executor
    executor = Executor(1)
    return executor.submit(function, 3).result()
"""

    def test_an_executor_in_a_task(self):
        self.fine(
            """
with Executor(1) as executor:
    assert executor.submit(outer, cube, 4).result(timeout=60) == 36
    assert executor.submit(left_alone, cube).result(timeout=60) == 27
"""
        )


class Ends(test_executor.Program):
    definitions = """
import atexit, threading

def start():
    threading.current_thread()  # a dummy of the worker's thread, which nobody can wait for
    asked = threading.Event()
    asking = threading.Event()
    def wait():
        asking.set()
        asked.wait()
        print("a thread ends", flush=True)
    threading.Thread(target=wait).start()
    asking.wait()
    threading._register_atexit(asked.set)
    atexit.register(print, "the interpreter ends", flush=True)
"""

    def test_threads_end_before_their_interpreter(self):
        out = self.fine(
            """
with Executor(1) as executor:
    executor.submit(start).result(timeout=60)
"""
        )
        self.assertEqual(out, "a thread ends\nthe interpreter ends\n")

    def test_one_that_is_made_too_late_does_not_keep_the_program(self):
        done = self.outcome(
            """
def late():
    threading.main_thread().join()
    # Until the functions for the end have been called.
    while not interpreters._queue._closing:
        time.sleep(0.001)
    try:
        Executor(1).submit(cube, 2)
        os._exit(3)
    except RuntimeError as error:
        print("shutdown" in str(error))
Executor(1).submit(cube, 1)
threading.Thread(target=late).start()
"""
        )
        self.assertEqual((done.returncode, done.stdout), (0, "True\n"), done.stderr)

    @test_executor.own_gil
    def test_without_threads_nothing_is_left(self):
        self.fine(
            """
start = homefree._homefree.work_start
def refuse(work, group, index, slot):
    if index == 1:
        raise OSError(11, "no more threads")
    return start(work, group, index, slot)
homefree._homefree.work_start = refuse
before = threading.active_count()
try:
    Executor(2)
    raise SystemExit("it started")
except RuntimeError as error:
    assert "no more threads" in str(error), error
assert threading.active_count() == before
assert homefree._homefree.interpreters_finish(60_000) == 0
homefree._homefree.work_start = start
with Executor(2) as executor:
    assert executor.submit(cube, 2).result(timeout=60) == 8
"""
        )

    @unittest.skipUnless(support.FREE_THREADED, "for free-threaded CPythons")
    def test_without_threads_of_python_nothing_is_left(self):
        self.fine(
            """
start, started = threading.Thread.start, []
def refuse(self):
    if started:
        raise RuntimeError("can't start new thread")
    started.append(self)
    start(self)
threading.Thread.start = refuse
try:
    Executor(2)
    raise SystemExit("it started")
except RuntimeError as error:
    assert "can't start new thread" in str(error), error
assert not started[0].is_alive()
threading.Thread.start = start
with Executor(2) as executor:
    assert executor.submit(cube, 2).result(timeout=60) == 8
"""
        )


@test_executor.own_gil
class Views(test_executor.Program):
    definitions = """
import array, ctypes

class Point(ctypes.Structure):
    _fields_ = [("x", ctypes.c_int), ("O", ctypes.c_double)]

VIEWS = [
    memoryview(array.array("i", range(10)))[::2],
    memoryview(array.array("i", range(10)))[::-1],
    memoryview(b"abcdef")[::3],
    memoryview((ctypes.c_int * 3)(1, 2, 3)),
    memoryview((ctypes.c_int * 3 * 2)((1, 2, 3), (4, 5, 6))),
    memoryview(ctypes.c_double(1.5)),
    memoryview(ctypes.c_long.__ctype_be__(7)),
    memoryview((Point * 2)((1, 2.0), (3, 4.0))),
    memoryview((ctypes.c_int * 0 * 3)()),
    memoryview((ctypes.c_int * 3 * 0)()),
]

def described(view):
    return view.format, view.itemsize, view.shape, view.readonly, view.tobytes()

def back(view):
    return view

def write(view):
    view[1] = 9

objects = (ctypes.py_object * 2)(1, 2)
"""

    def test_layouts_are_kept(self):
        self.fine(
            """
with Executor(2) as executor:
    for view in VIEWS:
        assert executor.submit(described, view).result(timeout=60) == described(view), view.format
        returned = executor.submit(back, view).result(timeout=60)
        assert described(returned) == described(view), view.format
        again = executor.submit(back, returned).result(timeout=60)
        assert described(again) == described(view), view.format
    # What needs no copy is still the same memory, also on its way back.
    points = (Point * 2)()
    for _ in range(2):
        view = executor.submit(back, memoryview(points)).result(timeout=60)
        view = executor.submit(back, view).result(timeout=60)
    points[1].x = 7
    assert view.tobytes() == bytes(points)
    try:
        type(view.obj)()
        raise SystemExit("made")
    except TypeError:
        pass
"""
        )

    def test_objects_are_refused(self):
        self.fine(
            """
with Executor(1) as executor:
    error = executor.submit(described, memoryview(objects)).exception(timeout=60)
    assert type(error) is TypeError and "belongs to its interpreter" in str(error), error
    assert executor.submit(described, memoryview(Point(1, 2))).result(timeout=60)
"""
        )


class Mains(test_executor.Program):
    """Programs whose main module is no file of its own name."""

    CODE = """
from homefree.interpreters import Executor
def cube(number):
    return number ** 3
if __name__ == "__main__":
    with Executor(1) as executor:
        assert list(executor.map(cube, range(3))) == [0, 1, 8]
    print("done")
"""

    def start(self, *arguments):
        done = subprocess.run(
            [sys.executable, "-s", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.assertEqual((done.stdout, done.stderr), ("done\n", ""))

    def test_directories_and_archives(self):
        with tempfile.TemporaryDirectory() as directory:
            program = pathlib.Path(directory, "program")
            program.mkdir()
            (program / "__main__.py").write_text(self.CODE)
            archive = shutil.make_archive(str(program), "zip", program)
            self.start(program)
            self.start(archive)


if __name__ == "__main__":
    unittest.main()
