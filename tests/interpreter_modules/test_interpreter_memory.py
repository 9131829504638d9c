"""homefree.interpreters.memory() tells what each interpreter has, and Executor(memory_limit=...)
lets the one that asks for more raise MemoryError: for objects, NumPy's arrays, and what private
copies of modules take from malloc(). The others go on, and so does that one.
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import support  # noqa: E402

HERE = sys.argv.pop(1)
OWN_GIL = sys.version_info >= (3, 12) and "t" not in sys.abiflags
MIB = 1 << 20

try:
    import numpy
except ImportError:
    numpy = None

HEAD = f"""
import contextlib, ctypes, os, sys, threading
sys.path.insert(0, {HERE!r})
import homefree
from homefree.interpreters import Executor, memory
MIB = {MIB}
kept = []

def where():
    return homefree._homefree.interpreter_current()

def keep(size):
    kept.append(bytearray(size))

def strings(count):
    kept.append([str(number) * 8 for number in range(count)])

def grow():
    mine = []
    kept.append(mine)
    while True:
        mine.append(object())

def waste():
    mine, own = [], None
    while True:
        own = [own]
        mine.append(own)
        own.append(mine)

def in_a_thread():
    found = []
    def work():
        try:
            kept.append(bytearray(70 * MIB))
        except MemoryError as error:
            found.append(type(error).__name__)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return found[0]

def waste_a_little():
    one = [bytearray(10 * MIB)]
    one.append(one)

def lend(size):
    return memoryview(bytearray([7]) * size)

def drop():
    kept.clear()

def array(count):
    import numpy
    kept.append(numpy.ones(count, numpy.uint8))

def grown_array(count):
    import numpy
    mine = numpy.zeros(10, numpy.uint8)
    mine.resize(count)
    kept.append(mine)

def given(count):
    import numpy
    return numpy.zeros(count, numpy.uint8)

def hold(size):
    import hoarder
    hoarder.hold(size)

def borrow(size):
    import hoarder
    hoarder.borrow(size)

def drop_held():
    import hoarder
    hoarder.drop()

def of(number):
    (row,) = [row for row in memory() if row.interpreter == number]
    return row

def take_limits(count):
    found = ctypes.c_void_p()
    begin = ctypes.CDLL(homefree._homefree.__file__).hf_limit_begin
    for _ in range(count):
        assert begin(ctypes.byref(found), None, ctypes.c_uint64(1 << 40), None) == 0

def refused(executor, function, *arguments):
    try:
        executor.submit(function, *arguments).result()
    except MemoryError as error:
        return "the interpreter may have" in "".join(getattr(error, "__notes__", ()))
    return False
"""


@unittest.skipUnless(OWN_GIL, "no interpreters with memory of their own")
class Program(support.ProgramTest):
    head = HEAD
    seconds = 300


class Measured(Program):
    def test_each_interpreter_has_a_row(self):
        self.fine(
            """
with Executor(2) as executor:
    rows = memory()
    assert sorted(row.index for row in rows if row.index is not None) == [0, 1], rows
    assert sum(row.interpreter == 0 and row.index is None for row in rows) == 1, rows
    for row in rows:
        assert row.live == row.objects + row.blocks + (row.counted or 0), row
        assert MIB < row.objects < row.arenas and row.arenas % MIB == 0, row
        assert row.live // 2 < row.resident < row.arenas + row.blocks, row
        assert (row.counted, row.limit, row.used, row.refused) == (None, None, 0, 0), row
assert [row.interpreter for row in memory()] == [0]
with Executor(2, max_tasks_per_child=1) as executor:
    assert sorted(row.index for row in memory() if row.index is not None) == [0, 1]
"""
        )

    def test_what_one_takes_is_its_own(self):
        self.fine(
            """
with Executor(1) as executor, Executor(1) as other:
    mine, others = executor.submit(where).result(), other.submit(where).result()
    before, beside = of(mine), of(others)
    executor.submit(keep, 8 * MIB).result()
    large = of(mine)
    assert 8 * MIB <= large.blocks - before.blocks < 9 * MIB, (before, large)
    assert large.resident - before.resident > 7 * MIB, (before, large)
    executor.submit(strings, 100_000).result()
    small = of(mine)
    assert 6 * MIB < small.objects - large.objects < 14 * MIB, (large, small)
    executor.submit(drop).result()
    after = of(mine)
    assert after.blocks < before.blocks + MIB // 4, (before, after)
    assert after.objects < before.objects + MIB // 4, (before, after)
    assert abs(of(others).live - beside.live) < MIB // 4
