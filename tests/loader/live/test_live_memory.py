"""`homefree memory --pid`: whose each resident page of a process is, seen from outside.

Usage: see looking.py.
"""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys

from looking import DASHBOARDS, Looking, arguments, main

MIB = 1 << 20
# Debian's jemalloc wants more static TLS than late libraries get.
TUNABLES = {"GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=16384"}

# Takes memory of each kind, and waits. The sizes tell the kinds apart.
TAKER = """
import ctypes, mmap, os, sys, threading
MIB = 1 << 20
directory = sys.argv[1]
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
kept = [bytes(100) for _ in range(200000)]            # pymalloc
chunk = libc.malloc(ctypes.c_size_t(9 * MIB))         # libc: a mapping of its own
ctypes.memset(chunk, 1, 9 * MIB)
name = os.path.join(directory, os.fsdecode(b"data\\n\\x1b[31m"))
with open(name, "w+b") as file:
    file.write(bytes(7 * MIB))
    mapped = mmap.mmap(file.fileno(), 7 * MIB)
sum(mapped[at] for at in range(0, 7 * MIB, 4096))
shared = mmap.mmap(-1, 5 * MIB)
shared.write(bytes([1]) * 5 * MIB)
alone = mmap.mmap(-1, 3 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
alone.write(bytes([1]) * 3 * MIB)
ready, done = threading.Event(), threading.Event()
def work():
    libc.malloc.restype = ctypes.c_void_p
    blocks = [libc.malloc(ctypes.c_size_t(100000)) for _ in range(110)]  # libc: a thread's arena
    for block in blocks:
        ctypes.memset(block, 1, 100000)
    inner = (ctypes.c_char * 16)()
    deep(500)
def deep(levels):
    if levels:
        return deep(levels - 1)
    ready.set()
    done.wait()
threading.stack_size(16 * MIB)
thread = threading.Thread(target=work)
thread.start()
ready.wait()
print("ready", os.getpid(), flush=True)
sys.stdin.read()
done.set()
"""

# Has blocks of an allocator that is hidden in an object.
HIDING = """
import ctypes, os, sys
module = ctypes.CDLL(sys.argv[1])
module.embedded.restype = ctypes.POINTER(ctypes.c_void_p)
malloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(module.embedded()[0])
for size in (1 << 20,) * 10 + (1 << 10,) * 10240:
    ctypes.memset(malloc(size), 1, size)
print("ready", os.getpid(), flush=True)
sys.stdin.read()
"""

# Has a profile of its heap.
ASKER = """
import os, sys
import homefree
homefree.install(python="full")
homefree.profile_begin(8192)
def asks_for_it(): return [bytes(1000) for _ in range(10000)]
kept = asks_for_it()
print("ready", os.getpid(), flush=True)
sys.stdin.read()
"""

# Has freed what lies below one live block of libc's, and a thread has some in an arena of its own.
STRANDED = """
import ctypes, os, sys, threading
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
def take(count):
    blocks = [libc.malloc(ctypes.c_size_t(60000)) for _ in range(count)]
    for block in blocks:
        ctypes.memset(block, 1, 60000)
    return blocks
kept = []
def work():
    kept.extend(take(100))
    for block in kept[:50]:
        libc.free(block)
thread = threading.Thread(target=work)
thread.start()
thread.join()
blocks = take(999)
top = take(1)
for block in blocks:
    libc.free(block)
os.write(1, b"ready %d\\n" % os.getpid())  # print() takes a block for its buffer
os.read(0, 1)
"""

# Takes a MiB, again and again when it is told to.
GROWER = """
import os, sys, time
print("ready", os.getpid(), flush=True)
kept = []
for line in sys.stdin:
    if len(kept) < 300:
        kept.append(bytearray(b"1") * (1 << 20))
    time.sleep(0.03)
    print("done", flush=True)
"""


