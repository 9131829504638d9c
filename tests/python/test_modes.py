"""install() in each mode, under each of CPython's own allocators: what comes from the heap then,
that nothing from before is lost, and that CPython's wrappers keep seeing every block.
"""

import sys

import support

ALLOCATORS = ("", "malloc", "pymalloc", "debug", "malloc_debug", "pymalloc_debug")

EVERY_DOMAIN = """
before = [(raw_malloc(n), mem_malloc(n), object_malloc(n)) for n in (0, 1, 40, 512, 513, 100000)]
lists = [[i] * (i % 90) for i in range(5000)]
state = homefree.install({mode!r})
assert state.python == {mode!r}, state
assert homefree.install({mode!r}) == state
assert homefree.install("off").python == {mode!r}
after = [(raw_malloc(n), mem_malloc(n), object_malloc(n)) for n in (0, 1, 40, 512, 513, 100000)]
raw = [kind(a[0]) for a in after]
small = {{kind(a[i]) for a in after[1:3] for i in (1, 2)}}
large = {{kind(a[i]) for a in after[4:] for i in (1, 2)}}
assert set(raw) == {{{raw!r}}}, raw
assert small <= {small!r}, small
assert large == {{{large!r}}}, large
for blocks in before + after:
    grown = raw_realloc(blocks[0], 3000), mem_realloc(blocks[1], 3000)
    raw_free(raw_realloc(grown[0], 1))
    mem_free(mem_realloc(grown[1], 0))
    object_free(blocks[2])
for i in lists:
    i.extend(range(200))
del lists, before, after
assert churn() == 80000
"""


