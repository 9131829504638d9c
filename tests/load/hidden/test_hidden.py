"""Modules with a hidden allocator are adopted by hf_adopt_file(), or refused with a reason.

Usage: test_hidden.py RUNNER --homefree PROGRAM --modules FILE… --open FILE
                      --hooked [FILE] --doubles FILE FILE [unittest arguments]
"""

import argparse
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import unittest
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import adopting  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("runner")
parser.add_argument("--modules", nargs="+", type=Path)
parser.add_argument("--open", type=Path)
parser.add_argument("--user", type=Path)
parser.add_argument("--intruders", nargs="+", type=Path)
parser.add_argument("--hooked", nargs="*", type=Path)
parser.add_argument("--homefree", type=Path)
parser.add_argument("--doubles", nargs=2, type=Path)

NOTSUP, NOEXEC = 95, 8


class Case(adopting.Case):
    def run_it(self, mode, file, **more):
        return super().run_it(options.runner, mode, file, **more)

    def asked(self, file):
        return super().asked("file", file)

    def module(self, name):
        return next(path for path in options.modules if path.name == f"{name}.so")


class Crossings(Case):
    def test_a_module_as_it_is_dies(self):
        result = self.run_it("as-it-is", self.module("inner-c-O2"))
        if "static TLS" not in result.stderr:
            self.assertIn(-result.returncode, (signal.SIGSEGV, signal.SIGABRT))

    def test_every_build(self):
        for file in options.modules:
            with self.subTest(file.name):
                self.succeeds("crossings", file)

    def test_names_of_the_old_allocator_are_not_found(self):
        self.succeeds("names", options.doubles[0])

    def test_on_threads_that_come_and_go(self):
        self.succeeds("threads", self.module("inner-c-O2"))
        self.succeeds("threads", self.module("inner-cc-O2"))

    def test_on_a_thread_that_is_cancelled(self):
        self.succeeds("cancelled", self.module("inner-c-O2"))

    def test_in_a_child(self):
        self.succeeds("forked", self.module("inner-c-O2"))

    def test_a_later_dlopen_of_the_file_finds_the_copy(self):
        self.succeeds("again", self.module("inner-c-O2").resolve())

    def test_a_library_without_a_soname_that_another_needs(self):
        self.succeeds("needed", options.user)
        self.assertEqual(len(self.copies()), 1)

    def test_slots_are_read_only(self):
        result = self.run_it("sealed", self.module("inner-c-O2"))
        self.assertEqual(-result.returncode, signal.SIGSEGV, result.stderr)

    def test_needs_no_static_tls(self):
        _, copy = self.asked(self.module("inner-c-O2"))
        headers = subprocess.run(
            ["readelf", "-lW", copy], capture_output=True, text=True, check=True
        ).stdout
        self.assertNotRegex(headers, r"\n  TLS ")


class Process(Case):
    """A whole process in which dlopen() adopts."""

    def test_option(self):
        self.environment["HOMEFREE_CONF"] = "adopt:all"
        for name in ("inner-c-O2", "inner-cc-O2"):
            self.succeeds("opened", self.module(name))
        self.assertEqual(len(self.copies()), 2)

    def test_what_is_release_only_is_loaded(self):
        self.environment["HOMEFREE_CONF"] = "adopt:all"
        self.environment["GLIBC_TUNABLES"] = "glibc.rtld.optional_static_tls=8192"
        self.succeeds("as-it-is", options.open)

    def test_command(self):
        result = subprocess.run(
            [
                options.homefree,
                "run",
                "--adopt",
                options.runner,
                "opened",
                self.module("inner-c-O2"),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            env=self.environment,
        )
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "done\n", ""))
        self.assertEqual(len(self.copies()), 1)


