"""Interpreters that homefree has not made: what share() and prepare() let cross between them by
reference, wherever CPython passes objects between interpreters, and how long the memory lasts. Each
test is a program of its own.
"""

import pathlib
import re
import sys
import unittest

import support

GUESTS = sys.version_info >= (3, 12)
PUBLIC = sys.version_info >= (3, 14)

try:
    import numpy
except ImportError:
    numpy = None

# run() executes code in a guest, where the shareable objects that are passed are global names.
HEAD = """
import gc, os, sys, textwrap, threading, time
import homefree
from homefree import interpreters
from homefree.interpreters import prepare, share

if sys.version_info >= (3, 13):
    import _interpreters
    def create():
        return _interpreters.create("isolated")
else:
    import _xxsubinterpreters as _interpreters
    def create():
        return _interpreters.create(isolated=True)
if sys.version_info >= (3, 14):
    from concurrent.futures import InterpreterPoolExecutor
    from concurrent.interpreters import create_queue

# Without it, CPython 3.12.1 frees tuples of interpreters that have ended (its issue 119213).
homefree.install()

def run(guest, code, **names):
    failed = _interpreters.run_string(guest, SETTING + textwrap.dedent(code), names)
    assert failed is None, failed

end = _interpreters.destroy
SETTING = f"import sys; sys.path[:] = {sys.path!r}\\n"

def live():
    gc.collect()
    return homefree.stats()["releases_live"]

def until(true):
    while not true():
        time.sleep(0.001)

def cube(number):
    return number ** 3

# What is sent from a guest to the main interpreter where there are no queues.
readable, writable = os.pipe()
TELL = f'''
import os
from homefree import _homefree
from homefree.interpreters._crossing import pack
def tell(value):
    message = _homefree.message_send(_homefree.message_pack(*pack(value)))
    os.write({writable}, message.to_bytes(8, "little"))
'''
def told():
    address = int.from_bytes(os.read(readable, 8), "little")
    return interpreters._crossing.unpack(*homefree._homefree.message_open(address))
"""


@unittest.skipUnless(GUESTS, "this Python has one GIL for all interpreters")
class Program(support.ProgramTest):
    head = HEAD


class Memory(Program):
    def test_a_message_is_its_object_where_it_arrives(self):
        self.fine(
            """
block = bytearray(b"x" * 1000)
before = live()
message = share({"part": memoryview(block)[10:20], "name": "a"})
guests = [create(), create()]
for number, guest in enumerate(guests):
    run(guest, f"assert got['name'] == 'a'; got['part'][{number}] = 65", got=message)
assert block[9:13] == b"xAAx"
again = message.open()
again["part"][2] = 66
assert block[12] == 66
for guest in guests:
    run(guest, "del got")
    end(guest)
del message, again
until(lambda: live() == before)
block.append(1)  # nobody has a buffer of it any more
"""
        )

    def test_what_a_guest_shares_outlives_it(self):
        self.fine(
            """
guest = create()
run(guest, TELL + "mine = bytearray(b'abc' * 100_000); tell(memoryview(mine))")
got = told()
got[0] = 90
run(guest, "assert mine[0] == 90; del mine")
end(guest)
gc.collect()
junk = [bytearray(300_000) for _ in range(100)]
assert bytes(got[:4]) == b"Zbca" and got[-1] == ord("c")
leaked = homefree.stats()["releases_leaked"]
del got
assert homefree.stats()["releases_leaked"] == leaked + 1  # its guest could not release it
"""
        )

    def test_an_idle_guest_gets_its_buffer_back(self):
        self.fine(
            """
guest = create()
run(guest, TELL + "mine = bytearray(1000); tell(memoryview(mine))")
got = told()
def held():
    code = '''
try:
    mine.append(1)
    os.write({}, b"0")
except BufferError:
    os.write({}, b"1")
'''
    run(guest, code.format(writable, writable))
    return os.read(readable, 1) == b"1"
assert held()
before = homefree.stats()["releases_run"]
del got
until(lambda: homefree.stats()["releases_run"] > before)
until(lambda: not held())
end(guest)
"""
        )

    def test_an_ending_guest_shares_nothing_more(self):
        self.fine(
            """
guest = create()
run(guest, '''
import atexit
from homefree.interpreters import share
def late():
    try:
        share(memoryview(b"abc"))
    except RuntimeError as error:
        import os
        os.write(%d, str(error).encode())
atexit.register(late)
share(memoryview(b"abc"))
''' % writable)
end(guest)
said = os.read(readable, 200)
assert b"this interpreter is ending" in said, said
"""
        )

    def test_drops_race_with_the_end(self):
        self.fine(
            """
before = homefree.stats()
dropped = []
for turn in range(6):
    guest = create()
    run(guest, TELL + "for n in range(20): tell(memoryview(bytearray(100 + n)))")
    views = [told() for _ in range(20)]
    thread = threading.Thread(target=views.clear)
    thread.start()
    end(guest)
    thread.join()
after = homefree.stats()
assert live() == before["releases_live"]
done = [after[name] - before[name] for name in ("releases_run", "releases_leaked")]
assert sum(done) >= 6 * 20, done
"""
        )

    @support.without_gil  # its blocks are mimalloc's
    def test_blocks_go_home_to_a_guest(self):
        self.fine(
            """
import ctypes
guest = create()
run(guest, '''
from homefree.interpreters import prepare
prepare()
import ctypes, os
make = ctypes.pythonapi["PyMem_Malloc"]
make.restype, make.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
os.write(%d, make(500).to_bytes(8, "little"))
''' % writable)
address = int.from_bytes(os.read(readable, 8), "little")
assert homefree.owner_of(address).kind == "pymalloc"
free = ctypes.PyDLL(None)["free"]
free.restype, free.argtypes = None, [ctypes.c_void_p]
free(address)
CODE = '''
import homefree, os
os.write(%d, b"01"[homefree.owner_of(%d).block is not None:][:1])
''' % (writable, address)
def is_there():
    run(guest, CODE)
    return os.read(readable, 1) == b"1"
until(lambda: not is_there())
end(guest)
"""
        )

    def test_pickles_of_messages_are_copies(self):
        self.fine(
            """
import copy, pickle
block = bytearray(b"abc")
message = share(memoryview(block))
got = pickle.loads(pickle.dumps(message, 5))
got[0] = 90
assert (bytes(got), bytes(block)) == (b"Zbc", b"abc")
for wrong in ((), ("a", []), (b"a", ()), (b"a", [1])):
    try:
        interpreters.Message(*wrong)
    except TypeError:
        continue
    raise AssertionError(wrong)
try:
    homefree._homefree.register_crossing(5)
    raise AssertionError
except TypeError:
    pass
"""
        )

    @support.without_gil  # objects are passed as they are
    def test_messages_and_shared_memory_in_an_executor(self):
        self.definitions = """
def fill(views):
    views[0][0] = 90
    return views
def kind(value):
    return type(value).__name__
"""
        self.fine(
            """
from definitions import fill, kind
block = bytearray(b"abc")
with interpreters.Executor(1) as executor:
    got = executor.submit(fill, share([memoryview(block)])).result()
    assert block == b"Zbc"
    got[0][1] = 89
    assert block == b"ZYc"
    assert executor.submit(kind, got[0].obj).result() == "Shared"
"""
        )


