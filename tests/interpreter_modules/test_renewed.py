"""Private copies of an Executor's interpreters: the next interpreters take them over as new, the
process keeps no others, and what the ended interpreters had is given back.

usage: test_renewed.py OWN-MODULES-DIRECTORY [--wheels DIRECTORY] [unittest's arguments]
"""

import os
import pathlib
import sys
import unittest

import numpys
import support

MODULES = pathlib.Path(sys.argv.pop(1)).resolve()
NUMPYS = numpys.take()

HEAD = """
import os, sys, threading
import homefree
from homefree.interpreters import Executor, leaks

def copies():
    with open("/proc/self/maps") as maps:
        names = [line.split()[5] for line in maps if ".homefree-" in line]
    return len(set(names))

def anonymous():
    homefree.trim()
    with open("/proc/self/smaps_rollup") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))

def cycle(function, count=1):
    with Executor(count) as executor:
        return [future.result() for future in [executor.submit(function) for _ in range(count)]]
"""


@unittest.skipIf(sys.version_info < (3, 12), "before 3.12, all interpreters share one GIL")
class Renewed(support.ProgramTest):
    seconds = 300

    def fine(self, definitions, code, site=MODULES):
        self.head = f"{HEAD}\n{definitions}"
        path = f"{site}:{os.environ['PYTHONPATH']}"
        return super().fine(code, "-W", "ignore", PYTHONPATH=path)

    def test_copies_are_as_new(self):
        """Data, zeros, thread-local variables and what constructors make; also with two
        interpreters at a time, whose copies are different ones, and where the loader has changed
        what can be written."""
        self.fine(
            "def use():\n    import renewed, renewed_open\n"
            "    return renewed.new() or renewed_open.new()\n",
            """
assert cycle(use) == [""]
before = copies()
for _ in range(5):
    old = cycle(use)
    assert old == [""], old
assert copies() == before, (copies(), before)
for _ in range(3):
    assert cycle(use, 2) == ["", ""]
assert copies() <= 2 * before, (copies(), before)
""",
        )

    def test_libraries_that_call_python(self):
        """A set of copies is taken over as a whole, with the library that its modules share."""
        self.fine(
            "def use():\n    import user_a, user_b\n"
            "    return user_a.next() is user_b.next() and len(user_a.next())\n",
            """
first = cycle(use)
before = copies()
for _ in range(5):
    again = cycle(use)
    assert again == first, (first, again)
assert copies() == before, (copies(), before)
""",
        )

    def test_what_a_module_for_all_has_taken_over_stays(self):
        self.fine(
            "def use():\n    import taker\n    return taker.keep()\n"
            "def fill():\n    return len([bytes(2000) for _ in range(5000)])\n",
            """
import taker
for _ in range(3):
    assert cycle(use, 2) == [1, 1]
    cycle(fill, 2)
assert taker.drop() == 12
""",
        )

    def test_modules_for_all_that_have_taken_nothing(self):
        self.fine(
            "def use():\n    import giver\n    return giver.keep() and giver.drop()\n",
            """
for _ in range(3):
    assert cycle(use) == [2]
assert leaks() == [], leaks()
""",
        )

    def test_a_module_for_all_whose_file_was_replaced(self):
        """By a new version, say, while it is in use."""
        self.fine(
            "import shutil\n"
            "def use():\n    import giver\n    return giver.keep() and giver.drop()\n",
            """
import giver, tempfile
with tempfile.TemporaryDirectory() as directory:
    path = shutil.copy(giver.__file__, directory)
    sys.path.insert(0, directory)
    with Executor(1) as executor:
        assert executor.submit(use).result() == 2
        shutil.copy(giver.__file__.replace("giver", "hoarder"), f"{path}.new")
        os.rename(f"{path}.new", path)
    assert [(row.file, "not known" in row.why) for row in leaks()] == [(path, True)], leaks()
""",
        )

    def test_keys_objects_and_threads_that_are_over(self):
        """The next interpreter has the same copy, and nothing of what the last one made. What
        CPython was to call at its end is called before, and takes no more of its room."""
        self.fine(
            "def use():\n    import outgoing, outgoing_cc\n"
            "    assert outgoing_cc.use() == 2\n"
            "    return outgoing.use(), outgoing.visit(), outgoing.leave()\n",
            """
wanted = [("", True, True)]
assert cycle(use) == wanted
before = copies()
for _ in range(8):
    found = cycle(use)
    assert found == wanted, found
assert copies() == before, (copies(), before)
assert leaks() == [], leaks()
for _ in range(2):
    assert cycle(use, 2) == wanted * 2
assert copies() <= 2 * before, (copies(), before)
""",
        )

    def test_a_thread_of_the_host(self):
        """It keeps its thread-local data from session to session, but not from one interpreter to
        the next, which has the same copy."""
        self.fine(
            "import ctypes\n"
            "library = ctypes.CDLL(f'{homefree.get_library_dir()}/libhomefree.so.1')\n"
            "def session(group, source):\n"
            "    session = ctypes.c_void_p()\n"
            "    assert library.hf_session_begin(ctypes.byref(session), group, 0, -1) == 0\n"
            "    assert library.hf_session_run(session, source, None) == 0, source\n"
            "    library.hf_session_end(session)\n",
            """
for _ in range(3):
    group = ctypes.c_void_p()
    assert library.hf_interpreters_start(
        ctypes.byref(group), (ctypes.c_size_t * 2)(16, 1), None, ctypes.c_size_t(0)
    ) == 0
    for number in range(1, 4):
        session(group, f"import outgoing; assert outgoing.count_up() == {number}".encode())
    assert library.hf_interpreters_end(group, 5000) == 0
assert copies() == 1, copies()
""",
        )

    def test_what_stays_is_named(self):
        self.fine(
            "def stay():\n    import outgoing\n    return outgoing.stay()\n"
            "def stay_python():\n    import outgoing\n    return outgoing.stay_python()\n"
            "def early():\n    import outgoing_early\n    return outgoing_early.use()\n"
            "def take():\n    import taker\n    return taker.keep()\n",
            """
assert cycle(stay) + cycle(early) + cycle(take) == [True, "", 1]
assert cycle(stay_python) == [True]
found = {os.path.basename(row.file): row for row in leaks()}
assert len(found) == 3, found
for name, word, count in (("outgoing", "threads", 2), ("outgoing_early", "keys", 1),
                          ("taker", "has memory", 1)):
    row = found[name + ".so"]
    assert word in row.why and row.interpreters == count, row
    # CPython 3.14 gives arenas back itself if all of them are empty.
    assert row.cycle > 1_000_000 or sys.version_info >= (3, 14), row
""",
        )

    @unittest.skipUnless(NUMPYS, "no NumPy for this CPython")
    def test_growth_with_numpy(self):
        """At most 0.1 MB in each cycle after the first ones; it was 16 MB."""
        self.fine(
            "def use():\n    import numpy\n"
            "    assert numpy.linalg.inv(numpy.eye(3) * 2)[0, 0] == 0.5\n"
            "    return float(numpy.random.default_rng(1).standard_normal(1000).sum())\n",
            """
first = cycle(use)
cycle(use)
before, mapped = anonymous(), copies()
for _ in range(20):
    assert cycle(use) == first
grown = (anonymous() - before) / 20
assert grown <= 100, f"{grown} KiB a cycle"
assert copies() == mapped, (copies(), mapped)
""",
            site=NUMPYS[0].parent,
        )


if __name__ == "__main__":
    unittest.main(verbosity=0)
