"""`pytest --homefree-leaks`: a test that loses memory fails; what anything still holds is not lost,
in the first run of a test as little as in later ones.

Usage: see running.py.
"""

from running import PluginTest, main, needs_names_of_modules

START = """
import ctypes, functools, gc, os, sys, threading
import pytest

lib = ctypes.CDLL(os.environ["LEAKY"])
lib.make.restype = ctypes.c_void_p
lib.drop.argtypes = [ctypes.c_void_p]
"""

LOSING = (
    START
    + """
def test_loses(): lib.lose(100)

def test_loses_strings(): lib.lose_string()

def test_loses_and_fails():
    lib.lose(200)
    raise KeyError

@pytest.mark.parametrize("size", [0, 300])
def test_sizes(size):
    if size:
        lib.lose(size)

@pytest.mark.homefree(allow="lost-block")
def test_may_lose(): lib.lose(100)

@pytest.mark.homefree(leaks=False)
def test_not_looked_at(): lib.lose(100)

@pytest.mark.homefree(leaks=True)
def test_looked_at(): lib.lose(100)

@pytest.mark.homefree(leaks=False)
class TestClass:
    def test_inherits(self): lib.lose(100)
    @pytest.mark.homefree(leaks=True)
    def test_nearest_mark(self): lib.lose(100)

def test_in_a_thread(): lib.lose_in_a_thread(100)

@pytest.fixture
def held():
    yield (held := [])
    for one in held:
        lib.drop(one)

def test_the_fixture_frees(held):
    held.append(lib.make(64))
"""
)

KEEPING = (
    START
    + """
kept = {}
address = None

def test_cache_of_the_module(): lib.cache(100)
def test_cache_of_the_module_again(): lib.cache(100)

def test_number():
    global address
    address = lib.make(100)

def test_frees_what_the_test_before_made():
    lib.drop(address)

def test_object(): kept["pointer"] = ctypes.c_void_p(lib.make(100))
def test_many(): kept["numbers"] = [lib.make(32) for _ in range(1000)]
def test_array(): kept["array"] = (ctypes.c_void_p * 50)(*[lib.make(32) for _ in range(50)])

def test_large_objects():
    kept["bytes"] = bytes(5000)
    kept["strings"] = [sys.intern("x" * 600 + str(one)) for one in range(200)]

@functools.lru_cache(None)
def make(size): return lib.make(size)

@pytest.mark.parametrize("size", [10, 20])
def test_cached(size): make(size)

def test_in_a_circle():
    class Owner:
        def __init__(self): self.block, self.me = lib.make(500), self
        def __del__(self, drop=lib.drop): drop(self.block)
    Owner()
    lib.wipe()

class Running(threading.Thread):
    def run(self):
        self.block = lib.make(100)
        self.made.set()
        self.end.wait()

def test_thread_that_goes_on():
    thread = kept["thread"] = Running(daemon=True)
    thread.made, thread.end = threading.Event(), threading.Event()
    thread.start()
    thread.made.wait()

def test_thread_ends():
    kept["thread"].end.set()
    kept["thread"].join()

def test_unwinding():
    with pytest.raises(ZeroDivisionError):
        block = lib.make(100)
        try:
            1 / 0
        finally:
            lib.drop(block)

def test_child():
    pid = os.fork()
    if pid == 0:
        lib.lose(100)
        os._exit(0)
    os.waitpid(pid, 0)

def test_modules_of_the_interpreter():
    import asyncio, csv, decimal, json, lzma, re, sqlite3, ssl, xml.etree.ElementTree, zlib
    sqlite3.connect(":memory:").execute("select 1").fetchall()
    ssl.create_default_context()
    xml.etree.ElementTree.fromstring("<a><b c='d'/></a>")
    lzma.decompress(lzma.compress(bytes(10000)))
    zlib.decompress(zlib.compress(bytes(10000)))
    decimal.Decimal(1) / 3
    re.compile("(a|b)*c" * 20).match("abc")
    json.loads(json.dumps(list(range(1000))))
    asyncio.run(asyncio.sleep(0))
    os.environ["HOMEFREE_TEST_LEAKS"] = "value" * 100
"""
)


