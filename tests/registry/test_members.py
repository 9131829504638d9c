"""What homefree does with members: their blocks go home by every function, and are named; a member
that this thread may not call now is not called; guess:off believes nobody else.

wrong.c, which is a right member unless it is told otherwise, and an installed mimalloc, which is
none. Each case is a process of its own.

Usage: test_members.py --source DIRECTORY --library LIBHOMEFREE --command HOMEFREE
                       [--double DIRECTORY] [unittest arguments]

--double: the double of CUDA, where this build has spaces.
"""

import argparse
import ctypes.util
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

parser = argparse.ArgumentParser()
parser.add_argument("--source", required=True, type=Path)
parser.add_argument("--library", required=True)
parser.add_argument("--command", required=True)
parser.add_argument("--double")

GUEST = """
import ctypes, sys

homefree = ctypes.CDLL(sys.argv[1])
libc = ctypes.CDLL(None)
P, S = ctypes.c_void_p, ctypes.c_size_t

class Owner(ctypes.Structure):
    _fields_ = [("size", S), ("kind", ctypes.c_int), ("allocator", ctypes.c_char_p),
                ("object", ctypes.c_char_p)]

class Registry(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("bytes", ctypes.c_uint32), ("name", ctypes.c_char_p),
                ("release", ctypes.c_char_p), ("flags", ctypes.c_uint64),
                ("owns", ctypes.CFUNCTYPE(ctypes.c_int, P)), ("free_block", P), ("usable_size", P),
                ("resize", P), ("allocate", ctypes.CFUNCTYPE(P, S, S))]

class Other(ctypes.Structure):
    _fields_ = [("allocator", ctypes.c_char_p), ("object", ctypes.c_char_p),
                ("live", ctypes.c_uint64)]

for function, result, *arguments in (
    (homefree.hf_owner_of, ctypes.c_int, P, P),
    (homefree.hf_free, None, P),
    (homefree.hf_usable_size, S, P),
    (libc.free, None, P),
    (libc.realloc, P, P, S),
):
    function.restype, function.argtypes = result, arguments

def load(path):
    module = ctypes.CDLL(path)
    module.member.restype = ctypes.POINTER(Registry)
    return module, module.member()[0]

def name_of(block):
    owner = Owner(size=ctypes.sizeof(Owner))
    assert homefree.hf_owner_of(block, ctypes.byref(owner)) == 0
    return owner.allocator

LIVE = []

@ctypes.CFUNCTYPE(None, ctypes.POINTER(Other), P)
def visit(other, context):
    LIVE.append((other[0].allocator, other[0].live))
"""

HOME = """
module, member = load(sys.argv[2])
block = member.allocate(100, 0)
assert name_of(block) == b"wrong", name_of(block)
assert homefree.hf_usable_size(block) == 128
block = libc.realloc(block, 5000)
assert member.owns(block) == 1
for free in (libc.free, homefree.hf_free):
    block = block or member.allocate(5000, 0)
    assert member.owns(block) == 1
    free(block)
    assert member.owns(block) == 3, member.owns(block)
    block = None
block = member.allocate(1 << 20, 0)
homefree.hf_stats_of_others(visit, None)
assert dict(LIVE)[b"wrong"] >= 1 << 20, LIVE
# Its functions may be called for ever.
import _ctypes
_ctypes.dlclose(module._handle)
libc.free(block)
print("home")
"""

# An allocator without a note, in a member's object.
OTHER = """
#include <stddef.h>
#include <sys/mman.h>

#pragma GCC visibility push(hidden)
static int freed;

void *rpmalloc(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at != MAP_FAILED ? at : NULL; /* no jump to mmap: it would have another caller */
}

void rpfree(void *block)
{
    freed += block != NULL;
}
#pragma GCC visibility pop

void *other(void) { return rpmalloc(4096); }
int others(void) { return freed; }
const char *says(void) { return "mimalloc: warning: "; }
"""

TWO = """
module, member = load(sys.argv[2])
module.other.restype = P
for free in (libc.free, homefree.hf_free):
    block, other = member.allocate(100, 0), module.other()
    assert name_of(block) == b"jemalloc", name_of(block)
    assert name_of(other).decode() == sys.argv[3], name_of(other)
    free(block)
    assert member.owns(block) == 3, member.owns(block)
    if sys.argv[3] == "rpmalloc":
        before = module.others()
        free(other)
        assert module.others() == before + 1, module.others()
print("both")
"""

NOT_READY = """
module, member = load(sys.argv[2])
block = member.allocate(100, 0)
libc.free(block)
print("leaked")
"""

MIMALLOC = """
mimalloc = ctypes.CDLL(sys.argv[2])
mimalloc.mi_malloc.restype, mimalloc.mi_malloc.argtypes = P, [S]
print(name_of(mimalloc.mi_malloc(100)))
"""

# A program that publishes the mimalloc that it is linked with: the member's functions call those
# of another object, through slots that are routed.
BESIDE = """
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    void *volatile block = malloc(100);
    block = realloc(block, 5000);
    if (malloc_usable_size(block) < 5000)
        return 1;
    free(block);
    puts("home");
    return 0;
}
"""