@unittest.skipUnless(PUBLIC, "concurrent.interpreters is newer than this Python")
class Queues(Program):
    def test_both_ways_and_undelivered(self):
        self.fine(
            """
before = live()
queue = create_queue()
block = bytearray(1000)
queue.put(share(memoryview(block)))
queue.get()[0] = 5
assert block[0] == 5
queue.put((1, share(memoryview(block))))
number, view = queue.get()
view[1] = 6
assert block[1] == 6
guest = create()
run(guest, '''
from homefree.interpreters import share
mine = bytearray(b"abc")
queue.put(share(memoryview(mine)))
del mine
''', queue=queue)
got = queue.get()
assert bytes(got) == b"abc"
del got, view
until(lambda: live() == before)  # the guest is idle
queue.put(share(memoryview(block)))
queue.put(share(memoryview(block)))
del queue
run(guest, "del queue")
until(lambda: live() == before)
end(guest)
"""
        )


@unittest.skipUnless(PUBLIC, "concurrent.interpreters is newer than this Python")
class Executors(Program):
    definitions = """
import sys
from homefree import _homefree
def where(*unused):
    return _homefree.interpreter_current()
def fill(view):
    view[0] += 1
    return view
def fail():
    raise ValueError("no state")
"""

    def test_tasks_in_interpreters_of_others(self):
        self.fine(
            """
from concurrent import interpreters as others
from definitions import where, fill
guests = [others.create(), others.create()]
guests[0].exec("kept = 5; import sys; sys.path.insert(0, '/nowhere')")
block = bytearray(1000)
for turn in range(2):
    with interpreters.Executor(interpreters=guests) as executor:
        ids = set(executor.map(where, range(200)))
        assert ids and ids <= {guest.id for guest in guests}, ids
        got = executor.submit(fill, memoryview(block)).result()
        assert block[0] == turn + 1
        assert executor.submit(cube, 3).result() == 27  # of the main module
        assert type(executor.submit(int, "x").exception()) is ValueError
    assert not any(guest.is_running() for guest in guests)
guests[1].exec("import sys; assert sys.path[0] != '/nowhere'")
for guest in guests:
    guest.close()
assert got[0] == 2
"""
        )

    def test_what_ended_leaves_no_arenas(self):
        self.fine(
            """
prepare()
def turn():
    guest = create()
    run(guest, '''
from homefree.interpreters import prepare, share
prepare()
share(memoryview(bytearray(100)))
''')
    end(guest)
    with interpreters.Executor(1) as executor:
        executor.submit(cube, 3).result()
for _ in range(2):
    turn()
used = homefree.stats()["region_used"]
for _ in range(4):
    turn()
assert homefree.stats()["region_used"] < used + (4 << 20), (used, homefree.stats())
"""
        )

    def test_what_cannot_work(self):
        self.fine(
            """
from concurrent import interpreters as others
from definitions import fail, where
guest = others.create()
for arguments, wanted in (((2, [guest]), TypeError), ((None, [5]), TypeError),
                          ((None, []), ValueError), ((None, [guest, guest]), ValueError),
                          ((None, [others.get_current()]), ValueError)):
    try:
        interpreters.Executor(arguments[0], interpreters=arguments[1])
    except wanted:
        continue
    raise AssertionError(arguments)
executor = interpreters.Executor(interpreters=[guest], initializer=fail)
try:
    executor.submit(where).result()
    raise AssertionError
except interpreters.BrokenInterpreters as error:
    assert "ValueError: no state" in str(error), error
executor.shutdown()
with interpreters.Executor(interpreters=[guest]) as executor:
    assert executor.submit(where).result() == guest.id
guest.close()
executor = interpreters.Executor(interpreters=[others.create()])
executor.submit(where).result()  # not shut down
"""
        )


