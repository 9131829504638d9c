"""homefree.memory() and what is made of it: whose memory is whose, from inside of the process."""

import unittest

import support

CHECKS = """
import json
MIB = 1 << 20
def sums(document):
    rows = document["rows"] + document["rest"]
    assert sum(row["resident"] for row in rows) == document["resident"]
    assert 0 <= document["attributed"] <= 1
    json.dumps(document)
    return document
def row(document, allocator):
    found = [row for row in document["rows"] if row["allocator"] == allocator]
    assert len(found) == 1, document["rows"]
    return found[0]
def near(bytes_, mib, more):
    assert mib * MIB <= bytes_ <= (mib + more) * MIB, bytes_
"""


class Memory(support.TestCase):
    def memory(self, code):
        self.fine(CHECKS + code)

    def test_rows(self):
        self.memory("""
document = sums(homefree.memory())
assert document["homefree_memory"] == 1 and document["pid"] == os.getpid()
assert document["attributed"] > 0.95, document
libc = row(document, "libc")
kept = raw_malloc(9 * MIB)
ctypes.memset(kept, 1, 9 * MIB)
after = row(sums(homefree.memory()), "libc")
near(after["resident"] - libc["resident"], 8.5, 2)
if libc["live"] is not None:
    near(after["live"] - libc["live"], 8.5, 2)
assert homefree.memory()["asked"] == []
""")

    @support.without_gil
    def test_little_memory(self):
        """No more room is taken than what is read needs."""
        self.memory("""
import resource
now = resource.getrlimit(resource.RLIMIT_DATA)
data = int(open("/proc/self/status").read().split("VmData:")[1].split()[0]) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (data + 100 * MIB, now[1]))
assert homefree.memory()["resident"] > 0
""")

    def test_pools(self):
        self.memory("""
before = row(sums(homefree.memory()), "pymalloc")
kept = [b"%0100d" % number for number in range(100000)]
after = row(sums(homefree.memory()), "pymalloc")
assert after["how"] == "counted"
near(after["live"] - before["live"], 100000 * 130 / MIB, 4)
near(after["resident"] - before["resident"], 100000 * 130 / MIB, 6)
""")

    def test_heap(self):
        self.memory(
            f"modes = {support.MODES!r}\n"
            """
for mode in modes:
    homefree.install(mode)
    before = row(sums(homefree.memory()), "homefree")
    kept = [raw_malloc(1000) for _ in range(20000)]
    for block in kept:
        ctypes.memset(block, 1, 1000)
    document = sums(homefree.memory())
    after = row(document, "homefree")
    near(after["live"] - before["live"], 20000 * 1000 / MIB, 6)
    near(after["resident"] - before["resident"], 12, 16)  # some was there, and free
    assert after["live"] + after["free"] + after["books"] >= after["resident"] * 0.99
    assert document["attributed"] > 0.95, document
    homefree.uninstall()
"""
        )

    def test_who_asked(self):
        self.memory("""
homefree.install()
try:
    homefree.profile_begin(4096)
except RuntimeError:
    assert not os.path.exists(os.path.join(homefree.get_library_dir(), "libhomefree-profile.so"))
    print("done", flush=True)
    os._exit(0)
def by_this():
    return [raw_malloc(1000) for _ in range(10000)]
kept = by_this()
before = sums(homefree.memory())
by_this_one = sum(each["bytes"] for each in before["asked"]
                  if any(frame[0].startswith("by_this") for frame in each["python"]))
near(by_this_one, 10000 * 1000 / MIB * 0.8, 4)
more = by_this()
grown = homefree.memory_diff(before, homefree.memory())
assert grown["homefree_memory_diff"] == 1, grown
assert grown["rows"][0]["allocator"] == "homefree" and grown["rows"][0]["live"] > 8 * MIB
assert grown["asked"][0]["bytes"] > 4 * MIB, grown["asked"][0]
assert any(frame[0].startswith("by_this") for frame in grown["asked"][0]["python"])
homefree.profile_end()
""")

    def test_text(self):
        self.memory("""
import io
text = io.StringIO()
homefree.memory(text)
for said in ("MiB resident", "libc", "code and data of shared objects", "page tables"):
    assert said in text.getvalue(), text.getvalue()
assert "\\033" not in text.getvalue()
""")

    def test_what_libc_keeps(self):
        """What it has free below a live block is named with the remedy, and no longer once it has
        gone back, though libc counts it as free all the same."""
        self.memory("""
import io
libc = ctypes.CDLL(None)
malloc = function(libc, "malloc", pointer, size_t)
free = function(libc, "free", None, pointer)
blocks = [malloc(60000) for _ in range(1000)]
for block in blocks:
    ctypes.memset(block, 1, 60000)
for block in blocks[:-1]:
    free(block)
def told():
    text = io.StringIO()
    found = row(sums(homefree.memory(text)), "libc")
    return " ".join(text.getvalue().split()), found
text, found = told()
assert "MiB free that it keeps" in text and "homefree.trim()" in text, text
near(found["free"], 999 * 60000 / MIB - 1, 8)
homefree.trim()
text, found = told()
assert "that it keeps" not in text, text
""")

    def test_metrics(self):
        self.memory("""
import stat, tempfile
text = homefree.openmetrics()
assert text.endswith("# EOF\\n") and "homefree_memory_resident_bytes{" in text
with tempfile.TemporaryDirectory() as directory:
    path = os.path.join(directory, "homefree.prom")
    for _ in range(2):
        homefree.openmetrics_file(path)
        assert os.listdir(directory) == ["homefree.prom"]
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o644
        assert open(path).read().endswith("# EOF\\n")
    try:
        homefree.openmetrics_file(os.path.join(directory, "no", "such"))
    except OSError:
        pass
    else:
        assert False
""")

    def test_threads_and_forks(self):
        """Others allocate and map meanwhile; a child looks at itself."""
        self.memory("""
stop = threading.Event()
def work():
    while not stop.is_set():
        blocks = [bytearray(300000) for _ in range(20)]
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for _ in range(3):
    sums(homefree.memory())
child = os.fork()
if child == 0:
    os._exit(0 if sums(homefree.memory())["pid"] == os.getpid() else 1)
stop.set()
for thread in threads:
    thread.join()
assert os.waitpid(child, 0)[1] == 0
""")


if __name__ == "__main__":
    unittest.main()