class Memory(Looking):
    def memory(self, pid, *more):
        done = self.command("memory", "--json", *more, "--pid", pid)
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        self.assertEqual((document["homefree_memory"], document["pid"]), (1, pid))
        rows = document["rows"] + document["rest"]
        self.assertEqual(sum(row["resident"] for row in rows), document["resident"])
        unknown = self.rest(document, "unknown")
        self.assertAlmostEqual(document["attributed"], 1 - unknown / document["resident"])
        return document

    def rest(self, document, kind):
        return sum(row["resident"] for row in document["rest"] if row["kind"] == kind)

    def allocator(self, document, name):
        found = [row for row in document["rows"] if row["allocator"] == name]
        self.assertEqual(len(found), 1, document["rows"])
        return found[0]

    def near(self, bytes_, mib, more):
        self.assertGreaterEqual(bytes_, mib * MIB)
        self.assertLessEqual(bytes_, (mib + more) * MIB)

    def taker(self, **more):
        return self.run_target(sys.executable, "-c", TAKER, str(self.directory), **more)

    def test_each_kind(self):
        target = self.taker()
        document = self.memory(target.pid)
        self.near(self.allocator(document, "libc")["resident"], 9 + 10, 12)
        pymalloc = self.allocator(document, "pymalloc")
        self.assertEqual(pymalloc["how"], "counted")
        self.assertGreater(pymalloc["live"], 200000 * 133)
        self.assertLessEqual(pymalloc["live"], pymalloc["resident"] + MIB)
        self.near(self.rest(document, "file"), 7, 2)
        self.near(self.rest(document, "shared"), 5, 1)
        self.near(self.rest(document, "unknown"), 3, 1)
        self.assertGreater(self.rest(document, "code"), MIB)
        self.assertGreater(self.rest(document, "stack"), 16 << 10)
        self.assertGreater(document["page_tables"], 0)
        self.assertEqual(target.end(), 0)

    def test_for_people(self):
        """What a file is called cannot control a terminal, and lines fit."""
        target = self.taker()
        done = self.command("memory", "--all", "--pid", target.pid)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("\x1b", done.stdout)
        self.assertIn("data??[31m", done.stdout)
        for said in ("libc", "pymalloc", "mapped files", "stacks of threads", "nobody known"):
            self.assertIn(said, done.stdout)
        self.assertEqual(target.end(), 0)

    def test_heap(self):
        """With homefree: its row, and what --blocks counts."""
        target = self.run_target(env={"LD_PRELOAD": arguments.preload})
        document = self.memory(target.pid)
        done = self.command("memory", "--blocks", "--json", "--pid", target.pid)
        blocks = json.loads(done.stdout)
        heap = self.allocator(document, "homefree")
        self.assertEqual(heap["live"], blocks["live_bytes"])
        self.assertEqual(heap["how"], "counted")
        self.assertGreater(document["attributed"], 0.95)
        self.assertEqual(target.end(), 0)

    def test_who_asked(self):
        """The profile of a process, with Python's frames."""
        beside = os.path.dirname(arguments.library)
        if not arguments.package or not os.path.exists(f"{beside}/libhomefree-profile.so"):
            self.skipTest("no Python package, or no profiles")
        target = self.run_target(sys.executable, "-c", ASKER, env={"PYTHONPATH": arguments.package})
        asked = self.memory(target.pid)["asked"]
        by_it = sum(
            row["bytes"] for row in asked if row["python"] and "asks_for_it" in str(row["python"])
        )
        self.assertGreater(by_it, 8 * MIB)
        self.assertLess(by_it, 14 * MIB)
        self.assertTrue(all(row["native"][0][0] for row in asked), asked[0])
        done = self.command("memory", "--pid", target.pid)
        self.assertIn("Who asked for what is live", done.stdout)
        self.assertIn("asks_for_it", done.stdout)
        self.assertEqual(target.end(), 0)

    def test_hidden_allocators(self):
        """Of an object whose allocator has no exported name: known by pointers, and with homefree
        by the pages that it saw mapped."""
        for environment in {}, {"LD_PRELOAD": arguments.library}:
            for module in arguments.modules:
                with self.subTest(module=os.path.basename(module), environment=environment):
                    command = [sys.executable, "-c", HIDING, module]
                    if "tcmalloc" in module and not environment:
                        continue  # it gets memory by brk, as libc does
                    target = self.run_target(*command, env={**TUNABLES, **environment})
                    document = self.memory(target.pid)
                    rows = [
                        row
                        for row in document["rows"]
                        if row["object"] and os.path.samefile(row["object"], module)
                    ]
                    self.near(sum(row["resident"] for row in rows), 20, 12)
                    name = re.search("jemalloc|tcmalloc", module)[0]
                    self.assertTrue(all(name in (row["allocator"] or "") for row in rows), rows)
                    self.assertEqual(target.end(), 0)

    def test_many_addresses(self):
        """A mapping of more addresses than can be looked through."""
        source = (
            "import mmap, os, sys\n"
            "flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000\n"  # MAP_NORESERVE
            "large = mmap.mmap(-1, 8 << 40, flags=flags)\n"
            "large[1 << 40] = 1\n"
            "print('ready', os.getpid(), flush=True)\n"
            "sys.stdin.read()\n"
        )
        target = self.run_target(sys.executable, "-c", source)
        self.assertGreater(self.memory(target.pid)["attributed"], 0.5)
        self.assertEqual(target.end(), 0)

    def test_unreadable(self):
        """Mappings alone, as where a debugger may not read: files and the program break."""
        target = self.taker(env={"HOMEFREE_TEST": "1"})
        where = os.path.join(os.path.dirname(arguments.homefree), "../../python/homefree")
        source = (
            "import sys; sys.path.insert(0, sys.argv[1])\n"
            "from command import memory_process, memory_owners, memory_table, memory_text\n"
            "opens = memory_process.Process._open\n"
            "memory_process.Process._open = lambda self, name: -1\n"
            "document = memory_table.document(sys.argv[2], memory_owners.Facts())\n"
            "assert document['unreadable']\n"
            "rows = document['rows'] + document['rest']\n"
            "assert sum(row['resident'] for row in rows) == document['resident']\n"
            "assert b'cannot be read' in memory_text.text(document)\n"
        )
        words = [sys.executable, "-c", source, where, str(target.pid)]
        done = subprocess.run(words, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(target.end(), 0)

    def test_what_libc_keeps(self):
        """What is live and what is free in its heaps is counted, and why it stays is said."""
        target = self.run_target(sys.executable, "-c", STRANDED)
        libc = self.allocator(self.memory(target.pid), "libc")
        self.assertEqual((libc["how"], libc["last"]), ("counted", 60016))
        self.near(libc["live"], 50 * 60000 / MIB, 4)
        self.near(libc["free"], 1045 * 60000 / MIB, 4)
        done = self.command("memory", "--pid", target.pid)
        said = " ".join(done.stdout.split())
        self.assertRegex(
            said, r"libc: \d\d\.\d MiB free that it keeps, a live block of 58\.6 KiB at"
        )
        self.assertIn("homefree trim --pid", said)
        self.assertEqual(target.end(), 0)

    def test_growth(self):
        """--diff: whoever grew is first."""
        target = self.run_target(sys.executable, "-c", GROWER)
        looking = subprocess.Popen(
            [arguments.homefree, "memory", "--json", "--diff", "2s", "--pid", str(target.pid)],
            stdout=subprocess.PIPE,
            text=True,
        )
        while looking.poll() is None:
            self.assertEqual(target.tell("more"), "done")
        document = json.loads(looking.communicate()[0])
        self.assertEqual((looking.returncode, document["homefree_memory_diff"]), (0, 1))
        self.assertGreaterEqual(document["seconds"], 1.9)
        self.assertGreater(document["grown"], 4 * MIB)
        self.assertEqual(document["rows"][0]["allocator"], "libc")
        self.assertGreater(document["rows"][0]["grown"], 4 * MIB)
        done = self.command("memory", "--diff", "0.1", "--pid", target.pid)
        self.assertRegex(done.stdout, r"^\+0 B resident in [0-9.]+ seconds")

    def test_metrics(self):
        target = self.run_target()
        done = self.command("memory", "--openmetrics", "--pid", target.pid)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[-1], "# EOF")
        sample = re.compile(
            r'[a-z_]+(\{[a-z]+="(\\.|[^"\\\n])*"(,[a-z]+="(\\.|[^"\\\n])*")*\})? \S+'
        )
        samples = [line for line in lines if not line.startswith("#")]
        for line in samples:
            self.assertRegex(line, f"^(?:{sample.pattern})$")
            float(line.rpartition(" ")[2])
        self.assertEqual(len(samples), len({line.rpartition(" ")[0] for line in samples}))
        self.assertTrue(any(line.startswith("homefree_memory_resident") for line in samples))
        known = {line.split()[2] for line in lines if line.startswith("# TYPE ")}
        for name in ("grafana.json", "homefree.html"):
            asked = set(re.findall(r"homefree_memory_\w+", (DASHBOARDS / name).read_text()))
            self.assertEqual(asked - known, set())

    def test_command(self):
        """A program's memory where it was largest, and its own output and status."""
        source = "import time\nkept = bytes([1]) * (40 << 20)\ntime.sleep(2)\nprint('its own')"
        done = self.command("memory", "--json", "--", sys.executable, "-c", source)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("its own", done.stderr)
        self.near(self.allocator(json.loads(done.stdout), "libc")["resident"], 40, 20)
        source += "\nraise SystemExit(5)"
        done = self.command("memory", "--", sys.executable, "-c", source)
        self.assertEqual(done.returncode, 1)
        self.assertIn("its own", done.stdout)
        self.refused(3, "cannot run '/nowhere'", "memory", "--", "/nowhere")

    def test_watch(self):
        """In a terminal's other screen, until the process ends."""
        target = self.run_target()
        reader, writer = pty.openpty()
        watching = subprocess.Popen(
            [arguments.homefree, "memory", "--watch", "--pid", str(target.pid)],
            stdout=writer,
            env={**os.environ, "TERM": "xterm"},
        )
        os.close(writer)
        seen = b""
        with contextlib.suppress(OSError):  # how a terminal ends
            while data := os.read(reader, 1 << 16):
                seen += data
                if seen.count(b"resident") >= 2 and target.process.poll() is None:
                    target.process.kill()
                    target.process.wait()
        os.close(reader)
        self.assertEqual(watching.wait(60), 0)
        self.assertTrue(seen.startswith(b"\x1b[?1049h"), seen[:40])
        self.assertIn(b"\x1b[?1049l", seen)

    def test_it_does_not_run(self):
        self.check_that_it_does_not_run("memory", self.run_target())

    def test_processes_that_are_none(self):
        self.check_processes_that_are_none("memory")

    def test_one_of_another_user(self):
        self.check_one_of_another_user("memory")

    def test_ending_while_looked_at(self):
        self.check_ending_while_looked_at("memory", self.run_target)

    def test_no_proc(self):
        unshare, _ = self.mounts_of_its_own()
        source = 'mount -t tmpfs none /proc && exec "$0" memory --pid 1'
        done = subprocess.run(
            [*unshare, "sh", "-c", source, arguments.homefree], capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("/proc is not mounted", done.stderr)

    def test_closed_stdout(self):
        target = self.run_target()
        words = [arguments.homefree, "memory", "--pid", str(target.pid)]
        closed = subprocess.run(
            ["sh", "-c", 'exec "$@" >&-', "sh", *words], stderr=subprocess.PIPE, text=True
        )
        self.assertEqual(closed.returncode, 3, closed.stderr)
        self.assertIn("stdout", closed.stderr)
        reader, writer = os.pipe()
        os.close(reader)
        nobody = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True)
        os.close(writer)
        self.assertEqual((nobody.returncode, nobody.stderr), (-signal.SIGPIPE, ""))

    def test_usage(self):
        for words in (
            [],
            ["--pid", "1", "--diff", "x"],
            ["--pid", "1", "--diff", "60s", "--watch"],
            ["--pid", "1", "--json", "--openmetrics"],
            ["--pid", "1", "--html", "-", "--json"],
            ["--pid", "1", "--", "true"],
            ["--blocks", "--", "true"],
            ["--pid", "1", "--blocks", "--watch"],
        ):
            with self.subTest(words=words):
                self.assertEqual(self.command("memory", *words).returncode, 2)


if __name__ == "__main__":
    main()