class Leaks(PluginTest):
    LOST = ("test_loses", "test_loses_strings", "test_loses_and_fails", "test_sizes[300]")

    def lost(self, name="found.json"):
        found = self.read(name)["findings"]
        self.assertEqual({one["rule"] for one in found} - {"lost-block"}, set(), found)
        for one in found:  # a register, and the stack, may still point to the last ones
            self.assertIn(one["count"], (6, 7, 8), one)
        return {
            (one["test"] or "").rpartition("::")[2]: (one["verdict"], one["phase"]) for one in found
        }

    def expected(self, *, asked):
        fails = "test_looked_at", "test_nearest_mark", *(self.LOST if asked else ())
        verdicts = {test: ("fails", "call") for test in fails}
        if asked:
            verdicts["test_may_lose"] = ("allowed", "call")
        return verdicts

    def test_lost_blocks_fail_where_asked(self):
        self.write("test_module.py", LOSING)
        found = "--homefree-json", "found.json"
        output = self.run_pytest("--homefree", "--homefree-leaks", *found, "-n2", status=1)
        self.assertEqual(self.lost(), self.expected(asked=True), output)
        self.assertIn("homefree: lost-block in the call\n", output)
        self.assertRegex(
            output, r"lost-block, [78] times, [78]00 bytes\n  allocated   lose_some in /.*so"
        )
        self.assertIn("what to do: Free the block, or keep a pointer to it", output)
        self.assertNotIn("  freed  ", output)
        output = self.run_pytest("--homefree", *found, status=1)
        self.assertEqual(self.lost(), self.expected(asked=False), output)
        with open(self.directory / "pytest.ini", "a", encoding="utf-8") as file:
            file.write("homefree_leaks = true\n")
        self.run_pytest("--homefree", "-k", "test_loses", status=1)

    def test_what_is_held_is_not_lost(self):
        self.write("test_module.py", KEEPING)
        output = self.run_pytest("--homefree", "--homefree-leaks", status=0)
        self.assertIn("nothing found in 16 tests", output)
        self.assertNotIn("unknown, because", output)

    def test_baseline(self):
        self.write("test_module.py", LOSING.replace("raise KeyError", "pass"))
        words = "--homefree", "--homefree-leaks", "-k", "test_loses"
        self.run_pytest(*words, "--homefree-write-baseline", "known.json", status=0)
        output = self.run_pytest(*words, "--homefree-baseline", "known.json", status=0)
        self.assertRegex(output, r"lost-block: 2[0-4] times, known by the baseline\n")

    def test_wrong_use(self):
        self.write("test_module.py", "def test(): pass\n")
        output = self.run_pytest("--homefree-leaks", status=4)
        self.assertIn("--homefree-leaks goes with --homefree", output)
        self.write(
            "test_module.py",
            "import pytest\n@pytest.mark.homefree(leaks='yes')\ndef test(): pass\n",
        )
        output = self.run_pytest("--homefree", status=4)
        self.assertIn("leaks=True or leaks=False", output)

    def test_files_that_cannot_be_written(self):
        """The summary is printed all the same."""
        self.write("test_module.py", LOSING)
        words = "--homefree", "--homefree-leaks", "--homefree-json", "missing/found.json"
        output = self.run_pytest(*words, "-k", "test_loses", status=1)
        self.assertIn("lost-block", output)
        self.assertRegex(output, r"cannot write: .*missing/found\.json")
        output = self.run_pytest(*words, "-k", "test_not_looked_at", status=4)
        self.assertIn("cannot write:", output)

    def test_without_room(self):
        """A test that allocates at more addresses than fit is named; it does not fail."""
        self.write(
            "test_module.py",
            START + "def test(): assert lib.make_and_drop(140000)\n",
        )
        output = self.run_pytest("--homefree", "--homefree-leaks", status=0)
        self.assertIn(
            "whether memory was lost is unknown, because it allocated at more than 131072 "
            "addresses:\n  test_module.py::test\n",
            output,
        )


if __name__ == "__main__":
    needs_names_of_modules()
    main()