class Cache(Case):
    def test_the_file_is_not_changed(self):
        file = self.module("inner-c-O2")
        before = file.read_bytes()
        self.succeeds("crossings", file)
        self.assertEqual(file.read_bytes(), before)

    def test_a_copy_is_made_once(self):
        file = self.module("inner-c-O2")
        first = self.asked(file)
        (copy,) = self.copies()
        made = copy.stat()
        self.assertEqual(self.asked(file), first)
        self.assertEqual(self.copies(), [copy])
        self.assertEqual(copy.stat().st_mtime_ns, made.st_mtime_ns)
        self.assertEqual(copy.stat().st_mode & 0o777, 0o600)

    def test_a_changed_file_gets_another_copy(self):
        file = self.directory / "module.so"
        shutil.copy(self.module("inner-c-O2"), file)
        _, first = self.asked(file)
        shutil.copy(self.module("inner-c-O0"), self.directory / "new.so")
        os.replace(self.directory / "new.so", file)
        _, second = self.asked(file)
        self.assertNotEqual(first, second)
        self.assertEqual(self.copies(), [Path(second)])

    def test_copies_of_files_that_are_gone_are_removed(self):
        file = self.directory / "module.so"
        shutil.copy(self.module("inner-c-O2"), file)
        self.asked(file)
        file.unlink()
        _, other = self.asked(self.module("inner-c-O2"))
        self.assertEqual(self.copies(), [Path(other)])

    def test_a_damaged_copy_is_made_again(self):
        file = self.module("inner-c-O2")
        _, copy = self.asked(file)
        whole = Path(copy).read_bytes()
        for damaged in (b"", whole[:1000], whole[:-1], b"\0" * len(whole)):
            Path(copy).write_bytes(damaged)
            self.assertEqual(self.asked(file), (1, copy))
            self.assertEqual(Path(copy).read_bytes(), whole)

    def test_a_directory_in_which_others_write_is_not_used(self):
        (self.cache / "homefree/adopted").mkdir(parents=True)
        (self.cache / "homefree/adopted").chmod(0o777)
        result, copy = self.asked(self.module("inner-c-O2"))
        self.assertEqual(result, 1)
        self.assertNotIn(str(self.cache), copy)
        self.assertEqual(self.copies(), [])

    def test_a_link_in_place_of_a_copy_is_not_followed(self):
        file = self.module("inner-c-O2")
        _, copy = self.asked(file)
        victim = self.directory / "victim"
        shutil.move(copy, victim)
        os.symlink(victim, copy)
        before = victim.read_bytes()
        self.assertEqual(self.asked(file), (1, copy))
        self.assertFalse(Path(copy).is_symlink())
        self.assertEqual(victim.read_bytes(), before)

    def test_without_a_cache_the_copy_goes_with_the_process(self):
        file = self.directory / "module.so"
        shutil.copy(self.module("inner-c-O2"), file)
        for name in ("XDG_CACHE_HOME", "HOME"):
            self.environment.pop(name, None)
        result, copy = self.asked(file)
        self.assertEqual(result, 1)
        self.assertFalse(Path(copy).exists())
        self.succeeds("crossings", file)
        self.assertEqual(
            [entry.name for entry in self.directory.iterdir() if entry.is_file()], ["module.so"]
        )

    def test_many_processes_at_once(self):
        file = self.module("inner-cc-O2")
        processes = [
            subprocess.Popen(
                [options.runner, "crossings", file],
                env=self.environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(8)
        ]
        for process in processes:
            error = process.communicate(timeout=120)[1]
            self.assertEqual((process.returncode, error), (0, ""))
        self.assertEqual(len(self.copies()), 1)


class Refused(Case):
    def refused(self, file, error, *words):
        result, text = self.asked(file)
        self.assertEqual(result, -error, text)
        for word in words:
            self.assertIn(word, text)
        self.assertEqual(self.copies(), [])
        self.assertNotIn("\n", text)

    def test_hooks_that_nobody_would_call(self):
        for file in options.hooked:
            self.refused(file, NOTSUP, "MallocHook", " uses ", "a way into its allocator")

    def test_stripped(self):
        """Debian's libjemalloc, of whose functions hardly any has a name: the reason says that."""
        for file in Path("/usr/lib").glob("*/libjemalloc.so.2"):
            result, text = self.asked(file)
            self.assertEqual(result, -NOTSUP, text)
            self.assertRegex(text, "stripped|linkage table")
            self.assertNotIn("without a name", text)

    def test_heaps_of_its_own(self):
        self.refused(options.doubles[1], NOTSUP, "_mi_page_alloc")

    def test_code_beside_the_allocator_shares_its_state(self):
        for name, words in {
            "field": ("uses data of its allocator (state)",),
            "slot": ("uses data of its allocator (mi_used)",),
            "merged": ("at link time", "mi_"),
        }.items():
            with self.subTest(name):
                file = next(path for path in options.intruders if name in path.name)
                self.refused(file, NOTSUP, *words)

    def test_a_file_that_is_loaded_already(self):
        self.environment["GLIBC_TUNABLES"] = "glibc.rtld.optional_static_tls=8192"
        output = self.succeeds("loaded", self.module("inner-c-O2"))
        self.assertIn("loaded already", output)

    def test_a_stripped_file_is_loaded_as_it_is(self):
        file = self.directory / "module.so"
        subprocess.run(["strip", "-s", "-o", file, self.module("inner-c-O2")], check=True)
        self.assertEqual(self.asked(file), (0, str(file)))

    def test_a_file_that_needs_homefree(self):
        runner = os.path.abspath(options.runner)
        self.assertEqual(self.asked(runner), (0, runner))

    def test_a_stripped_file_with_its_debug_file(self):
        file = self.directory / "module.so"
        subprocess.run(["strip", "-s", "-o", file, self.module("inner-c-O2")], check=True)
        subprocess.run(
            [
                "objcopy",
                "--only-keep-debug",
                self.module("inner-c-O2"),
                self.directory / "module.so.debug",
            ],
            check=True,
        )
        self.succeeds("crossings", file)

    def test_a_file_that_is_not_there(self):
        self.assertEqual(self.asked("/no/such/file.so"), (-2, "No such file or directory"))

    def test_no_module_at_all(self):
        self.refused("/bin", 21)
        self.refused(self.directory / "missing.so", 2)
        text = self.directory / "text.so"
        text.write_text("this is no object")
        self.refused(text, NOEXEC)
        cut = self.directory / "cut.so"
        cut.write_bytes(self.module("inner-c-O2").read_bytes()[:100000])
        self.assertLess(self.asked(cut)[0], 0)


class Inspect(Case):
    def inspected(self, file):
        result = subprocess.run(
            [options.homefree, "inspect", "--adoption", "--json", file],
            capture_output=True,
            text=True,
            timeout=60,
        )
        (found,) = json.loads(result.stdout)["files"]
        return {finding["rule"]: finding["message"] for finding in found["findings"]}

    def test_what_can_be_adopted(self):
        findings = self.inspected(self.module("inner-c-O2"))
        self.assertRegex(findings["adoptable"], r"leads \d\d of its allocator's functions")
        self.assertNotIn("not-adoptable", findings)

    def test_what_cannot(self):
        self.assertIn("_mi_page_alloc", self.inspected(options.doubles[1])["not-adoptable"])
        file = self.directory / "module.so"
        subprocess.run(["strip", "-s", "-o", file, self.module("inner-c-O2")], check=True)
        self.assertIn("no names", self.inspected(file)["not-adoptable"])

    def test_in_an_archive(self):
        archive = self.directory / "some.zip"
        with zipfile.ZipFile(archive, "w") as writer:
            writer.write(self.module("inner-c-O2"), "some/inner.so")
        self.assertIn("adoptable", self.inspected(archive))


class Symbols(Case):
    """Symbol tables that lie. Nothing is patched that the unwind table does not confirm."""

    def symbols(self, content):
        """Offsets of the entries of .symtab by name, from the section headers."""
        (start,) = struct.unpack_from("<Q", content, 40)
        size, count = struct.unpack_from("<HH", content, 58)
        sections = [
            struct.unpack_from("<IIQQQQIIQQ", content, start + i * size) for i in range(count)
        ]
        (table,) = (section for section in sections if section[1] == 2)
        strings = sections[table[6]]
        found = {}
        for offset in range(table[4], table[4] + table[5], 24):
            (name,) = struct.unpack_from("<I", content, offset)
            end = content.index(b"\0", strings[4] + name)
            found[content[strings[4] + name : end].decode()] = offset
        return found

    def changed(self, name, field, value):
        """A module whose symbol of that name lies."""
        content = bytearray(self.module("inner-c-O2").read_bytes())
        offset = self.symbols(bytes(content))[name]
        at, form = {"value": (8, "<Q"), "size": (16, "<Q"), "info": (4, "<B")}[field]
        (before,) = struct.unpack_from(form, content, offset + at)
        struct.pack_into(form, content, offset + at, value(before))
        file = self.directory / f"lies-{name}-{field}.so"
        file.write_bytes(content)
        return file

    def test_a_symbol_in_the_middle_of_a_function(self):
        for name in ("malloc", "free", "mallocx"):
            result, text = self.asked(self.changed(name, "value", lambda value: value + 5))
            self.assertEqual(result, -NOTSUP)
            self.assertIn(name, text)

    def test_a_symbol_that_lies_in_data(self):
        result, _ = self.asked(self.changed("free", "value", lambda value: 0x40))
        self.assertIn(result, (-NOTSUP, 1))

    def test_a_size_that_lies(self):
        for size in (0, 1, 1 << 40, (1 << 64) - 1):
            file = self.changed("free", "size", lambda _, size=size: size)
            self.succeeds("crossings", file)

    def test_a_function_that_is_chosen_late(self):
        result, text = self.asked(self.changed("free", "info", lambda info: info | 0xA))
        self.assertEqual(result, -NOTSUP)
        self.assertIn("IFUNC", text)


if __name__ == "__main__":
    options, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