@support.without_gil  # CPython cannot be told to load NumPy into a guest
@unittest.skipIf(numpy is None, "no NumPy")
class Arrays(Program):
    definitions = """
import numpy
def address(array):
    return array.__array_interface__["data"][0]
def double(array):
    array *= 2
    return array
def make(size):
    return numpy.arange(size, dtype="f8")
def own(array):
    return array.base is None
"""

    def test_arrays_outlive_their_guests(self):
        self.fine(
            """
prepare()
import numpy
from definitions import address
before = live()
arrays = []
guests = [create() for _ in range(2)]
for guest in guests:
    run(guest, TELL + textwrap.dedent('''
from homefree.interpreters import prepare
prepare()
prepare()
import numpy
array = numpy.arange(100_000.0)
tell(array)
'''))
    arrays.append(told())
for guest in guests:
    end(guest)
assert [array.sum() for array in arrays] == [4999950000.0] * 2
assert {homefree.owner_of(address(array)).kind for array in arrays} == {"heap"}
leaked = homefree.stats()["releases_leaked"]
del arrays
assert live() == before and homefree.stats()["releases_leaked"] == leaked
"""
        )

    @unittest.skipUnless(PUBLIC, "concurrent.interpreters is newer than this Python")
    def test_pools_and_queues_pass_arrays_by_reference(self):
        self.fine(
            """
import numpy
from definitions import address, double, make
prepare()
array = numpy.ones(1000)
queue = create_queue()
queue.put(array)
same = queue.get()
assert address(same) == address(array)
same[0] = 3
assert array[0] == 3
with InterpreterPoolExecutor(2, initializer=prepare) as executor:
    assert executor.submit(address, array).result() == address(array)
    got = executor.submit(double, array[10:20]).result()
    assert address(got) == address(array[10:20]) and array[10] == 2
    (got,) = executor.submit(list, share([array])).result()
    there = executor.submit(address, share(array)).result()
    assert there == address(array)
    results = list(executor.map(make, [10, 1000, 100_000]))
assert [result.sum() for result in results] == [45, 499500, 4999950000]
assert all(homefree.owner_of(address(result)).kind == "heap" for result in results)
"""
        )


@support.without_gil  # for the same reason
@unittest.skipUnless(PUBLIC and numpy is not None, "needs concurrent.interpreters and NumPy")
class Document(Program):
    def test_its_programs(self):
        """docs/interpreters.md, its part on interpreters of others."""
        page = (pathlib.Path(__file__).parents[2] / "docs/interpreters.md").read_text()
        part = re.search(r"^## Interpreters of others$(.*?)^## ", page, re.M | re.S).group(1)
        programs = re.findall(r"^```python\n(.*?)^```$", part, re.M | re.S)
        said = [self.good(self.outcome_of(program)) for program in programs]
        self.assertEqual(said, ["12500000.0\n", "3 b'abc'\n"])


class Refused(unittest.TestCase):
    @unittest.skipIf(sys.version_info >= (3, 12), "this Python can have interpreters")
    def test_older_pythons_say_why(self):
        from homefree import interpreters

        with self.assertRaisesRegex(RuntimeError, "3.12"):
            interpreters.prepare()


if __name__ == "__main__":
    unittest.main()
