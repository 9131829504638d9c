"""homefree.limit(): MemoryError, warnings and callbacks of a module with the shim, also in threads
that do not hold the GIL, and in a forked child; and pyarrow, adopted."""

import sys
import unittest

import support

TAKER = sys.argv.pop(1)
MIB = 1 << 20
INSIDE = f"""
import warnings
MIB = {MIB}
held, bare = ctypes.PyDLL({TAKER!r}), ctypes.CDLL({TAKER!r})
take = function(held, "taker_take", ctypes.py_object, size_t)
malloc_bare = function(bare, "taker_malloc", pointer, size_t)
free_bare = function(bare, "taker_free", None, pointer)
def refused(size):
    try:
        take(size)
    except MemoryError:
        return True
    return False
"""


class Limit(support.TestCase):
    def inside(self, code, *flags, **environment):
        self.fine(code, *flags, prelude=support.PRELUDE + INSIDE, **environment)

    def test_dropped_while_others_are_told(self):
        """The main thread calls back between two instructions, for what another one drops."""
        self.inside(
            f"""
            warnings.simplefilter("ignore")
            def work():
                for _ in range(300):
                    limit = homefree.limit({TAKER!r}, 1000, on="warn", callback=len)
                    assert malloc_bare(5000) is not None
                    limit.close()
            thread = threading.Thread(target=work)
            threading.excepthook = lambda arguments: None  # len() of it raises
            thread.start()
            while thread.is_alive():
                for row in homefree._homefree.limits():
                    assert row[0] in (b"", {TAKER!r}.encode()), row
            """
        )

    def test_memory_error_and_on(self):
        self.inside(
            f"""
            with homefree.limit({TAKER!r}, "1M") as limit:
                assert homefree.limits() == [limit] and limit.on == "raise"
                assert (limit.limit, limit.used, limit.refused, limit.objects) == (MIB, 0, 0, 1)
                kept = [take(1000) for _ in range(100)]
                assert 100 * 1000 <= limit.used <= 100 * 1152 + 4096, limit.used
                assert refused(MIB) and refused(2 * MIB) and not refused(MIB // 2)
                assert limit.refused == 2 and limit.peak > MIB // 2
                limit.limit = 3 * MIB
                assert not refused(2 * MIB)
                limit.limit = 0
                assert refused(1)
                limit.limit = "unlimited"
                assert limit.limit is None and not refused(10 * MIB)
                del kept
                assert limit.used <= 4096
                text = repr(limit)
            assert "homefree.Limit" in text and homefree.limits() == []
            assert limit.refused == 3 and "closed" in repr(limit)
            limit.close()
            try:
                limit.limit = 1
            except ValueError:
                pass
            else:
                raise AssertionError
            assert not refused(20 * MIB)
            """
        )

    def test_what_is_wrong_is_told(self):
        self.inside(
            f"""
            import json
            def why(*arguments, **more):
                try:
                    homefree.limit(*arguments, **more)
                except (RuntimeError, ValueError, TypeError) as error:
                    return str(error)
            assert "import it first" in why("no_such_library", 1)
            assert "import it first" in why("/no/such/object.so", 1)
            assert "adopt it before" in why("_ctypes", 1), why("_ctypes", 1)
            assert "size" in why({TAKER!r}, "2X") and "negative" in why({TAKER!r}, -1)
            assert '"raise", "warn" or "trim"' in why({TAKER!r}, 1, on="die")
            assert "function" in why({TAKER!r}, 1, callback=3)
            assert "NaN" in why({TAKER!r}, float("nan"))
            assert "not list" in why({TAKER!r}, [1]), why({TAKER!r}, [1])
            for most in (float("inf"), 1 << 70, "9" * 400):
                with homefree.limit({TAKER!r}, most) as limit:
                    assert limit.limit is None
            first = homefree.limit({TAKER!r}, 10)
            assert "close() that first" in why({TAKER!r}, 1)
            first.close()
            assert homefree.limit({TAKER!r}, "1.5 GiB").limit == 3 << 29
            """
        )

    def test_a_callback_comes_afterwards(self):
        """By the main thread, once for each time that the limit is reached."""
        self.inside(
            f"""
            calls = []
            def note(limit):
                calls.append((threading.current_thread(), limit.refused, refused(5 * MIB)))
            limit = homefree.limit({TAKER!r}, MIB, callback=note)
            assert refused(2 * MIB) and refused(3 * MIB)
            for _ in range(100):
                pass
            assert calls == [(threading.main_thread(), 1, True)] or len(calls) == 1, calls
            half = take(MIB // 2)
            del half
            worker = threading.Thread(target=malloc_bare, args=(2 * MIB,))
            worker.start(); worker.join()
            for _ in range(100):
                pass
            assert [call[0] for call in calls] == 2 * [threading.main_thread()], calls
            """
        )

    def test_a_warning(self):
        self.inside(
            f"""
            calls = []
            limit = homefree.limit({TAKER!r}, MIB, on="warn", callback=calls.append)
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                kept = [take(MIB) for _ in range(5)]
                for _ in range(100):
                    pass
            assert calls == [limit] and limit.refused == 0 and limit.used >= 5 * MIB
            assert len(seen) == 1 and seen[0].category is RuntimeWarning, seen
            assert "above its limit of 1048576" in str(seen[0].message)
            assert seen[0].filename == "<string>", seen[0].filename
            """
        )

    def test_a_callback_makes_room(self):
        """In the call that allocates, with the GIL; by another thread, without it."""
        self.inside(
            f"""
            calls, cache = [], []
            def drop(limit):
                calls.append(threading.current_thread().name)
                cache.clear()
            limit = homefree.limit({TAKER!r}, MIB, on="trim", callback=drop)
            cache.append(take(3 * MIB // 4))
            kept = take(MIB // 2)
            assert calls == ["MainThread"], calls
            assert refused(2 * MIB)
            del kept
            # Without a GIL, what this thread has made it would have to free itself, after the wait.
            other = threading.Thread(target=lambda: cache.append(take(3 * MIB // 4)))
            other.start(); other.join()
            block = malloc_bare(MIB // 2)
            assert block and calls[1] in ("MainThread", "homefree limit"), calls
            free_bare(block)
            assert limit.used <= 4096, limit.used
            limit.close()
            """
        )

    def test_an_exception_of_a_callback(self):
        self.inside(
            f"""
            seen = []
            threading.excepthook = seen.append
            def wrong(limit):
                raise LookupError("mine")
            for on in ("raise", "trim"):
                with homefree.limit({TAKER!r}, MIB, on=on, callback=wrong):
                    assert refused(2 * MIB)
                    for _ in range(100):
                        pass
            assert [each.exc_type for each in seen] == 2 * [LookupError]
            """
        )

    def test_exit_in_a_callback(self):
        """It ends neither the thread that allocates nor the limit's own."""
        self.inside(
            f"""
            calls = []
            def leave(limit):
                calls.append(threading.current_thread().name)
                raise SystemExit
            limit = homefree.limit({TAKER!r}, MIB, on="trim", callback=leave)
            for turn in range(3):
                for try_it in (lambda: malloc_bare(2 * MIB) is None, lambda: refused(2 * MIB)):
                    assert try_it()
                    kept = take(MIB // 2)
                    del kept
            assert len(calls) == 6, calls
            """
        )

    def test_who_reads_while_another_closes(self):
        self.inside(
            f"""
            shared, errors, stop = [homefree.limit({TAKER!r}, MIB)], [], False
            def look():
                while not stop:
                    try:
                        limit = shared[0]
                        repr(limit)
                        assert (limit.limit, limit.refused) == (MIB, 0), limit
                    except Exception as error:
                        errors.append(error)
            threads = [threading.Thread(target=look) for _ in range(4)]
            sys.setswitchinterval(1e-6)
            for thread in threads: thread.start()
            for _ in range(300):
                take(100)
                shared[0].close()
                shared[0] = homefree.limit({TAKER!r}, MIB)
            stop = True
            for thread in threads: thread.join()
            assert not errors, errors
            """
        )

    def test_no_thread_no_limit(self):
        """A limit that cannot have its thread is none."""
        self.inside(
            f"""
            def fail(*unused, **more):
                raise RuntimeError("can't start new thread")
            start, threading.Thread.start = threading.Thread.start, fail
            try:
                homefree.limit({TAKER!r}, MIB, on="trim")
            except RuntimeError as error:
                assert "new thread" in str(error)
            else:
                raise AssertionError
            threading.Thread.start = start
            assert homefree.limits() == [] and not refused(2 * MIB)
            homefree.limit({TAKER!r}, MIB, on="trim").close()
            """
        )

    def test_a_subinterpreter(self):
        """Has limits, but no callbacks: the main interpreter would call them."""
        self.inside(
            f"""
            try:
                import _interpreters as interpreters
            except ImportError:
                import _xxsubinterpreters as interpreters
            code = '''if True:
                import homefree
                for more in ({{"callback": print}}, {{"on": "warn"}}, {{"on": "trim"}}):
                    try:
                        homefree.limit({TAKER!r}, 1 << 20, **more)
                    except RuntimeError as error:
                        assert "main interpreter" in str(error), error
                    else:
                        raise AssertionError
                assert homefree.limits() == []
                limit = homefree.limit({TAKER!r}, 1 << 20)
            '''
            made = interpreters.create()
            assert interpreters.run_string(made, code) is None
            assert refused(2 * MIB)
            interpreters.destroy(made)
            assert not refused(2 * MIB)
            """
        )

    def test_a_forked_child(self):
        self.inside(
            f"""
            calls = []
            limit = homefree.limit({TAKER!r}, MIB, on="trim", callback=calls.append)
            kept = take(MIB // 2)
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    assert limit.used >= MIB // 2 and refused(MIB)
                    assert malloc_bare(3 * MIB) is None and calls, calls
                    limit.close()
                    assert not refused(3 * MIB)
                    status = 0
                finally:
                    os._exit(status)
            assert os.waitpid(child, 0)[1] == 0
            assert refused(MIB) and calls
            """
        )

    def test_ten_threads(self):
        self.inside(
            f"""
            limit = homefree.limit({TAKER!r}, MIB)
            counts = []
            def work():
                kept, errors = [], 0
                for i in range(300):
                    try:
                        kept.append(take(700 * (i % 20)))
                    except MemoryError:
                        errors += 1
                        kept.clear()
                counts.append(errors)
            threads = [threading.Thread(target=work) for _ in range(10)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            assert sum(counts) == limit.refused > 0, (counts, limit)
            assert limit.peak <= MIB and limit.used <= 4096, limit
            """
        )

    def test_memory_and_metrics(self):
        self.inside(
            f"""
            import io
            with homefree.limit({TAKER!r}, "64M"):
                kept = take(MIB)
                file = io.StringIO()
                (row,) = homefree.memory(file)["limits"]
                assert row["limit"] == 64 * MIB and row["used"] >= MIB and row["refused"] == 0
                assert row["name"] == {TAKER!r}
                assert "Limits" in file.getvalue() and "64.0 MiB" in file.getvalue()
                text = homefree.openmetrics()
                assert 'homefree_limit_bytes{{name="taker.so"}} 67108864' in text
                assert "homefree_limit_used_bytes" in text
            assert homefree.memory()["limits"] == []
            """
        )

    @unittest.skipIf(support.FREE_THREADED, "its pools are not pyarrow's")
    def test_an_adopted_wheel(self):
        """pyarrow says what std::bad_alloc says, and goes on."""
        outcome = self.start("import importlib.util as u; sys.exit(not u.find_spec('pyarrow'))")
        if outcome.status != 0:
            self.skipTest("there is no pyarrow for this CPython")
        self.inside(
            """
            homefree.import_hook(["pyarrow"], adopt=True)
            import pyarrow
            pool = pyarrow.default_memory_pool()
            with homefree.limit("pyarrow", "64M") as limit:
                assert limit.objects > 1, limit.objects
                kept = pyarrow.allocate_buffer(32 * MIB)
                assert limit.used >= 32 * MIB, (limit, pool.backend_name)
                try:
                    pyarrow.allocate_buffer(48 * MIB)
                except MemoryError:
                    pass
                else:
                    raise AssertionError(f"{limit} {pool.backend_name}")
                assert limit.refused >= 1
                del kept
                pyarrow.allocate_buffer(48 * MIB)
            """
        )

    @unittest.skipIf(support.FREE_THREADED, "its pools are not polars'")
    def test_threads_of_a_wheel_in_rust(self):
        """polars' threads do not hold the GIL; its objects are of another distribution."""
        outcome = self.start("import importlib.util as u; sys.exit(not u.find_spec('polars'))")
        if outcome.status != 0:
            self.skipTest("there is no polars for this CPython")
        self.inside(
            """
            homefree.import_hook(["polars", "_polars_runtime_32"], adopt=True)
            import polars
            values = polars.DataFrame({"a": range(100000)})
            cache = [values.with_columns(b=polars.col("a") * 3)]
            calls = []
            def drop(limit):
                calls.append(threading.current_thread().name)
                cache.clear()
            with homefree.limit("polars", "unlimited") as limit:
                frame = values.with_columns(b=polars.col("a") * 2, c=polars.col("a") % 7)
                assert frame.group_by("c").agg(polars.col("b").sum()).height == 7
                assert limit.used > 1000000, limit
            with homefree.limit("polars", "1M", on="warn") as limit:
                with warnings.catch_warnings(record=True) as seen:
                    warnings.simplefilter("always")
                    frame = frame.with_columns(d=polars.col("b") + polars.col("c"))
                    frame = frame.sort("d").with_columns(e=polars.col("d") * 2)
                    for _ in range(100):
                        pass
                assert [each.category for each in seen] == [RuntimeWarning], seen
                assert limit.refused == 0 and limit.peak > MIB
            """
        )


if __name__ == "__main__":
    support.main()
