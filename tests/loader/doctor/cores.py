"""Core files of real crashes, made here and now, and what `homefree doctor --core` must say of
each.

The kernel writes them where core_pattern is a name; where it is a program of the host's, as in a
container, gdb stops the program at its signal and writes them.
"""

import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

CC = shlex.split(os.environ.get("CC", "cc"))
SOURCE = Path(__file__).with_name("crashes.c")
PYTHON = r"""
import ctypes, sys
lib, api = ctypes.CDLL(sys.argv[2]), ctypes.pythonapi
if sys.argv[1] == "use-after-free":
    api.PyObject_Malloc.restype = ctypes.c_void_p
    blocks = [api.PyObject_Malloc(ctypes.c_size_t(304)) for _ in range(300)]
    for block in blocks:
        ctypes.memset(block, 0x41, 304)
    print(hex(blocks[150]), file=sys.stderr, flush=True)
    api.PyObject_Free(ctypes.c_void_p(blocks[150]))
    lib.second_of(ctypes.c_void_p(blocks[150]))
else:
    api.PyUnicode_AsWideCharString.restype = ctypes.c_void_p
    text = api.PyUnicode_AsWideCharString(ctypes.py_object("hello" * 20), None)
    print(hex(text), file=sys.stderr, flush=True)
    api.free(ctypes.c_void_p(text))
"""


class Missing(Exception):
    """What a case needs is not here."""


class Crashes:
    """directory: where everything lies; homefree: libhomefree; python: that of the cases in
    Python."""

    def __init__(self, directory, homefree, python=sys.executable):
        self.directory, self._python = Path(directory), python
        self.program, self.module = self.directory / "crashes", self.directory / "crashes.so"
        self.script = self.directory / "crashes.py"
        self.script.write_text(PYTHON)
        for target, *options in ((self.program,), (self.module, "-shared", "-fPIC")):
            subprocess.run(
                [*CC, "-O2", "-o", target, SOURCE, *options, "-ldl"], check=True, timeout=60
            )
        pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
        self.by_kernel = not pattern.startswith(("|", "/"))
        self._libraries = {
            "jemalloc": ("libjemalloc.so.2", "malloc", "free"),
            "mimalloc": ("libmimalloc.so.2", "mi_malloc", "mi_free"),
            "tcmalloc": ("libtcmalloc_minimal.so.4", "tc_malloc", "tc_free"),
            "homefree": (homefree, "hf_malloc", "hf_free"),
        }

    def _command(self, case):
        if case.startswith("python-"):
            return [self._python, self.script, case.partition("-")[2], self.module]
        kind, _, name = case.partition(" ")
        if not name:
            return [self.program, kind]
        library, allocate, release = self._libraries[name]
        return [self.program, kind, library, allocate if kind == "libc-frees" else release]

    def core(self, case, by_kernel=None):
        """(the core file, the pointer that the program told). Raises Missing."""
        if by_kernel is None:
            try:
                return self.core(case, self.by_kernel)
            except Missing:  # the container's limit is 0
                return self.core(case, False)
        place = self.directory / re.sub(r"\W", "-", f"{case} {'kernel' if by_kernel else 'gdb'}")
        place.mkdir(exist_ok=True)
        command = [str(word) for word in self._command(case)]
        if not by_kernel:
            if shutil.which("gdb") is None:
                raise Missing("no gdb")
            command = [
                *("gdb", "-q", "-nx", "-batch", "-iex", "set auto-load off"),
                *("-ex", "set startup-with-shell off", "-ex", "run"),
                *("-ex", f"gcore {place}/core", "--args", *command),
            ]
        environment = {
            **os.environ,
            "GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=16384",
            "HOMEFREE_CONF": "route:off",
            "DEBUGINFOD_URLS": "",
        }
        done = subprocess.run(
            command,
            cwd=place,
            env=environment,
            capture_output=True,
            timeout=60,
            preexec_fn=_with_core,
        )
        found = re.search(rb"^0x[0-9a-f]+$", done.stderr, re.MULTILINE)
        cores = list(place.glob("core*"))
        if not cores or found is None:
            raise Missing(f"{case}: {done.stderr.decode('utf-8', 'replace')[-400:]}")
        return cores[0], int(found[0], 16)


def _with_core():
    limit = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))


# By case: the finding, whose the pointer is (allocator, part of the object's name), the allocator
# that was given it, and the function that gave it.
EXPECTED = {
    "double-free": ("core-double-free", "libc", "libc.", "libc", "drop"),
    "interior": ("core-interior-free", "libc", "libc.", "libc", "drop"),
    "mapped": ("core-interior-free", "libc", "libc.", "libc", "drop"),
    "overrun": ("log-damaged-heap", "libc", "libc.", "libc", "drop"),
    "stack": ("core-stack-free", None, None, "libc", "drop"),
    "static": ("core-static-free", None, "crashes", "libc", "drop"),
    "constant": ("core-static-free", None, "crashes", "libc", "drop"),
    "libc-frees jemalloc": ("core-foreign-free", "jemalloc", "libjemalloc", "libc", "drop"),
    "libc-frees mimalloc": ("core-foreign-free", "mimalloc", "libmimalloc", "libc", "drop"),
    "libc-frees tcmalloc": ("core-foreign-free", "tcmalloc", "libtcmalloc", "libc", "drop"),
    "libc-frees homefree": ("core-foreign-free", "homefree", "libhomefree", "libc", "drop"),
    "frees-libcs jemalloc": ("core-foreign-free", "libc", "libc.", "jemalloc", "main"),
    "frees-libcs mimalloc": ("core-foreign-free", "libc", "libc.", "mimalloc", "main"),
    "frees-libcs tcmalloc": ("core-foreign-free", "libc", "libc.", "tcmalloc", "main"),
    "python-foreign-free": ("core-foreign-free", "pymalloc", "python", "libc", None),
    "python-use-after-free": ("core-use-after-free", "pymalloc", "python", None, None),
}

# CPython without a GIL allocates with a mimalloc of its own, whose blocks a core file does not tell
# to be free.
WITHOUT_GIL = {
    "python-foreign-free": ("core-foreign-free", "mimalloc", "python", "libc", None),
}


def check(test, case, document, pointer, expected=EXPECTED):
    """Asserts that a document is right. test: a unittest.TestCase."""
    finding, owner, of, freer, by = expected[case]
    test.assertEqual(document["homefree_core"], 1)
    test.assertEqual(document["finding"], finding, document)
    test.assertEqual(document["pointer"], pointer, document)
    test.assertEqual(document["owner"]["allocator"], owner, document)
    if of is not None:
        test.assertIn(of, os.path.basename(document["owner"]["object"]))
    if freer is not None:
        test.assertEqual(document["freed"]["allocator"], freer, document)
    if by is not None:
        test.assertEqual(document["freed"]["symbol"], by, document)
        test.assertEqual(os.path.basename(document["freed"]["object"]), "crashes")
    test.assertTrue(document["thread"]["stack"])
    test.assertTrue(document["remedy"])
