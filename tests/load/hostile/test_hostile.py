"""Adoption where the system refuses what it would use: a way around it, or a clear error, and the
module as it was. Nothing half done is ever loaded.

Usage: test_hostile.py FORBID RUNNER STORM RELEASE_ONLY_RUNNER MODULE… [unittest arguments]
"""

import os
import re
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import adopting  # noqa: E402

FORBID, RUNNER, STORM, RELEASE_ONLY = (os.path.abspath(name) for name in sys.argv[1:5])
MODULES = {Path(name).name: Path(name).resolve() for name in sys.argv[5:] if name.endswith(".so")}
ADOPTABLE = MODULES["inner-c-O2.so"]
GUARDED = MODULES["release-only-c-O2.so"]
LIVE = MODULES["release-only-heaps-O2.so"]
REFUSED = MODULES["release-only-reaches.so"]
EFBIG = 27


class Case(adopting.Case):
    def setUp(self):
        super().setUp()
        self.environment["GLIBC_TUNABLES"] = "glibc.rtld.optional_static_tls=16384"

    def run_it(self, forbidden, *command, wrapper=()):
        result = super().run_it(*wrapper, FORBID, *forbidden, "--", *command)
        if result.returncode == 77:
            self.skipTest(f"no seccomp here: {result.stderr}")
        return result

    def asked(self, file, *forbidden, **more):
        return super().asked(forbidden, RUNNER, "file", file, **more)


class Sandboxes(Case):
    def test_what_is_not_needed(self):
        forbidden = ("memfd_create", "membarrier", "process_vm_readv", "copy_file_range", "ioctl")
        self.succeeds(forbidden, RUNNER, "crossings", ADOPTABLE)
        self.assertEqual(len(self.copies()), 1)

    def test_guards_without_reading_memory_by_a_system_call(self):
        self.succeeds(("process_vm_readv",), RELEASE_ONLY, "crossings", GUARDED)

    def test_code_that_is_loaded_stays_as_it_is(self):
        """The storm goes on in the module as it was."""
        for forbidden, words in (
            ("membarrier", "membarrier(2) is forbidden"),
            ("exec-memory", "forbids this process new code (Permission denied)"),
            ("mremap", "cannot be changed (Operation not permitted)"),
        ):
            output = self.succeeds((forbidden,), STORM, LIVE, 4, 100)
            self.assertRegex(output, r"^-\d+ it is loaded already, ")
            self.assertIn(words, output)
            self.assertIn("; load it through homefree", output)


class Files(Case):
    def test_a_limit_on_the_size_of_files(self):
        """Writing past it would end the process by SIGXFSZ."""
        self.assertEqual(self.asked(ADOPTABLE, "file-size")[0], -EFBIG)
        self.assertEqual(self.copies("*"), [])
        self.succeeds((), RUNNER, "crossings", ADOPTABLE)

    def test_the_name_cannot_be_given(self):
        """Then the copy goes with the process."""
        result, copy = self.asked(ADOPTABLE, "renameat")
        self.assertEqual(result, 1)
        self.assertFalse(Path(copy).exists())
        self.assertEqual(self.copies("*"), [])
        self.assertEqual(self.copies(".*"), [])

    def mounted(self, options):
        """What runs a command with a small file system in place of the cache."""
        wrapper = [
            "unshare", "-m", "sh", "-ec",
            f'mount -t tmpfs -o {options} none "{self.cache}"; exec "$@"', "sh",
        ]  # fmt: skip
        if shutil.which("unshare") is None:
            self.skipTest("no unshare here")
        probe = subprocess.run([*wrapper, "true"], capture_output=True, text=True)
        if probe.returncode != 0:
            self.skipTest(f"nothing can be mounted here: {probe.stderr.strip()}")
        return wrapper

    def test_a_full_disk(self):
        result, copy = self.asked(ADOPTABLE, wrapper=self.mounted("size=64k,mode=700"))
        self.assertEqual(result, 1)
        self.assertNotIn(str(self.cache), copy)

    def test_no_execution(self):
        result, copy = self.asked(ADOPTABLE, wrapper=self.mounted("noexec,mode=700"))
        self.assertEqual(result, 1)
        self.assertNotIn(str(self.cache), copy)

    def test_killed_meanwhile(self):
        """What is left is never loaded, and is removed later."""
        left = 0
        for number in range(12):
            process = subprocess.Popen(
                [RUNNER, "file", ADOPTABLE],
                env=self.environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            time.sleep(number * 0.006)
            process.kill()
            process.wait()
            for copy in self.copies():
                copy.unlink()
            left = len(self.copies(".*"))
        for unfinished in self.copies(".*"):
            os.utime(unfinished, (1, 1))
        self.succeeds((), RUNNER, "crossings", ADOPTABLE)
        self.assertEqual(len(self.copies("*")), 1)
        self.assertEqual(self.copies(".*"), [], f"{left} were left")

    def test_a_half_written_copy(self):
        self.succeeds((), RUNNER, "crossings", ADOPTABLE)
        (copy,) = self.copies()
        whole = copy.read_bytes()
        for size in (0, 100, len(whole) // 2, len(whole) - 1):
            copy.write_bytes(whole[:size])
            self.succeeds((), RUNNER, "crossings", ADOPTABLE)
            self.assertEqual(copy.read_bytes(), whole)


class Refusals(Case):
    def test_are_kept(self):
        first = self.asked(REFUSED)
        self.assertEqual(first[0], -95)
        (kept,) = self.copies("*.refused")
        made = kept.stat()
        self.assertEqual(made.st_mode & 0o777, 0o600)
        self.assertEqual(self.asked(REFUSED), first)
        self.assertEqual(kept.stat().st_mtime_ns, made.st_mtime_ns)

    def test_what_is_kept_counts(self):
        self.asked(REFUSED)
        (kept,) = self.copies("*.refused")
        kept.write_bytes(re.sub(rb"mi_heap_new", b"mi_HEAP_new", kept.read_bytes()))
        self.assertIn("mi_HEAP_new", self.asked(REFUSED)[1])

    def test_damaged_ones_do_not_count(self):
        first = self.asked(REFUSED)
        (kept,) = self.copies("*.refused")
        whole = kept.read_bytes()
        for damaged in (b"", whole[:20], whole[:-1], whole + b"\0", b"\0" * len(whole)):
            kept.write_bytes(damaged)
            self.assertEqual(self.asked(REFUSED), first)
            self.assertEqual(kept.read_bytes(), whole)

    def test_those_of_others_do_not_count(self):
        first = self.asked(REFUSED)
        (kept,) = self.copies("*.refused")
        kept.write_bytes(kept.read_bytes().replace(b"mi_heap_new", b"mi_HEAP_new"))
        kept.chmod(0o622)
        self.assertEqual(self.asked(REFUSED), first)

    def test_go_with_their_file(self):
        file = self.directory / "module.so"
        shutil.copy(REFUSED, file)
        self.asked(file)
        self.assertEqual(len(self.copies("*.refused")), 1)
        file.unlink()
        self.asked(ADOPTABLE)
        self.assertEqual(len(self.copies("*.refused")), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
