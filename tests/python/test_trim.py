"""homefree.trim(): who is asked, in which order, and that nothing that is in use goes."""

import importlib.util
import unittest

import support


def have(*modules):
    return all(importlib.util.find_spec(module) is not None for module in modules)


class Trim(support.TestCase):
    def test_rows(self):
        self.fine(
            """
            for mode in (None, "arena"):
                if mode is not None:
                    homefree.install(mode)
                rows = homefree.trim()
                assert rows[0].allocator == "CPython" and rows[0].how == "gc.collect", rows
                assert [row.allocator for row in rows[-2:]] == ["homefree", "libc"], rows
                assert rows[-1].how == "malloc_trim" and rows[-1].object is None, rows
                for row in rows:
                    assert isinstance(row, homefree.Trimmed)
                    assert row.before > 1 << 20 and row.after > 1 << 20, row
            """
        )

    def test_imports_nothing_more(self):
        """The child of a fork may wait for ever for a module that its parent was importing."""
        self.fine(
            """
            homefree.trim()
            own = {name for name in sys.modules if name.partition(".")[0] == "homefree"}
            new = set(sys.modules) - BEFORE - own - set(sys.builtin_module_names)
            assert not new, new
            """,
            prelude="import sys; import homefree; BEFORE = set(sys.modules)\n",
        )

    def test_what_libc_has_goes(self):
        self.fine(
            """
            def resident():
                return int(open("/proc/self/statm").read().split()[1]) * 4096
            libc = ctypes.CDLL(None)
            malloc = function(libc, "malloc", pointer, size_t)
            free = function(libc, "free", None, pointer)
            blocks = [malloc(4000) for _ in range(16384)]
            for block in blocks:
                ctypes.memset(block, 1, 4000)
            for block in blocks[:-1]:
                free(block)
            before = resident()
            homefree.trim()
            assert resident() < before - (32 << 20), (before, resident())
            free(blocks[-1])
            """
        )

    def test_what_is_in_use_stays(self):
        self.fine(
            """
            homefree.install()
            stop = threading.Event()
            wrong = []
            def work(number):
                while not stop.is_set():
                    kept = [bytes([number]) * size for size in range(1, 4000, 7)]
                    if any(value.count(number) != len(value) for value in kept):
                        wrong.append(number)
            threads = started(2, lambda: work(7))
            for _ in range(100):
                homefree.trim()
            stop.set()
            joined(threads)
            assert not wrong
            """
        )

    def test_in_a_forked_child(self):
        self.fine(
            """
            homefree.install()
            kept = [bytes(size) for size in range(1, 4000, 7)]
            child = os.fork()
            if child == 0:
                homefree.trim()
                os._exit(len(homefree.trim()) < 3)
            assert os.waitpid(child, 0)[1] == 0
            assert sum(map(len, kept)) == sum(range(1, 4000, 7))
            """
        )

    def test_modules_that_are_not_whole(self):
        self.fine(
            """
            import types
            pyarrow, torch = types.ModuleType("pyarrow"), types.ModuleType("torch")
            sys.modules.update(pyarrow=pyarrow, torch=torch)
            assert len(homefree.trim()) >= 3
            pyarrow.supported_memory_backends = lambda: ["system"]
            pyarrow.system_memory_pool = lambda: object()
            torch.cuda = types.ModuleType("torch.cuda")
            assert len(homefree.trim()) >= 3
            torch.cuda.is_initialized = lambda: True
            torch.cuda.empty_cache = lambda: None
            assert not any(row.allocator == "pyarrow" for row in homefree.trim())
            """
        )

    def test_without_a_descriptor(self):
        self.fine(
            """
            import resource
            homefree.trim()  # imports what it needs
            before = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
            rows = homefree.trim()
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            assert [(row.before, row.after) for row in rows] == [(0, 0)] * len(rows), rows
            """
        )

    @unittest.skipUnless(have("numpy", "pyarrow", "polars"), "pyarrow or polars is not installed")
    def test_caches_of_modules(self):
        self.fine(
            """
            import polars, pyarrow
            kept = pyarrow.array(range(1000))
            values = pyarrow.table({"x": list(range(1_000_000))}).sort_by("x")
            frame = polars.from_arrow(values).sort("x")
            total = int(frame["x"].sum())
            del values, frame
            rows = homefree.trim()
            names = [row.allocator for row in rows]
            first = {name: names.index(name) for name in set(names)}
            assert first["CPython"] < first["pyarrow"] < first["jemalloc"] < first["homefree"]
            assert any(row.allocator == "jemalloc" and "polars" in row.object for row in rows), rows
            assert all(row.how for row in rows if row.allocator in ("jemalloc", "mimalloc")), rows
            assert kept[999].as_py() == 999 and total == 499999500000
            pool = pyarrow.jemalloc_memory_pool()
            kept = pyarrow.array(range(1_000_000), memory_pool=pool)
            (told,) = (
                row
                for row in homefree.memory()["rows"]
                if row["allocator"] == "jemalloc" and "arrow" in row["object"]
            )
            assert 8_000_000 <= told["live"] < 2 * pool.bytes_allocated() + (4 << 20), told
            """
        )


if __name__ == "__main__":
    support.main()
