"""What a member publishes is found in every kind of object, and by a reader of one file.

The reader (adapters/reader.c) is compiled here, with the header and libc alone. It must find both
members of member.c, in files that each compiler, linker and option makes, and no member in files
whose notes or structures are damaged; so must homefree, and `homefree inspect` in the files.

Usage: test_publishing.py --source DIRECTORY --library LIBHOMEFREE --command HOMEFREE
                          [unittest arguments]
"""

import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--source", required=True, type=Path)
parser.add_argument("--library", required=True)
parser.add_argument("--command", required=True)

BOTH = ["first 1.0", "second (no release)"]
HIDE = ["-fPIC", "-shared", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections"]
HIDE += ["-O2", "-s", "-Wl,--gc-sections"]
LANGUAGES = {"gcc": "c", "clang": "c", "g++": "c++", "clang++": "c++"}
LTO = {"gcc": ("bfd", "gold", "mold"), "clang": ("lld",)}
PROGRAMS = {
    "fixed": ["-no-pie", "-fno-pie"],
    "PIE": ["-pie", "-fPIE"],
    "static": ["-static"],
    "static PIE": ["-static-pie", "-fPIE"],
}
NOTE = (
    '".long 18, 16, 1\\n.asciz \\"AllocatorRegistry\\"\\n.balign 4\\n.quad {}\\n"'
    '".hidden __ehdr_start\\n.quad __ehdr_start - ."'
)
HOSTILE_NOTES = {
    "far below": NOTE.format("-0x10000000000"),
    "far above": NOTE.format("0x7fffffffffffffff"),
    "at the note": NOTE.format("0"),
    "misaligned": NOTE.format("structure - . + 4"),
    "at the structure's end": NOTE.format("structure - . + 104"),
    "in code": NOTE.format("owns - ."),
    "an endless owner": '".long 0xfffffff0, 16, 1\\n.asciz \\"AllocatorRegistry\\""',
    "an endless number": '".long 18, 0xfffffff8, 1\\n.asciz \\"AllocatorRegistry\\"\\n.balign 4"',
    "one number": NOTE.format("structure - .").replace("16, 1", "8, 1"),
    "a cut note": '".long 18, 16"',
    "another type": NOTE.format("structure - .").replace("16, 1", "16, 2"),
    "all ones": '".long -1, -1, -1, -1"',
}
HOSTILE_FIELDS = {
    "another version": "2, sizeof(struct allocator_registry), NAMES, FUNCTIONS, NOTHING",
    "a small size": "1, 64, NAMES, FUNCTIONS, NOTHING",
    "a size beyond the segment": "1, 0x7fffffff, NAMES, FUNCTIONS, NOTHING",
    "no name": "VERSION, NULL, NULL, 0, FUNCTIONS, NOTHING",
    "an empty name": "VERSION, empty, NULL, 0, FUNCTIONS, NOTHING",
    "an endless name": "VERSION, endless, NULL, 0, FUNCTIONS, NOTHING",
    "a name that does not end": "VERSION, endless + 4095, NULL, 0, FUNCTIONS, NOTHING",
    "a name nowhere": "VERSION, (const char *)16, NULL, 0, FUNCTIONS, NOTHING",
    "a release nowhere": 'VERSION, "a", (const char *)16, 0, FUNCTIONS, NOTHING',
    "a line for a name": 'VERSION, "two\\nlines", NULL, 0, FUNCTIONS, NOTHING',
    "no owns": "VERSION, NAMES, NULL, free_block, usable_size, NOTHING",
    "no free": "VERSION, NAMES, owns, NULL, usable_size, NOTHING",
    "data for a function": "VERSION, NAMES, (int (*)(const void *))empty, free_block, usable_size,"
    "NOTHING",
    "libc's function": "VERSION, NAMES, owns, free, usable_size, NOTHING",
    "a trim nowhere": "VERSION, NAMES, FUNCTIONS, NULL, NULL, NULL, NULL, (void (*)(void))16, NULL",
}


def run(*command, **more):
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=60, **more
    )


