"""`homefree doctor --core`: core files of real crashes are explained, and what is not known is
said; packed, moved, cut off and hostile ones.

Usage: test_core.py HOMEFREE LIBHOMEFREE PACKAGE [unittest arguments]. PACKAGE: the directory in
which the command's package lies. The compiler is $CC, or cc."""

import ctypes
import json
import lzma
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

import cores

HOMEFREE, LIBRARY, PACKAGE = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
sys.path.append(PACKAGE)
from command import core_file, core_unpack, start  # noqa: E402

QUICK = (
    "double-free",
    "mapped",
    "overrun",
    "libc-frees mimalloc",
    "libc-frees homefree",
    "python-use-after-free",
)


class Core(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            ctypes.CDLL("libdw.so.1")
        except OSError:
            raise unittest.SkipTest("no libdw.so.1") from None
        cls.directory = Path(tempfile.mkdtemp(prefix="homefree-test-core-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.crashes = cores.Crashes(cls.directory, LIBRARY)
        cls.made = {}

    def core(self, case):
        if case not in self.made:
            try:
                self.made[case] = self.crashes.core(case)
            except cores.Missing as why:
                self.skipTest(str(why))
        return self.made[case]

    def doctor(self, path, *options, status=1):
        result = subprocess.run(
            [HOMEFREE, "doctor", "--core", path, *options], capture_output=True, timeout=100
        )
        self.assertEqual(result.returncode, status, result)
        if status == 1:
            self.assertEqual(result.stderr, b"")
        return result

    def explained(self, path, *options):
        return json.loads(self.doctor(path, "--json", *options).stdout)

    def refused(self, path, why):
        result = self.doctor(path, status=3)
        self.assertEqual(result.stdout, b"")
        self.assertIn(why, result.stderr)
        self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)

    def test_names_the_pointer_the_owner_and_who_freed_it(self):
        for case in QUICK:
            with self.subTest(case):
                path, pointer = self.core(case)
                cores.check(self, case, self.explained(path), pointer)

    def test_says_it_in_words(self):
        path, pointer = self.core("static")
        text = self.doctor(path).stdout.decode()
        self.assertIn(f"Pointer:   {pointer:#x}", text)
        self.assertIn("static data of crashes: shared", text)
        self.assertIn("Freed by:  crashes, in drop, with free of libc", text)
        self.assertIn("core-static-free: Return a copy", text)

    def test_says_that_it_does_not_know_a_pointer_that_nobody_has_any_more(self):
        path, _ = self.core("lost")
        document = self.explained(path)
        self.assertIsNone(document["pointer"])
        self.assertIsNone(document["owner"])
        self.assertEqual(document["finding"], "log-foreign-free")
        self.assertIn("the pointer", document["unknown"][0])

    def test_blames_no_allocator_for_the_crash_of_others(self):
        document = self.explained(self.core("no-allocator")[0])
        self.assertEqual((document["finding"], document["fault"]), ("core-crash", 8))
        self.assertEqual((document["pointer"], document["freed"]), (None, None))
        self.assertEqual(document["thread"]["stack"][0]["symbol"], "delete_node")

    def test_blames_no_block_that_the_code_had_read_before_it_was_freed(self):
        document = self.explained(self.core("gone")[0])
        self.assertEqual(document["thread"]["stack"][0]["symbol"], "value_of_gone")
        self.assertEqual((document["finding"], document["pointer"]), ("core-crash", None))

    def test_finds_files_below_a_root_by_build_id_and_needs_no_debug_symbols(self):
        path, pointer = self.core("static")
        before = self.explained(path)
        root = self.directory / "root"
        root.mkdir()
        for number, frame in enumerate({e["object"]: 0 for e in before["thread"]["stack"]}):
            shutil.copy(frame, root / f"moved-{number}")
        after = self.explained(path, "--root", root)
        cores.check(self, "static", after, pointer)
        stripped = self.directory / "stripped"
        shutil.copy(self.crashes.program, stripped)
        subprocess.run(["strip", stripped], check=True)
        document = self.explained(path, "--root", root, "--exe", stripped)
        self.assertEqual((document["pointer"], document["finding"]), (pointer, "core-static-free"))
        self.assertIsNone(document["freed"]["symbol"])
        another = self.explained(path, "--root", self.directory / "nowhere")
        self.assertIsNone(another["pointer"])
        self.assertIn("files that are not here", " ".join(another["unknown"]))

    def test_unpacks(self):
        path, pointer = self.core("static")
        for program, end in (("xz", "xz"), ("zstd", "zst"), ("lz4", "lz4")):
            if shutil.which(program):
                packed, short = (self.directory / f"{name}.{end}" for name in ("core", "short"))
                with open(path, "rb") as data, open(packed, "wb") as out:
                    subprocess.run([program, "-1c"], stdin=data, stdout=out, check=True)
                with core_unpack.unpacked(packed) as unpacked:
                    self.assertEqual(Path(unpacked).read_bytes(), path.read_bytes(), program)
                short.write_bytes(packed.read_bytes()[:4000])
                with self.assertRaisesRegex(start.Failure, "cannot unpack"):
                    core_unpack.unpacked(short).__enter__()
        if packed.exists():
            self.assertEqual(self.explained(packed)["pointer"], pointer)

    def test_refuses_what_takes_too_much_memory(self):
        packed = bytearray(lzma.compress(bytes(1000)))
        end = 12 + 4 * packed[12]
        packed[packed.index(0x21, 12) + 2] = 40  # the dictionary: 4 GiB
        packed[end : end + 4] = struct.pack("<I", zlib.crc32(packed[12:end]))
        (self.directory / "greedy.xz").write_bytes(packed)
        with self.assertRaisesRegex(start.Failure, "[Mm]emory"):
            core_unpack.unpacked(self.directory / "greedy.xz").__enter__()

    def test_refuses_what_is_cut_off_or_makes_no_sense(self):
        whole = self.core("static")[0].read_bytes()
        broken = self.directory / "broken"
        first = 64 + 56  # the second segment; the first has the notes
        for change, why in (
            (whole[:70], "cut off"),
            (whole[: len(whole) // 2], "cut off"),
            (b"\x7fELF" + whole[:2000], "no core file"),
            (whole[:16] + b"\3\0" + whole[18:], "no core file"),
            (_with(whole, 54, "H", 57), "damaged"),
            (_with(whole, 32, "Q", 1 << 63), "damaged"),
            (_with(whole, first + 16, "Q", 1), "makes no sense"),
            (
                _with(whole, first + 56 + 16, "Q", struct.unpack_from("<Q", whole, first + 16)[0]),
                "overlap",
            ),
            (_with(whole, 64 + 32, "Q", 1 << 62), "cut off"),
            (_with(whole, struct.unpack_from("<Q", whole, 72)[0] + 4, "I", 1 << 31), "damaged"),
            (_with(whole, first + 40, "Q", 1 << 63), "overlap"),
        ):
            broken.write_bytes(change)
            with self.assertRaisesRegex(start.Failure, why):
                core_file.Core(broken)
        self.refused(broken, b"overlap")
        self.refused(self.directory, b"regular file")
        self.refused(self.directory / "none", b"cannot read")
        self.assertEqual(self.doctor(self.directory, "--pid", "1", status=2).stdout, b"")


def _with(data, at, form, value):
    return data[:at] + struct.pack(f"<{form}", value) + data[at + struct.calcsize(f"<{form}") :]


if __name__ == "__main__":
    unittest.main()