"""
        )


class Limited(Program):
    def test_the_one_that_asks_for_more_is_refused(self):
        self.fine(
            """
with Executor(1, memory_limit="64M") as executor, Executor(1, memory_limit="64M") as other:
    number = executor.submit(where).result()
    for _ in range(2):
        for function, arguments in ((keep, (70 * MIB,)), (grow, ()), (waste, ())):
            assert refused(executor, function, *arguments), function
            other.submit(keep, MIB).result()
            kept.append(bytearray(70 * MIB))
            executor.submit(drop).result()
        kept.clear()
        other.submit(drop).result()
        row = of(number)
        assert row.live < 20 * MIB and row.peak > 60 * MIB and row.refused >= 3, row
        executor.submit(keep, 20 * MIB).result()
        executor.submit(drop).result()
"""
        )

    def test_the_limit_is_where_it_says(self):
        self.fine(
            """
with Executor(1, memory_limit="64M") as executor:
    number = executor.submit(where).result()
    free = 64 * MIB - of(number).used
    assert refused(executor, keep, free + 1)
    executor.submit(keep, free - MIB).result()
    row = of(number)
    assert 62 * MIB < row.used <= 64 * MIB, row
    assert refused(executor, keep, 3 * MIB)
    assert abs(row.used - row.arenas - row.blocks - row.counted) < MIB // 4, row
"""
        )

    def test_threads_of_the_interpreter_are_refused_too(self):
        self.fine(
            """
with Executor(1, memory_limit="64M") as executor:
    assert executor.submit(in_a_thread).result() == "MemoryError"
    executor.submit(keep, MIB).result()
"""
        )

    def test_an_arena_counts_until_it_goes_back(self):
        self.fine(
            """
with Executor(1, memory_limit="unlimited") as executor:
    number = executor.submit(where).result()
    executor.submit(strings, 200_000).result()
    high = of(number)
    executor.submit(drop).result()
    low = of(number)
    assert high.limit is None and low.counted == 0
    assert high.arenas - low.arenas >= 8 * MIB, (high, low)
    assert high.used - low.used >= high.arenas - low.arenas, (high, low)
"""
        )

    def test_what_cannot_be(self):
        self.fine(
            """
for value, error in ((0, ValueError), ("1X", ValueError), (-1, ValueError), ([], TypeError),
                     (True, TypeError),
                     ("1M", RuntimeError)):
    try:
        Executor(1, memory_limit=value)
    except error as why:
        assert value != "1M" or "before its first call" in str(why), why
    else:
        raise AssertionError(value)
limits = [Executor(32, memory_limit="unlimited") for _ in range(2)]
try:
    Executor(1, memory_limit="1G")
except RuntimeError as why:
    assert "64 limits" in str(why), why
for executor in limits:
    executor.shutdown()
Executor(1, memory_limit="1G").shutdown()
"""
        )

    def test_where_nobody_knows_whose_a_block_is(self):
        """Nothing would be refused there."""
        for variables in (
            {"PYTHONMALLOC": "malloc"},
            {"PYTHONMALLOC": "debug"},
            {"PYTHONDEVMODE": "1"},
            {"PYTHONTRACEMALLOC": "1"},
        ):
            with self.subTest(variables):
                self.fine(
                    """
for limits in {"memory_limit": "1G"}, {"max_memory_per_child": "1G"}:
    try:
        Executor(1, **limits)
    except RuntimeError as why:
        assert "needs CPython's own object allocator" in str(why), why
    else:
        raise AssertionError(limits)
# CPython 3.14 itself crashes at its end, where its tracemalloc has seen another interpreter.
if sys.version_info < (3, 14) or "PYTHONTRACEMALLOC" not in os.environ:
    with Executor(1) as executor:
        assert executor.submit(where).result() > 0
