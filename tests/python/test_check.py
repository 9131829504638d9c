"""homefree.check: what a watch tells of a real module in both directions, what is the interpreter's
and what is NumPy's, what the assertions say when they fail, and wrong arguments.
"""

import os
import sys

import support

MODULE = os.path.abspath(sys.argv.pop())
PRELUDE = f"""{support.PRELUDE}
from homefree import check
module = ctypes.CDLL({MODULE!r})
make = function(module, "module_make", pointer, ctypes.c_size_t)
copy = function(module, "module_copy", pointer, ctypes.c_char_p)
drop = function(module, "module_drop", None, pointer)
strdup = function(ctypes.CDLL(None), "strdup", pointer, ctypes.c_char_p)
def raises(kind, text, what):
    try:
        what()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError("nothing was raised")
def fails(text, what):
    raises(AssertionError, text, what)
"""


class Check(support.TestCase):
    def fine(self, code, *flags, prelude=PRELUDE, **environment):
        super().fine(code, *flags, prelude=prelude, **environment)

    def test_crossings_both_ways(self):
        self.fine(
            """
            homefree.install()
            with check.watch() as seen:
                for _ in range(10):
                    raw_free(make(100))
                drop(raw_malloc(50))
                drop(make(10))
            assert seen.crossed("module_first", "python") == 10, seen.crossings
            assert seen.crossed("python", "module_first") == 1, seen.crossings
            assert seen.crossed() == 11 == seen.crossed(allocated_by="o")
            assert seen.crossed("module_second") == 0
            (there,) = [c for c in seen.crossings if "module_first" in c.allocated_by]
            assert (there.count, there.bytes) == (10, 1000) and there.allocated_by[0] == "/"
            assert seen.dropped == 0 and seen.allocations >= 12 and seen.frees >= 12
            """
        )

    def test_foreign_memory(self):
        self.fine(
            """
            with check.watch() as seen:
                drop(strdup(b"text"))
            assert seen.crossed("libc.so", "module_first") == 1, seen.crossings
            """
        )

    def test_a_named_call_fails(self):
        self.fine(
            """
            with check.fail_at(2) as failing:
                blocks = [make(10), make(10), make(10)]
                assert (failing.calls, failing.failed) == (3, 1)
            assert [block is None for block in blocks] == [False, True, False], blocks
            assert (failing.calls, failing.failed) == (3, 1)
            assert make(10) is not None
            with check.fail_at(0) as counting:
                drop(make(10))
            assert (counting.calls, counting.failed) == (1, 0)
            """
        )

    @support.without_gil
    def test_python_raises_memory_error(self):
        self.fine(
            """
            homefree.install(python="full")
            with check.fail_at(1):
                try:
                    bytes(10_000)
                    raise SystemExit("nothing was raised")
                except MemoryError:
                    pass
            bytes(10_000)
            """
        )

    @support.without_gil
    def test_each_failure(self):
        self.fine(
            """
            homefree.install(python="full")
            runs = ended = 0
            for failing in check.each_failure():
                runs += 1
                with failing:
                    [bytes(1000) for _ in range(3)]
                    ended += 1
            assert runs >= 4 and ended >= 1 and failing.failed == 0, (runs, ended)
            def another():
                for failing in check.each_failure():
                    with failing:
                        bytes(10_000)
                        raise KeyError("mine")
            raises(KeyError, "mine", another)
            assert make(10) is not None
            """
        )

    def test_failing_in_one_thread_or_all(self):
        self.fine(
            """
            made = []
            with check.fail_at(1) as failing:
                joined(started(1, lambda: made.append(make(10))))
            assert None not in made and failing.calls == 0
            with check.fail_at(1, process=True) as failing:
                joined(started(1, lambda: made.append(make(10))))
            assert made[1] is None and failing.failed == 1
            """
        )

    def test_failing_wrongly(self):
        self.fine(
            """
            raises(TypeError, "must be the number", lambda: check.fail_at("1"))
            raises(TypeError, "must be the number", lambda: check.fail_at(True))
            raises(ValueError, "not -1", lambda: check.fail_at(-1))
            raises(ValueError, "18446744073709551616", lambda: check.fail_at(1 << 64))
            failing = check.fail_at(0)
            assert failing.calls == 0
            with failing:
                raises(RuntimeError, "entered before", failing.__enter__)
            raises(RuntimeError, "entered before", failing.__enter__)
            raises(RuntimeError, "with failing", lambda: list(check.each_failure()))
            """
        )

    def test_freed_by(self):
        self.fine(
            """
            block = make(10)
            with check.assert_freed_by(block, "module_first"):
                drop(block)
            other = make(10)
            def wrong():
                with check.assert_freed_by(other, "python"):
                    drop(other)
            fails("module_first", wrong)
            left = make(10)
            def never():
                with check.assert_freed_by(left, None):
                    pass
            fails("never freed", never)
            raises(TypeError, "must be a str or None", lambda: check.assert_freed_by(left, 1))
            """
        )

    def test_left(self):
        self.fine(
            """
            with check.watch() as seen:
                block = make(10)
                text = copy(b"text")
                (left,) = [one for one in seen.left if "module_first" in one.allocated_by]
                assert (left.count, left.bytes) == (2, 15), left
                drop(block)
            (left,) = [one for one in seen.left if "module_first" in one.allocated_by]
            assert (left.count, left.bytes) == (1, 5), left
            raises(RuntimeError, "nothing was recorded yet", lambda: check.watch().left)
            with check.assert_balanced("module_first") as seen:
                drop(make(10))
            assert seen.allocations >= 1
            def wrong():
                with check.assert_balanced("module_first"):
                    make(10)
            fails("1 (10 bytes) allocated by", wrong)
            def full():
                with check.assert_balanced("nobody", room=1):
                    for _ in range(10): make(10)
            fails("whether anything is left is unknown", full)
            raises(TypeError, "must be a str or None", lambda: check.assert_balanced(1))
            """
        )

    def test_ends_with_the_block(self):
        self.fine(
            """
            homefree.install()
            with check.watch() as seen:
                pass
            before = seen.allocations  # CPython 3.14 allocates when a block is entered and left
            raw_free(make(100))
            assert seen.crossings == [] and seen.allocations == before
            """
        )

    def test_other_threads(self):
        self.fine(
            """
            homefree.install()
            with check.watch() as seen:
                joined(started(8, lambda: raw_free(make(10))))
            assert seen.crossed("module_first", "python") == 8, seen.crossings
            """
        )

    def test_the_interpreter_is_one_side(self):
        for mode in support.MODES:
            with self.subTest(mode=mode):
                self.fine(
                    f"""
                    homefree.install({mode!r})
                    import json, re
                    with check.assert_no_crossing():
                        for i in range(200):
                            json.loads(json.dumps({{str(i): [i] * 100}}))
                            re.compile("a" * i).match("a" * i)
                    """
                )

    def test_numpy(self):
        self.fine(
            """
            try:
                import numpy
            except ImportError:
                numpy = None
            installed = homefree.install()
            if numpy is not None and installed.numpy != "too old":
                with check.assert_no_crossing() as seen:
                    for size in (10, 1000, 1 << 20):
                        array = numpy.zeros(size)
                        address = array.ctypes.data
                        del array
                        assert seen.freed(address) >= 1
                with check.watch() as seen:
                    array = numpy.empty(5000)
                    kept = array.ctypes.data
                    check.assert_owner(kept, "heap")
                    drop(make(1))
                assert seen.freed(kept) == 0
            """
        )

    def test_freed_once(self):
        self.fine(
            """
            homefree.install()
            block = make(100)
            with check.assert_freed_once(block) as seen:
                drop(block)
                drop(make(100))
            assert seen.freed(block) >= 1
            block = make(100)
            def keep():
                with check.assert_freed_once(block):
                    pass
            fails(f"{block:#x}, heap (homefree in ", keep)
            fails(", was never freed; expected once", keep)
            drop(block)
            fails("no live block begins at", keep)
            def wrong():
                with check.assert_freed_once("block"):
                    pass
            raises(TypeError, "an address must be an int, not str", wrong)
            def negative():
                with check.assert_freed_once(-1):
                    pass
            raises(ValueError, "-1 is not an address", negative)
            """
        )

    def test_no_crossing(self):
        self.fine(
            """
            homefree.install()
            def cross():
                with check.assert_no_crossing():
                    raw_free(make(100))
            fails("1 blocks crossed a boundary; expected none:", cross)
            fails("module_first", cross)
            def other():
                with check.assert_no_crossing():
                    raise KeyError("mine")
            raises(KeyError, "mine", other)
            """
        )

    def test_owner(self):
        self.fine(
            """
            block = make(100)
            check.assert_owner(block, "heap")
            fails(", expected libc", lambda: check.assert_owner(block, "libc"))
            fails(" belongs to heap (homefree in ", lambda: check.assert_owner(block, "libc"))
            raises(ValueError, "'mine' is not a kind", lambda: check.assert_owner(block, "mine"))
            raises(ValueError, "is not an address", lambda: check.assert_owner(-1, "heap"))
            """
        )

    def test_no_room(self):
        self.fine(
            """
            blocks = []
            with check.watch(room=2) as seen:
                blocks = [make(10) for _ in range(10)]
            assert seen.dropped == 8
            def short():
                with check.assert_no_crossing(room=2):
                    for block in blocks:
                        drop(block)
            fails("8 calls were not recorded", short)
            """
        )

    def test_wrong_use(self):
        self.fine(
            """
            seen = check.watch()
            raises(RuntimeError, "nothing was recorded yet", lambda: seen.crossings)
            with seen:
                pass
            raises(RuntimeError, "entered before", seen.__enter__)
            raises(TypeError, "not 'many'", lambda: check.watch("many"))
            raises(ValueError, "not -1", lambda: check.watch(-1))
            raises(ValueError, "-1 is not an address", lambda: seen.freed(-1))
            raises(TypeError, "pass its id()", lambda: seen.freed(object()))
            watches = [check.watch(1).__enter__() for _ in range(16)]
            raises(RuntimeError, "16 watches are open", check.watch().__enter__)
            del watches
            with check.watch():
                pass
            """
        )

    def test_fork(self):
        self.fine(
            """
            import os
            homefree.install()
            with check.watch() as seen:
                raw_free(make(10))
                child = os.fork()
                if child == 0:
                    raw_free(make(10))
                    os._exit(seen.crossed("module_first", "python"))
                _, status = os.waitpid(child, 0)
            assert os.WEXITSTATUS(status) == 2
            assert seen.crossed("module_first", "python") == 1
            """
        )

    def test_is_imported_when_asked_for(self):
        self.fine(
            """
            import sys
            assert "homefree.check" not in sys.modules
            """,
            prelude="import homefree\n",
        )


if __name__ == "__main__":
    support.main()