@support.without_gil
class Modes(support.TestCase):
    def test_arena(self):
        for allocator in ("", "pymalloc", "debug", "pymalloc_debug"):
            with self.subTest(allocator=allocator):
                self.fine(
                    EVERY_DOMAIN.format(mode="arena", raw="heap", small={"pymalloc"}, large="heap"),
                    PYTHONMALLOC=allocator,
                )

    def test_arena_without_pymalloc(self):
        for allocator in ("malloc", "malloc_debug"):
            with self.subTest(allocator=allocator):
                self.fine(
                    """
                    homefree.install()
                    assert kind(raw_malloc(10)) == "heap"
                    assert kind(object_malloc(10)) not in ("heap", "pymalloc")
                    assert churn() == 80000
                    """,
                    PYTHONMALLOC=allocator,
                )

    def test_full(self):
        for allocator in ALLOCATORS:
            with self.subTest(allocator=allocator):
                self.fine(
                    EVERY_DOMAIN.format(mode="full", raw="heap", small={"heap"}, large="heap"),
                    PYTHONMALLOC=allocator,
                )

    def test_off(self):
        self.fine(
            """
            assert homefree.install("off").python == "off"
            assert kind(raw_malloc(10)) != "heap" and churn() == 80000
            """
        )

    def test_upgrade(self):
        for allocator in ("", "debug"):
            with self.subTest(allocator=allocator):
                self.fine(
                    """
                    homefree.install()
                    keep = [(str(i), [i] * (i % 60)) for i in range(200000)]
                    assert kind(id(keep[-1])) == "pymalloc"
                    assert homefree.install("full").python == "full"
                    assert homefree.install("arena").python == "full"
                    assert kind(object_malloc(40)) == "heap"
                    for _, numbers in keep:
                        numbers.extend(range(80))
                    del keep, _, numbers
                    assert churn() == 80000
                    """,
                    PYTHONMALLOC=allocator,
                )

    def test_uninstall(self):
        for mode in ("arena", "full"):
            for allocator in ("", "debug"):
                with self.subTest(mode=mode, allocator=allocator):
                    self.fine(
                        f"""
                        homefree.uninstall()
                        homefree.install({mode!r})
                        raw, small = raw_malloc(40), [str(i) for i in range(50000)]
                        large = bytearray(100000)
                        homefree.uninstall()
                        homefree.uninstall()
                        used = homefree.stats()["region_used"]
                        assert kind(raw_malloc(40)) != "heap"
                        assert kind(object_malloc(40)) != "heap"
                        more = [str(i) for i in range(200000)]
                        assert homefree.stats()["region_used"] == used
                        raw_free(raw_realloc(raw, 100000))
                        large.extend(large)
                        del small, more, large
                        assert churn() == 80000
                        # Blocks that C frees still go home, from old arenas and new ones.
                        blocks = [object_malloc(300) for _ in range(20000)]
                        for block in blocks:
                            free(block)
                        assert homefree.install({mode!r}).python == {mode!r}
                        assert kind(raw_malloc(40)) == "heap"
                        assert churn() == 80000
                        """,
                        PYTHONMALLOC=allocator,
                    )

    def test_debug_hooks_still_check(self):
        for mode in ("arena", "full"):
            with self.subTest(mode=mode):
                outcome = self.start(
                    f"""
                    homefree.install({mode!r})
                    block = raw_malloc(16)
                    ctypes.memset(block, 0, 17)
                    raw_free(block)
                    """,
                    PYTHONMALLOC="debug",
                )
                self.assertNotEqual(outcome.status, 0)
                self.assertIn("bad trailing pad byte", outcome.err)

    def test_development_mode(self):
        self.fine("homefree.install(); assert churn() == 80000", "-X", "dev")

    def test_tracemalloc(self):
        for mode in ("arena", "full"):
            for start in ("before", "after", "environment"):
                with self.subTest(mode=mode, start=start):
                    self.fine(
                        f"""
                        import tracemalloc
                        if {start!r} == "before":
                            tracemalloc.start()
                        homefree.install({mode!r})
                        if {start!r} == "after":
                            tracemalloc.start()
                        size = tracemalloc.get_traced_memory()[0]
                        block, large = raw_malloc(1 << 20), bytearray(1 << 20)
                        assert kind(block) == "heap" == kind(raw_malloc(1))
                        assert tracemalloc.get_traced_memory()[0] - size > 2 << 20
                        raw_free(block)
                        assert tracemalloc.get_traced_memory()[0] - size < 2 << 20
                        assert churn() == 80000
                        tracemalloc.stop()
                        assert kind(raw_malloc(1)) == "heap"
                        assert homefree.install({mode!r}).python == {mode!r}
                        tracemalloc.start()
                        assert homefree.install({mode!r}).python == {mode!r}
                        del large
                        assert churn() == 80000
                        """,
                        **({"PYTHONTRACEMALLOC": "5"} if start == "environment" else {}),
                    )

    def test_hooked_by_others(self):
        """Another tool's hooks are put over ours and removed again, as memory profilers do."""
        self.fine(
            """
            class Allocator(ctypes.Structure):
                _fields_ = [(n, pointer) for n in ("ctx", "malloc", "calloc", "realloc", "free")]
            get = function(python, "PyMem_GetAllocator", None, ctypes.c_int, pointer)
            set = function(python, "PyMem_SetAllocator", None, ctypes.c_int, pointer)
            stock, ours = Allocator(), Allocator()
            get(0, ctypes.byref(stock))
            homefree.install()
            get(0, ctypes.byref(ours))
            block = raw_malloc(100)
            for _ in range(20):
                set(0, ctypes.byref(stock))
                assert kind(raw_malloc(10)) != "heap"
                raw_free(raw_malloc(10))
                try:
                    homefree.install()
                    assert kind(raw_malloc(10)) == "heap"
                except RuntimeError as error:
                    assert "too often" in str(error)
                    break
            else:
                raise AssertionError("each install() over another tool's hook takes a place")
            set(0, ctypes.byref(ours))
            raw_free(block)
            assert churn() == 80000
            """
        )

    def test_routing_is_needed(self):
        self.fine(
            """
            try:
                homefree.install()
            except RuntimeError as error:
                assert "route:off" in str(error), error
            else:
                raise AssertionError("install() without routing")
            assert kind(raw_malloc(10)) != "heap"
            """,
            HOMEFREE_CONF="route:off",
        )

    def test_bad_arguments(self):
        self.fine(
            """
            for arguments, error in (
                (("half",), ValueError),
                (("",), ValueError),
                (("arena\\0",), ValueError),
                ((1,), TypeError),
                ((None,), TypeError),
                ((b"arena",), TypeError),
                (("arena", True, 1), TypeError),
            ):
                try:
                    homefree.install(*arguments)
                except error as caught:
                    assert str(caught)
                else:
                    raise AssertionError(arguments)
            assert kind(raw_malloc(10)) != "heap"
            """
        )


if __name__ == "__main__":
    sys.exit(support.main())