""",
                    **variables,
                )


class Replaced(Program):
    def test_one_that_keeps_too_much_is_replaced(self):
        self.fine(
            """
with Executor(1, max_memory_per_child="40M") as executor:
    found = []
    for _ in range(9):
        executor.submit(keep, 10 * MIB).result()
        found.append(executor.submit(where).result())
    assert len(set(found)) >= 3 and found == sorted(found), found
    number = executor.submit(where).result()
    for _ in range(20):
        executor.submit(waste_a_little).result()
    assert executor.submit(where).result() == number
with Executor(1, max_memory_per_child="60M", memory_limit="50M") as executor:
    number = executor.submit(where).result()
    assert refused(executor, keep, 55 * MIB)
    assert executor.submit(where).result() == number
"""
        )

    def test_a_spare_waits_for_a_limit(self):
        """All limits are taken, so none can be made before one has ended."""
        self.fine(
            """
take_limits(62)
with Executor(2, memory_limit="1G", max_tasks_per_child=2) as executor:
    found = [future.result() for future in [executor.submit(where) for _ in range(12)]]
assert len(set(found)) >= 6, found
with Executor(1, memory_limit="1G", max_tasks_per_child=1) as executor:
    take_limits(1)
    assert executor.submit(where).result() != executor.submit(where).result()
"""
        )

    def test_without_any_the_executor_breaks(self):
        self.fine(
            """
take_limits(63)
with Executor(1, memory_limit="1G", max_tasks_per_child=1) as executor:
    executor._queue.options["memory_limit"] = 1 << 20
    try:
        list(executor.map(abs, range(3)))
    except homefree.interpreters.BrokenInterpreters as why:
        assert "before its first call" in str(why), why
    else:
        raise AssertionError
"""
        )

    def test_a_parked_one_has_no_limit(self):
        self.fine(
            """
take_limits(63)
views = []
for _ in range(3):
    with Executor(1, memory_limit="1G") as executor:
        views.append(executor.submit(lend, MIB).result())
assert [view[0] for view in views] == [7] * 3
assert sum(row.used == 0 and row.limit is None for row in memory()) == 4, memory()
del views
with Executor(1, memory_limit="1G", max_tasks_per_child=1) as executor:
    views = list(executor.map(lend, [MIB] * 4))
"""
        )


class Copies(Program):
    """What private copies take from malloc()."""

    def test_it_counts(self):
        self.fine(
            """
for cycle in range(3):
    with Executor(1, memory_limit="64M") as executor:
        number = executor.submit(where).result()
        executor.submit(hold, 100).result()
        before = of(number).counted
        executor.submit(hold, 8 * MIB).result()
        assert 8 * MIB - 4096 <= of(number).counted - before < 9 * MIB, of(number)
        assert refused(executor, hold, 70 * MIB) and refused(executor, borrow, 70 * MIB)
        executor.submit(borrow, 20 * MIB).result()
        executor.submit(drop_held).result()
        assert of(number).counted < before + MIB, of(number)
with Executor(1) as executor:
    executor.submit(hold, 100 * MIB).result()
"""
        )


@unittest.skipIf(numpy is None, "no NumPy")
class Arrays(Program):
    def test_they_count_where_they_are_made(self):
        self.fine(
            """
for cycle in range(2):
    with Executor(1, memory_limit="100M") as executor:
        number = executor.submit(where).result()
        executor.submit(array, 10).result()
        before = of(number)
        for _ in range(1000):
            executor.submit(array, 100).result()
        small = of(number)
        assert 100_000 <= small.counted - before.counted < 200_000, (before, small)
        executor.submit(array, 8 * MIB).result()
        executor.submit(grown_array, 8 * MIB).result()
        large = of(number)
        assert 16 * MIB <= large.counted - small.counted < 17 * MIB, (small, large)
        for function in array, grown_array, given:
            assert refused(executor, function, 90 * MIB), function
        executor.submit(drop).result()
        away = executor.submit(given, 8 * MIB).result()
        assert of(number).counted >= 8 * MIB, of(number)
        del away
        executor.submit(where).result()
        assert of(number).counted < MIB, of(number)
"""
        )


if __name__ == "__main__":
    unittest.main()
