"""Each fault of the module `faulty` is found, in the cells where it shows and in no other; its twin
without faults is clean in every host.

usage: test_harness_faults.py COMMAND PACKAGE-DIRECTORY MODULES-DIRECTORY [unittest's arguments]

HOMEFREE_TEST_SECONDS   what a cell may take, for machines that do other things meanwhile; 3
"""

import os
import sys
import unittest

import harness

HOST = "without homefree"
SECONDS = os.environ.get("HOMEFREE_TEST_SECONDS", "3")
# From 3.13 on, the interpreter's end may destroy the module before the capsule that needs it.
MODULE_FIRST = "dies_without_module()", "interpreter exit"
# Of each crossing, what is found under which conditions. All others are ok or skipped.
ABORTED = ("died", "SIGABRT")
CRASHED = ("died", "SIGSEGV")
DAMAGED = ("died", None)
HUNG = ("timed out", None)
LEAKED = ("leaked", None)
# The second free may free a block of somebody else: in a free-threaded CPython one without which it
# waits for the thread for ever.
FREED_TWICE = HUNG if "t" in sys.abiflags else ABORTED
EVERYWHERE = [
    "same thread",
    "other thread",
    "thread ended",
    "forked child",
    "spawned child",
    "subinterpreter",
    "module gone",
    "interpreter exit",
    "atexit",
    "unloading",
]
EXPECTED = {
    "dies_always()": {one: ABORTED for one in EVERYWHERE},
    "dies_in_other_thread()": {"other thread": CRASHED, "thread ended": CRASHED},
    "hangs_in_other_thread()": {"other thread": HUNG, "thread ended": HUNG},
    "dies_in_forked_child()": {"forked child": ABORTED},
    "dies_unpickled()": {"spawned child": CRASHED},
    "dies_in_subinterpreter()": {"subinterpreter": CRASHED},
    "dies_without_module()": {"module gone": CRASHED},
    "dies_at_exit()": {"subinterpreter": CRASHED, "interpreter exit": CRASHED},
    "dies_unloading()": {"unloading": CRASHED},
    "dies_with_thread()": {"thread ended": CRASHED},
    "dangles()": {
        one: DAMAGED for one in EVERYWHERE if one not in ("spawned child", "interpreter exit")
    },
    "borrows(<bytearray>)": {
        one: DAMAGED for one in EVERYWHERE if one not in ("spawned child", "interpreter exit")
    },
    "leaks()": {"same thread": LEAKED, "other thread": LEAKED, "thread ended": LEAKED},
    "address()": {"same thread": ABORTED, "other thread": FREED_TWICE, "thread ended": ABORTED},
}


class Faulty(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.status, cls.document = harness.document(
            "faulty", "--pointers", "--timeout", SECONDS, "-j", "4", "--only", f"* / {HOST}"
        )
        cls.table = harness.results(cls.document)

    def test_each_fault_is_found_where_it_is(self):
        self.assertEqual(self.table.keys(), {f"faulty.{name}" for name in EXPECTED})
        for name, expected in EXPECTED.items():
            cells = self.table[f"faulty.{name}"]
            self.assertEqual(len(cells), len(EVERYWHERE))
            for (_, condition), cell in cells.items():
                with self.subTest(crossing=name, condition=condition):
                    if condition in expected:
                        found = cell["result"], cell["signal"]
                        allowed = {expected[condition]}
                        if expected[condition] == FREED_TWICE:
                            allowed.add(ABORTED)
                        self.assertIn(found, allowed, cell["message"])
                    elif (name, condition) == MODULE_FIRST and sys.version_info >= (3, 13):
                        self.assertIn(cell["result"], ("ok", "died"), cell["message"])
                    else:
                        self.assertIn(cell["result"], ("ok", "skipped"), cell["message"])

    def message(self, name, condition):
        return self.table[f"faulty.{name}()"][HOST, condition]["message"]

    def test_messages_say_when_and_why(self):
        self.assertRegex(
            self.message("dies_always", "same thread"), "^while it was freed: .*double free"
        )
        self.assertEqual(
            self.message("dies_in_forked_child", "forked child"),
            "in the child, while it was freed",
        )
        self.assertEqual(
            self.message("dies_at_exit", "interpreter exit"), "while the process ended"
        )
        self.assertIn(
            "not end while it was freed", self.message("hangs_in_other_thread", "other thread")
        )
        self.assertRegex(
            self.message("leaks", "same thread"), r"^1\d\d bytes stay behind each time"
        )
        self.assertIn("contents", self.message("dangles", "same thread"))
        self.assertIn("cannot be pickled", self.message("leaks", "spawned child"))
        self.assertIn("no deleter in C", self.message("leaks", "unloading"))

    def test_document(self):
        document = self.document
        self.assertEqual(self.status, 1)
        self.assertEqual(document["homefree_test"], 1)
        self.assertEqual(document["module"], "faulty")
        self.assertEqual((document["linked"], document["complete"]), (False, True))
        for cell in document["cells"]:
            names = "crossing kind condition host result signal message allocated freed"
            self.assertEqual(list(cell), names.split())
            self.assertEqual((cell["allocated"], cell["freed"]), (None, None))
            self.assertEqual(cell["message"] is None, cell["result"] == "ok")
        self.assertEqual(document["summary"]["cells"], len(document["cells"]))
        kinds = {cell["crossing"][7:]: cell["kind"] for cell in document["cells"]}
        self.assertEqual(kinds["dies_unloading()"], "dlpack")
        self.assertEqual(kinds["dangles()"], "buffer")
        self.assertEqual(kinds["address()"], "pointer")
        self.assertEqual(kinds["leaks()"], "capsule")
        self.assertEqual(kinds["dies_unpickled()"], "object")


class Linked(unittest.TestCase):
    def test_module_that_brings_homefree(self):
        """It is never without homefree: its own host is called "alone"."""
        status, document = harness.document("linked", "--only", "dies_un* thread / [ah]*")
        self.assertEqual((status, document["linked"]), (0, True))
        hosts = {cell["host"] for cell in document["cells"]}
        self.assertEqual(hosts, {"alone", "homefree first", "homefree late", "hidden allocator"})
        self.assertEqual({cell["result"] for cell in document["cells"]}, {"ok"})


class Sound(unittest.TestCase):
    def test_no_fault_is_found_that_is_none(self):
        status, document = harness.document("sound", "--pointers", "--only", "/ homefree first")
        self.assertEqual(
            [cell for cell in document["cells"] if cell["result"] not in ("ok", "skipped")], []
        )
        self.assertEqual(status, 0)
        self.assertGreater(document["summary"]["ok"], 100)

    def test_beside_other_allocators(self):
        status, document = harness.document(
            "sound", "--pointers", "--only", "s_un* / same thread /"
        )
        found = {cell["host"]: cell["result"] for cell in document["cells"]}
        self.assertEqual(status, 0, document)
        self.assertLessEqual(
            {
                "jemalloc preloaded",
                "mimalloc preloaded",
                "tcmalloc preloaded",
                "hidden allocator",
            },
            found.keys(),
        )


if __name__ == "__main__":
    unittest.main()