# What is read of the file that is loaded, beside what the dynamic linker reads.
READ = """
def read():
    with open("/proc/self/io") as file:
        return int(file.readline().split()[1])

before = read()
ctypes.CDLL(sys.argv[2])
print(read() - before)
"""

# A reader that knows nothing of homefree sends CPython's blocks home, in a thread that may.
PYTHON = """
python = ctypes.PyDLL(sys.argv[1])
assert python.hf_python_install(None, None) == 0
attached, detached = ctypes.PyDLL(sys.argv[2]), ctypes.CDLL(sys.argv[2])
api = ctypes.pythonapi
api.PyMem_Malloc.restype, api.PyMem_Malloc.argtypes = P, [S]
for reader in (attached, detached):
    reader.who.restype, reader.who.argtypes = ctypes.c_char_p, [P]
    reader.is_ready.argtypes = reader.give_back.argtypes = [P]
blocks = [api.PyMem_Malloc(200) for _ in range(5000)]
new = [block for block in blocks if attached.who(block) == b"CPython"]
assert len(new) > 1000, len(new)
assert attached.who(id(homefree)) in (b"CPython", None)
assert attached.is_ready(new[0]) == 1 and detached.is_ready(new[0]) == 0
taken = {new[-1]}
attached.give_back(new[-1])
assert any(api.PyMem_Malloc(200) in taken for _ in range(5000))
python.hf_malloc.restype = P
assert attached.who(python.hf_malloc(S(100))) == b"homefree"
print("read")
"""

# Pages of the region that are neither the heap's nor CPython's.
SPACES = """
asker = ctypes.CDLL(sys.argv[2])
asker.who.restype, asker.who.argtypes, asker.claims.argtypes = ctypes.c_char_p, [P], [P]
cuda = ctypes.CDLL(sys.argv[3] + "/libcudart.so.13", ctypes.RTLD_GLOBAL)
at = P()
for kind in (1, 2):  # HF_SPACE_PINNED, HF_SPACE_DEVICE
    assert homefree.hf_space_alloc(ctypes.byref(at), kind, 0, S(100), S(0), None) == 0
    assert asker.claims(at) == asker.claims(at.value + 50) == 0, asker.who(at)
print("of no member")
"""
# A program, whose first blocks are guarded samples: each lies on a page between two that nobody may
# touch.
SAMPLES = """
#define main reader_main
#include "reader.c"
#undef main

#include <stdlib.h>

static int is_guarded(const char *block)
{
    char byte;
    const struct iovec to = {&byte, 1}, from = {(void *)(((uintptr_t)block | 4095) + 1), 1};
    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) != 1;
}

int main(void)
{
    int guarded = 0;
    find_members();
    for (int i = 0; i < 50; i++) {
        char *block = malloc(100);
        int claims = 0;
        guarded += is_guarded(block);
        for (unsigned j = 0; j < members_count; j++)
            claims += members[j].registry->owns(block) != ALLOCATOR_REGISTRY_NOT_MINE;
        if (claims != 1 || strcmp(owner_of(block)->registry->name, "homefree") != 0)
            return 1;
    }
    return guarded > 0 ? 0 : 2;
}
"""


