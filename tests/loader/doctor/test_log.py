"""`homefree doctor --log`: what real crashes write is explained by the right rule, other logs have
no findings, and hostile ones end in a line.

Usage: test_log.py HOMEFREE [unittest arguments]. The compiler is $CC, or cc.
"""

import glob
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HOMEFREE = os.path.abspath(sys.argv.pop(1))
CC = shlex.split(os.environ.get("CC", "cc"))

CRASHES = r"""
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
int main(int count, char **words) {
    char *foreign = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *volatile first = malloc(2000), *volatile second = malloc(2000);
    switch (words[1][0]) {
    case 'f': free(foreign + 4096 + 64); break;
    case 'r': first = realloc(foreign + 4096 + 64, 10); break;
    case 'd': free(first); free(first); free(second); break;
    case 'p': memset(second + 2008, 255, 8); first = malloc(9000); break; /* the top's size */
    }
    return 0;
}
"""
# What others write that not every machine has.
TEXTS = {
    "mi_free: pointer does not point to a valid heap space: 0x7f0": "log-foreign-free",
    "app(4711,0x1) malloc: *** error for object 0x6: pointer being freed was not allocated":
        "log-foreign-free",
    "OMP: Error #15: Initializing libiomp5.so, but found libomp.so already initialized.":
        "log-loaded-twice",
    "Check failed: File already exists in database: tensorflow/core/framework/types.proto":
        "log-loaded-twice",
    "memory allocation of 1099511627776 bytes failed": "log-out-of-memory",
    "kernel: Out of memory: Killed process 4711 (python3) total-vm:9kB": "log-out-of-memory",
    "python3: malloc.c:2379: sysmalloc: Assertion `(old_top == initial_top (av)' failed.":
        "log-damaged-heap",
    "Fatal glibc error: malloc.c:2599 (sysmalloc): assertion failed: (old_top == initial_top (av)":
        "log-damaged-heap",
    '<jemalloc>: src/arena.c:9: Failed assertion: "bin"': "log-damaged-heap",
    "kernel: traps: python3[4711] trap invalid opcode ip:7f sp:7f error:0": "log-crash",
    "7/9 fails   FAIL   0.02s   killed by signal 11 SIGSEGV": "log-crash",
    "subprocess.CalledProcessError: Command 'x' died with <Signals.SIGABRT: 6>.": "log-crash",
    "Worker (pid:7) was sent SIGSEGV!": "log-crash",
    "process didn't exit successfully (signal: 11, SIGSEGV: invalid memory reference)": "log-crash",
    "web-1 exited with code 139": "log-crash",
    "kernel: python3[4711]: segfault at 8 ip 00007f sp 00007f error 4 in libx.so[7f+1]":
        "log-crash",
}  # fmt: skip