# Threads free while members are loaded, also blocks of those that have just been.
LOADS = """
#include "allocator_registry.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

static int ended;
static void *given;

static void *work(void *context)
{
    while (!__atomic_load_n(&ended, __ATOMIC_ACQUIRE)) {
        void *block = __atomic_exchange_n(&given, NULL, __ATOMIC_ACQ_REL);
        if (block == NULL)
            block = malloc(100);
        free(block);
    }
    return context;
}

int main(int count, char **files)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 1; i < count; i++) {
        void *file = dlopen(files[i], RTLD_NOW);
        if (file == NULL)
            return 1;
        const struct allocator_registry *(*member)(void);
        *(void **)&member = dlsym(file, "member");
        for (int block = 0; block < 3; block++) {
            __atomic_store_n(&given, member()->allocate(100, 0), __ATOMIC_RELEASE);
            while (__atomic_load_n(&given, __ATOMIC_ACQUIRE) != NULL)
                sched_yield();
        }
    }
    __atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
"""

# A process forks while threads free: the child must not wait for one of them.
FORKS = """
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int ended;

static void *work(void *context)
{
    while (!__atomic_load_n(&ended, __ATOMIC_ACQUIRE)) {
        void *volatile block = malloc(100);
        free(block);
    }
    return context;
}

int main(void)
{
    pthread_t threads[3];
    int status = 0;
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 100 && status == 0; i++) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(30);
            void *volatile block = malloc(100);
            free(block);
            _exit(0);
        }
        waitpid(child, &status, 0);
    }
    __atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return status != 0;
}
"""


def lengthened(file, moves_notes):
    """The file with a last segment that goes on behind its end. There lie all notes, or else the
    structure."""
    made = bytearray(file)
    (start,) = struct.unpack_from("<Q", made, 32)
    (count,) = struct.unpack_from("<H", made, 56)
    headers = {
        at: list(struct.unpack_from("<IIQQQQQQ", made, at))
        for at in range(start, start + 56 * count, 56)
    }
    loads = [header for header in headers.values() if header[0] == 1]
    notes = [header for header in headers.values() if header[0] == 4]
    last = loads[-1]
    behind = last[3] + 0x300000 & -0x1000
    last[5] = last[6] = last[6] + 0x400000
    if moves_notes:
        for header in notes:
            header[3] = behind
    number = made.index(b"AllocatorRegistry\0") + 20
    (load,) = (one for one in loads if one[2] <= number < one[2] + one[5])
    if not moves_notes:
        struct.pack_into("<q", made, number, behind - (number - load[2] + load[3]))
    for at, header in headers.items():
        struct.pack_into("<IIQQQQQQ", made, at, *header)
    return bytes(made)


def moved(file):
    """The file with its notes elsewhere, as patchelf leaves them: in member.c's spare bytes."""
    made = bytearray(file)
    (start,) = struct.unpack_from("<Q", made, 32)
    (count,) = struct.unpack_from("<H", made, 56)
    headers = [
        (at, *struct.unpack_from("<IIQQQQ", made, at))
        for at in range(start, start + 56 * count, 56)
    ]
    spare = made.index(b"spare bytes") + 63 & -64
    (load,) = (one for one in headers if one[1] == 1 and one[3] <= spare < one[3] + one[6])
    for at, kind, _, offset, _, _, size in headers:
        if kind == 4:
            made[spare : spare + size] = made[offset : offset + size]
            made[offset : offset + size] = b"X" * size
            address = spare - load[3] + load[4]
            struct.pack_into("<QQQ", made, at + 8, spare, address, address)
            spare += size + 63 & -64
    return bytes(made)


