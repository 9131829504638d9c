"""CPython's own blocks under `homefree run`, which installs nothing: C frees, resizes and measures
them as after install(), and its domains are what they are without homefree.
"""

import sys
from textwrap import dedent

import support

# Blocks of every size class and of both domains; the debug hooks need up to 32 bytes of each.
BLOCKS = """
largest = 464 if os.environ.get("PYTHONMALLOC") == "debug" else 512
sizes = [n % largest + 1 for n in range(30000)]
blocks = [(mem_malloc, object_malloc)[n % 2](n) for n in sizes]
"""


class Run(support.TestCase):
    under = (sys.executable, "-m", "homefree", "run", "--")
    allocator = "mimalloc" if support.FREE_THREADED else "pymalloc"

    def fine_in_each_mode(self, code):
        for mode in "", "debug":
            with self.subTest(mode):
                self.fine(BLOCKS + dedent(code), PYTHONMALLOC=mode)

    def test_c_frees_and_measures(self):
        self.fine_in_each_mode(f"""
        assert {{owner_of(block).allocator for block in blocks}} == {{"{self.allocator}"}}
        assert all(usable(block) >= n for n, block in zip(sizes, blocks))
        count = sys.getallocatedblocks()
        for block in blocks:
            free(block)
        assert sys.getallocatedblocks() <= count - 29000
        assert churn() == 80000
        """)

    def test_c_resizes(self):
        self.fine_in_each_mode("""
        for block in [mem_malloc(n % 390 + 1) for n in range(1000)]:
            ctypes.memset(block, 7, 1)
            large = realloc(realloc(block, 400), 5000)
            assert ctypes.string_at(large, 1) == bytes([7])
            mem_free(large)
        assert realloc(mem_malloc(10), 0) is None
        assert churn() == 80000
        """)

    def test_a_thread_that_may_not(self):
        self.dies("free_bare(mem_malloc(99))", "free(0x", self.allocator, "PyMem_RawMalloc")

    def test_children(self):
        self.fine(
            BLOCKS
            + """
if os.fork() == 0:
    for block in blocks:
        free(block)
    os._exit(churn() != 80000)
assert os.wait()[1] == 0
for block in blocks:
    free(block)
"""
        )

    def test_installed_later(self):
        self.fine(
            BLOCKS
            + f"""
homefree.install()
late = [mem_malloc(n) for n in sizes]
assert {{owner_of(block).allocator for block in blocks + late}} == {{"{self.allocator}"}}
for block in blocks + late:
    free(block)
assert churn() == 80000
"""
        )

    def test_the_domains_are_cpythons(self):
        self.fine("""
        import _testcapi, _testinternalcapi
        where = _testinternalcapi if sys.version_info >= (3, 13) else _testcapi
        name = where.pymem_getallocatorsname()
        assert name in ("pymalloc", "mimalloc"), name
        """)


if __name__ == "__main__":
    sys.exit(support.main())