class Log(unittest.TestCase):
    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="homefree-test-log-"))
        self.addCleanup(shutil.rmtree, self.directory)

    def read(self, text, status=1, *options):
        path = self.directory / "log"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        result = subprocess.run(
            [HOMEFREE, "doctor", "--log", path, *(options or ["--json"])],
            capture_output=True,
            timeout=100,
        )
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual(result.stderr, b"")
        return result.stdout.decode() if options else json.loads(result.stdout)["log"]

    def rules(self, text):
        return [finding["rule"] for finding in self.read(text)["findings"]]

    def crash(self, words, **more):
        """What a program writes that SIGABRT or SIGSEGV ends."""
        result = subprocess.run(
            words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env={**os.environ, **more}
        )
        self.assertIn(-result.returncode, (signal.SIGABRT, signal.SIGSEGV), result.stderr)
        return result.stderr

    def program(self):
        path, code = self.directory / "crashes", self.directory / "crashes.c"
        code.write_text(CRASHES)
        subprocess.run([*CC, "-O1", "-fno-builtin", "-w", code, "-o", path], check=True)
        return path

    def test_glibc(self):
        program = self.program()
        for kind, rule in {
            "f": "log-foreign-free",
            "r": "log-foreign-free",
            "d": "log-double-free",
            "p": "log-damaged-heap",
        }.items():
            with self.subTest(kind):
                self.assertEqual(self.rules(self.crash([program, kind])), [rule])

    def test_tcmalloc(self):
        found = glob.glob("/usr/lib/*/libtcmalloc_minimal.so.4")
        if not found:
            self.skipTest("no tcmalloc")
        said = self.crash([self.program(), "f"], LD_PRELOAD=found[0])
        finding = self.read(said)["findings"][0]
        self.assertEqual(finding["rule"], "log-foreign-free")
        self.assertIn("tcmalloc says: Attempt to free invalid pointer", finding["message"])

    def test_cpython(self):
        code = "import ctypes\ndef wrong(): ctypes.string_at(8)\nwrong()"
        said = self.crash([sys.executable, "-X", "faulthandler", "-c", code])
        log = self.read(said)
        self.assertEqual([one["rule"] for one in log["findings"]], ["log-crash"])
        self.assertIn("in string_at", log["frames"][0])
        self.assertIn("in wrong", log["frames"][1])

    def test_cpython_debug(self):
        code = (
            "from ctypes import c_void_p, pythonapi as api\n"
            "api.PyMem_Malloc.restype, api.PyObject_Free.argtypes = c_void_p, [c_void_p]\n"
            "api.PyObject_Free(api.PyMem_Malloc(100))"
        )
        said = self.crash([sys.executable, "-c", code], PYTHONMALLOC="debug")
        self.assertIn("log-foreign-free", self.rules(said))

    def test_dynamic_linker(self):
        code, path = self.directory / "a.c", self.directory / "liba.so"
        code.write_text("int missing(void); int f(void) { return missing(); }\n")
        subprocess.run([*CC, "-shared", "-fPIC", code, "-o", path], check=True)
        said = subprocess.run(
            [sys.executable, "-c", f"import ctypes, os; ctypes.CDLL({str(path)!r}, os.RTLD_NOW)"],
            stderr=subprocess.PIPE,
        ).stderr
        self.assertEqual(self.rules(said), ["log-not-loadable"])

    def test_texts(self):
        for text, rule in TEXTS.items():
            with self.subTest(text):
                self.assertEqual(self.rules(f"before\n{text}\nafter\n"), [rule])

    def test_names_and_numbers(self):
        log = self.read(
            "one\ntwo\nfree(): invalid pointer\n#1 0x1 in x () from /opt/lib/libarrow.so.2600\n"
            + "free(): invalid pointer\n"
            + "#1 0x1 in y () from /opt/libbelow.so\n"
            + "line\n" * 70
            + "/opt/libfar.so\n"
            + "Extension modules: numpy.core._x, pandas._libs (total: 2)"
        )
        (finding,) = log["findings"]
        self.assertEqual((finding["count"], finding["line"], log["lines"]), (2, 3, 78))
        self.assertEqual(finding["names"], ["/opt/lib/libarrow.so.2600", "/opt/libbelow.so"])
        self.assertEqual(log["modules"], ["numpy", "pandas"])

    def test_text(self):
        shown = self.read("free(): invalid pointer \x1b[31m\n", 1, "-o", "-")
        self.assertIn(
            "error    log-foreign-free  line 1: glibc says: free(): invalid pointer ?[31m", shown
        )
        self.assertIn("homefree run --diagnose -- COMMAND", shown)
        shown = self.read("free(): invalid pointer\n/opt/a.so\n" * 3, 1, "-o", "-")
        self.assertIn("free(): invalid pointer, 3 times: /opt/a.so\n", shown)

    def test_nothing_happened(self):
        for text in (
            "n_bootstraps: 1000",
            "src/malloc.c:88:5: warning: unused variable 'x'",
            "installed handlers for SIGSEGV, SIGABRT",
            "Failed assertion: x == 3",
        ):
            with self.subTest(text):
                self.assertEqual(self.read(f"{text}\n", 0)["findings"], [])

    def test_nothing_found(self):
        log = self.read("all went well\nfree memory: 3 GB\n", 0)
        self.assertEqual((log["findings"], log["lines"]), ([], 2))
        self.assertEqual(self.read(b"", 0)["lines"], 0)
        self.assertIn("Findings: none.", self.read("fine\n", 0, "-o", "-"))

    def test_hostile(self):
        self.assertEqual(self.read(bytes(range(256)) * 1000, 0)["findings"], [])
        one_line = self.read(b"free(): invalid pointer /a.so " * 100_000)
        self.assertEqual(one_line["findings"][0]["rule"], "log-foreign-free")
        self.assertLessEqual(len(one_line["findings"][0]["message"]), 200)
        many = "".join(f"undefined symbol: {'f' * n}\n" for n in range(500))
        self.assertEqual(len(self.read(many)["findings"]), 100)
        slashes = b"free(): invalid pointer\n" + b"/" * 16000 + b" -/.so" * 2000 + b"\n"
        self.assertEqual(self.read(slashes * 500)["findings"][0]["names"], [])
        long = self.read(b"x" * (3 << 20) + b"\nfree(): invalid pointer\nlast")
        self.assertEqual((long["findings"][0]["line"], long["lines"]), (2, 3))
        across = "x" * ((1 << 20) - 8) + "\nfree(): invalid pointer\n"
        self.assertEqual(self.read(across)["findings"][0]["line"], 2)

    def test_cannot_be_read(self):
        for path, why in {"/nowhere": "No such file", self.directory: "Is a directory"}.items():
            result = subprocess.run([HOMEFREE, "doctor", "--log", path], capture_output=True)
            self.assertEqual((result.returncode, result.stdout), (3, b""))
            self.assertIn(f"homefree doctor: cannot read '{path}': {why}", result.stderr.decode())

    def test_wrong_words(self):
        for more in (["--all"], ["--pid", "1"], ["--", "true"], ["--rules"]):
            result = subprocess.run([HOMEFREE, "doctor", "--log", "x", *more], capture_output=True)
            self.assertEqual(result.returncode, 2, more)


if __name__ == "__main__":
    unittest.main()