class Publishing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.reader = cls.work / "reader"
        cls.build("cc", "-Wall", "-Wextra", "-Werror", "-O2", "adapters/reader.c", cls.reader)

    if not hasattr(unittest.TestCase, "enterClassContext"):

        @classmethod
        def enterClassContext(cls, context):
            result = context.__enter__()
            cls.addClassCleanup(context.__exit__, None, None, None)
            return result

    @classmethod
    def build(cls, compiler, *words, language=None):
        *flags, source, out = words
        if language:
            flags += ["-x", language]
        flags += [f"-I{options.source / 'include'}", options.source / source]
        done = run(*compiler.split(), *flags, "-x", "none", "-o", out, "-ldl")
        if done.returncode:
            raise AssertionError(f"{compiler}: {done.stderr}")

    def members(self, *command):
        done = run(*command)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [line.partition(" in ")[0] for line in done.stdout.splitlines()]

    def check_members(self, file, wanted):
        """What the reader and `homefree inspect` find in a file."""
        self.assertEqual(self.members(self.reader, file), wanted)
        done = run(options.command, "inspect", "--json", file)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        (found,) = json.loads(done.stdout)["files"]
        names = [f"{one['name']} {one['release'] or '(no release)'}" for one in found["members"]]
        self.assertEqual(names, wanted)

    def test_every_compiler_and_linker(self):
        made = self.work / "member.so"
        for compiler, language in LANGUAGES.items():
            if shutil.which(compiler) is None:
                continue
            for linker in ("bfd", "lld", "gold", "mold"):
                if shutil.which(f"ld.{linker}") is None:
                    continue
                ways = [[]] + ([["-flto"]] if linker in LTO.get(compiler, ()) else [])
                for way in ways:
                    with self.subTest(compiler=compiler, linker=linker, way=way):
                        words = [*HIDE, *way, f"-fuse-ld={linker}", "tests/registry/member.c", made]
                        self.build(compiler, *words, language=language)
                        self.check_members(made, BOTH)

    def test_linked_in_two_steps(self):
        parts = self.work / "parts.o", self.work / "whole.o", self.work / "whole.so"
        self.build("cc", "-c", "-fPIC", "tests/registry/member.c", parts[0])
        for linker in ("bfd", "lld", "gold", "mold"):
            if shutil.which(f"ld.{linker}") is None:
                continue
            with self.subTest(linker=linker):
                self.assertEqual(run(f"ld.{linker}", "-r", parts[0], "-o", parts[1]).returncode, 0)
                run("cc", "-shared", "-s", parts[1], "-o", parts[2], check=True)
                self.check_members(parts[2], BOTH)

    def test_moved_notes(self):
        made = self.work / "moved.so"
        words = ["-DMEMBER_SPARE", "-w", "tests/registry/member.c", made]
        self.build("cc", "-fPIC", "-shared", "-O2", *words)
        made.write_bytes(moved(made.read_bytes()))
        self.check_members(made, BOTH)

    def test_packed_relocations(self):
        if shutil.which("ld.lld") is None:
            self.skipTest("no lld")
        made = self.work / "packed.so"
        packed = ["-fuse-ld=lld", "-Wl,--pack-dyn-relocs=relr"]
        self.build("cc", *HIDE, *packed, "tests/registry/member.c", made)
        self.check_members(made, BOTH)

    def test_programs(self):
        made = self.work / "program"
        for name, flags in PROGRAMS.items():
            with self.subTest(name):
                words = [
                    *flags,
                    "-w",
                    "-s",
                    "-Wl,--gc-sections",
                    "-DMEMBER_PROGRAM",
                    "-D_GNU_SOURCE",
                ]
                self.build("cc", *words, "tests/registry/member.c", made)
                self.assertEqual(self.members(made), BOTH)

    def test_a_thing_of_other_systems_is_in_its_section(self):
        if shutil.which("clang") is None:
            self.skipTest("no clang")
        resources = run("clang", "-print-resource-dir").stdout.strip()
        made = self.work / "other.o"
        for target, section in {
            "x86_64-apple-darwin": b"__allocreg",
            "arm64-apple-macos11": b"__allocreg",
            "x86_64-pc-windows-msvc": b".allocrg",
            "aarch64-pc-windows-msvc": b".allocrg",
            "x86_64-w64-windows-gnu": b".allocrg",
        }.items():
            with self.subTest(target):
                words = [f"--target={target}", "-ffreestanding", "-nostdinc", "-fms-extensions"]
                words += ["-isystem", f"{resources}/include", "-c", "tests/registry/member.c"]
                self.build("clang", *words, made)
                self.assertIn(section, made.read_bytes())

    def test_in_rust(self):
        if shutil.which("rustc") is None:
            self.skipTest("no rustc")
        crate, made = self.work / "liballocator_registry.rlib", self.work / "rusty.so"
        crate_source = options.source / "adapters/rust/src/lib.rs"
        common = ["rustc", "--edition=2021", "-O", "-Dwarnings"]
        name = ["--crate-name=allocator_registry", "--crate-type=rlib"]
        run(*common, *name, crate_source, "-o", crate, check=True)
        for way in ([], ["-Clto=fat"], ["-Ccodegen-units=16"], ["-Cstrip=symbols"]):
            with self.subTest(way):
                words = ["--crate-type=cdylib", "--extern", f"allocator_registry={crate}", *way]
                source = options.source / "tests/registry/member.rs"
                done = run(*common, *words, source, "-o", made)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.check_members(made, ["rusty (no release)"])

    def test_header_alone(self):
        text = "#include <allocator_registry.h>\n" * 2
        for compiler, language in LANGUAGES.items():
            if shutil.which(compiler) is None:
                continue
            standard = "c99" if language == "c" else "c++11"
            flags = [
                "-Wall",
                "-Wextra",
                "-Wpedantic",
                "-Werror",
                f"-std={standard}",
                "-x",
                language,
            ]
            done = run(
                compiler,
                *flags,
                "-fsyntax-only",
                f"-I{options.source / 'include'}",
                "-",
                input=text,
            )
            self.assertEqual(done.stderr, "")
        header = (options.source / "include/allocator_registry.h").read_text()
        self.assertLessEqual(len(header.splitlines()), 200)
        self.assertEqual(
            [line for line in header.splitlines() if line.startswith("#include")],
            ["#include <stddef.h>", "#include <stdint.h>"],
        )

    def test_hostile(self):
        made = self.work / "hostile.so"
        cases = {name: f"-DHOSTILE_NOTE={note}" for name, note in HOSTILE_NOTES.items()}
        cases |= {name: f"-DHOSTILE_FIELDS={fields}" for name, fields in HOSTILE_FIELDS.items()}
        cases["nothing wrong"] = "-DHOSTILE_FIELDS=VERSION, NAMES, FUNCTIONS, NOTHING"
        for name, definition in cases.items():
            with self.subTest(name):
                wanted = ["hostile 1.0"] if name == "nothing wrong" else []
                words = ["-w", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", definition]
                self.build("cc", *words, "tests/registry/hostile.c", made)
                self.check_members(made, wanted)
                self.check_homefree(made, wanted)

    def build_preloaded(self, name, program):
        """A program, and what runs it with the reader."""
        source, made = self.work / f"{name}.c", self.work / name
        source.write_text(program)
        self.build("cc", "-pthread", source, made)
        library = self.work / "reader.so"
        words = ["-shared", "-fPIC", "-DREADER_PRELOAD", "adapters/reader.c", library]
        self.build("cc", *words)
        return lambda *files: run(made, *files, env={**os.environ, "LD_PRELOAD": str(library)})

    def test_threads_free_while_members_are_loaded(self):
        loads = self.build_preloaded("loads", LOADS)
        made = self.work / "member.so"
        self.build("cc", *HIDE, "-DMEMBER_EXPORTED", "tests/registry/member.c", made)
        files = [self.work / f"member{i}.so" for i in range(20)]
        for file in files:
            shutil.copy(made, file)
        for _ in range(5):
            done = loads(*files)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_process_forks_while_threads_free(self):
        done = self.build_preloaded("forks", FORKS)()
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_behind_the_end_of_the_file(self):
        whole, made = self.work / "whole.so", self.work / "hostile.so"
        fields = "-DHOSTILE_FIELDS=VERSION, NAMES, FUNCTIONS, NOTHING"
        self.build("cc", "-w", "-O1", "-fPIC", "-shared", fields, "tests/registry/hostile.c", whole)
        for moves_notes in (True, False):
            with self.subTest(moves_notes=moves_notes):
                made.write_bytes(lengthened(whole.read_bytes(), moves_notes))
                self.check_members(made, [])
                self.check_homefree(made, [])

    def check_homefree(self, made, wanted):
        code = (
            "import ctypes, sys\n"
            "library = ctypes.CDLL(sys.argv[1])\n"
            "ctypes.CDLL(sys.argv[2])\n"
            "seen = []\n"
            "class Row(ctypes.Structure):\n"
            "    _fields_ = [('allocator', ctypes.c_char_p), ('object', ctypes.c_char_p)]\n"
            "@ctypes.CFUNCTYPE(None, ctypes.POINTER(Row), ctypes.c_void_p)\n"
            "def visit(row, context):\n"
            "    seen.append((row[0].allocator, row[0].object))\n"
            "library.hf_trim(visit, None)\n"
            "print(any(b'hostile' in name for name, _ in seen))\n"
        )
        done = run(sys.executable, "-c", code, options.library, made)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, f"{bool(wanted)}\n")


if __name__ == "__main__":
    options, rest = parser.parse_known_args()
    os.environ["LC_ALL"] = "C"
    unittest.main(argv=[sys.argv[0], *rest])