class Members(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.work = Path(directory.name)

    def build(self, name, *words, strip=("-s",)):
        made = self.work / name
        export = self.work / "export.c"
        export.write_text(
            '#include "allocator_registry.h"\n'
            "extern const struct allocator_registry wrong_member\n"
            '    __attribute__((visibility("hidden")));\n'
            "const struct allocator_registry *member(void) { return &wrong_member; }\n"
        )
        source = options.source / "tests/registry/wrong.c"
        command = ["cc", "-O2", "-fPIC", "-shared", *strip, "-D_GNU_SOURCE", "-pthread", *words]
        command += [f"-I{options.source / 'include'}", str(source), str(export), "-o", str(made)]
        subprocess.run(command, check=True)
        return made

    def run_guest(self, code, file, *more, conf=""):
        environment = {**os.environ, "HOMEFREE_CONF": conf}
        return subprocess.run(
            [sys.executable, "-c", GUEST + code, options.library, str(file), *more],
            capture_output=True,
            text=True,
            timeout=60,
            env=environment,
        )

    def test_blocks_go_home(self):
        made = self.build("right.so")
        for conf in ("", "guess:off"):
            with self.subTest(conf):
                done = self.run_guest(HOME, made, conf=conf)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "home\n", ""))

    def test_another_allocator_in_a_members_object(self):
        """By its symbols, and by its strings, where a member has the name of a known allocator."""
        other = self.work / "other.c"
        other.write_text(OTHER)
        for flags in "0", "ALLOCATOR_REGISTRY_DENIES_BLOCKS":
            words = ['-DNAME="jemalloc"', f"-DMORE_FLAGS={flags}", str(other)]
            for strip, name in ((), "rpmalloc"), (("-s",), "mimalloc"):
                if strip and flags != "0":
                    continue  # its strings are not looked for
                with self.subTest(flags=flags, name=name):
                    made = self.build("two.so", *words, strip=strip)
                    done = self.run_guest(TWO, made, name)
                    self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "both\n", ""))

    def test_a_member_beside_its_allocator(self):
        if not Path("/usr/include/mimalloc.h").exists():
            self.skipTest("no mimalloc.h")
        source, made = self.work / "beside.c", self.work / "beside"
        source.write_text(BESIDE)
        command = ["cc", "-O0", f"-I{options.source / 'include'}", str(source)]
        command += [str(options.source / "adapters/mimalloc.c"), "-o", str(made), "-lmimalloc"]
        subprocess.run(command, check=True)
        for conf in ("", "guess:off"):
            with self.subTest(conf):
                environment = {"LD_PRELOAD": options.library, "HOMEFREE_CONF": conf}
                done = subprocess.run([made], capture_output=True, text=True, env=environment)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "home\n", ""))

    def test_a_member_that_is_not_ready_is_not_called(self):
        made = self.build("busy.so", "-DREADY=never_ready")
        done = self.run_guest(NOT_READY, made)
        self.assertEqual((done.returncode, done.stdout), (-signal.SIGABRT, ""))
        self.assertIn("the block belongs to the wrong inside", done.stderr)
        self.assertIn("which this thread may not call now", done.stderr)
        done = self.run_guest(NOT_READY, made, conf="unknown_free:leak")
        self.assertEqual((done.returncode, done.stdout), (0, "leaked\n"))

    def build_asker(self):
        source, made = self.work / "asker.c", self.work / "asker.so"
        source.write_text(
            '#include "reader.c"\n'
            "static const struct allocator_registry *owner(const void *p)\n"
            "{\n"
            "    find_members();\n"
            "    const struct member *found = owner_of(p);\n"
            "    return found != NULL ? found->registry : NULL;\n"
            "}\n"
            "int claims(const void *p)\n"
            "{\n"
            "    int count = 0;\n"
            "    find_members();\n"
            "    for (unsigned i = 0; i < members_count; i++)\n"
            "        count += members[i].registry->owns(p) != ALLOCATOR_REGISTRY_NOT_MINE;\n"
            "    return count;\n"
            "}\n"
            "const char *who(const void *p) { return owner(p) != NULL ? owner(p)->name : NULL; }\n"
            "int is_ready(const void *p) { return owner(p)->ready(); }\n"
            "void give_back(void *p) { owner(p)->free_block(p); }\n"
        )
        command = ["cc", "-shared", "-fPIC", "-O2", f"-I{options.source / 'include'}"]
        command += [f"-I{options.source / 'adapters'}", str(source), "-o", str(made), "-ldl"]
        subprocess.run(command, check=True)
        return made

    def test_python(self):
        done = self.run_guest(PYTHON, self.build_asker())
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "read\n", ""))

    def test_memory_of_spaces(self):
        if options.double is None:
            self.skipTest("this build has no spaces")
        with mock.patch.dict(os.environ, {"LD_LIBRARY_PATH": options.double}):
            done = self.run_guest(SPACES, self.build_asker(), options.double)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "of no member\n", ""))

    def test_guarded_samples(self):
        source, made = self.work / "samples.c", self.work / "samples"
        source.write_text(SAMPLES)
        command = ["cc", "-O0", f"-I{options.source / 'include'}", "-pthread", str(source)]
        command += [f"-I{options.source / 'adapters'}", "-o", str(made), "-ldl"]
        subprocess.run(command, check=True)
        report = ["--sample", "1", "--report", str(self.work / "report")]
        command = [options.command, "run", "--diagnose", *report, "--", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_member_is_not_searched(self):
        # Maps memory as allocators do, and has constants in which strings would be looked for.
        large = self.work / "large.c"
        large.write_text(
            "#include <sys/mman.h>\n"
            "__attribute__((used)) static const char constants[12 << 20] = {1};\n"
            "void *map(void)\n"
            "{\n"
            "    void *at = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);\n"
            "    madvise(at, 4096, MADV_DONTNEED);\n"
            "    return at;\n"
            "}\n"
        )
        member = self.build("member.so", str(large))
        plain = self.work / "plain.so"
        command = ["cc", "-shared", "-fPIC", "-s", "-D_GNU_SOURCE", str(large), "-o", str(plain)]
        subprocess.run(command, check=True)
        read = {}
        for name, file, conf in (
            ("plain", plain, ""),
            ("plain, not guessed", plain, "guess:off"),
            ("member", member, ""),
        ):
            done = self.run_guest(READ, file, conf=conf)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            read[name] = int(done.stdout)
        self.assertGreater(read["plain"], 1 << 20)
        self.assertLess(read["plain, not guessed"], 1 << 16)
        self.assertLess(read["member"], 1 << 16)

    def test_nobody_else_is_believed(self):
        library = ctypes.util.find_library("mimalloc")
        if library is None:
            self.skipTest("no mimalloc")
        for conf, name in {"": "b'mimalloc'", "guess:off": "None"}.items():
            done = self.run_guest(MIMALLOC, library, conf=conf)
            self.assertEqual((done.stdout, done.stderr), (f"{name}\n", ""))


if __name__ == "__main__":
    options, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
