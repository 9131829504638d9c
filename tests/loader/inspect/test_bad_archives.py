"""Archives that are damaged, hostile or strange: `homefree inspect` says so in one line for each,
and inspects the rest.

Usage: test_bad_archives.py HOMEFREE LIBRARY SHIM [unittest arguments]
"""

import io
import json
import struct
import tarfile
import warnings
import xml.etree.ElementTree
import zipfile

from command import InspectTest, inspect, main


class BadArchives(InspectTest):
    def setUp(self):
        super().setUp()
        self.good = self.module("good.so").read_bytes()

    def assert_told(self, path, *lines, others=0):
        """A line for each problem, in this order, status 3, and so many objects inspected."""
        done = inspect("--json", path)
        self.assertEqual(done.returncode, 3, done)
        errors = done.stderr.decode().splitlines()
        self.assertEqual(len(errors), len(lines), errors)
        for error, line in zip(errors, lines):
            self.assertRegex(error, rf"^homefree inspect: cannot inspect '.*': .*{line}")
            self.assertLess(len(error), 400)
        files = json.loads(done.stdout)["files"]
        self.assertEqual(sum(file["error"] is None for file in files), others)

    def changed(self, name, members, change):
        """An archive of which the bytes of the central directory's first entry are changed."""
        path = self.wheel(name, members)
        content = bytearray(path.read_bytes())
        change(content, content.index(b"PK\x01\x02"))
        path.write_bytes(content)
        return path

    def test_no_archive(self):
        self.assert_told(self.file("text.whl", "hello"), "no zip archive")
        self.assert_told(self.file("empty.whl", b""), "no zip archive")
        self.assert_told(self.file("text.tar.gz", "hello"), "damaged")
        self.assert_told(self.directory / "missing.whl", "No such file")

    def test_a_truncated_archive(self):
        whole = self.wheel("x.whl", {"x/it.so": self.good}).read_bytes()
        for size in 10, len(whole) // 2, len(whole) - 1:
            with self.subTest(size):
                path = self.file("short.whl", whole[:size])
                self.assert_told(path, "cut short")
                self.assertIn(b"short.whl: nothing inspected, 1 problem\n", inspect(path).stdout)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            member = tarfile.TarInfo("it.so")
            member.size = len(self.good)
            archive.addfile(member, io.BytesIO(self.good))
        half = packed.getvalue()[: len(packed.getvalue()) // 2]
        self.assert_told(self.file("short.tar.gz", half), "ends|end of data|end-of-stream")

    def test_a_file_before_the_archive_is_no_problem(self):
        whole = self.wheel("x.whl", {"x/it.so": self.good}).read_bytes()
        path = self.file("prefixed.whl", b"#!/bin/sh\n" + whole)
        self.assertEqual(inspect(path).returncode, 0)

    def test_damaged_members(self):
        def damage(content, entry):
            content[60:80] = bytes(20)

        path = self.changed("x.whl", {"x/it.so": self.good, "y/it.so": self.good}, damage)
        self.assert_told(path, "damaged", others=1)
        self.assertIn(b"x.whl: 1 shared object, clean, 1 problem\n", inspect(path).stdout)

    def test_an_offset_outside_the_file(self):
        def far(content, entry):
            struct.pack_into("<I", content, content.index(b"PK\5\6") + 16, 0x7FFFFFFF)

        self.assert_told(self.changed("x.whl", {"it.so": self.good}, far), "damaged|cut short")

    def test_a_checksum_that_does_not_fit(self):
        def wrong_sum(content, entry):
            content[entry + 16] ^= 1

        path = self.changed("x.whl", {"it.so": self.good}, wrong_sum)
        self.assert_told(path, "CRC-32")

    def test_a_size_that_lies(self):
        for lie, told in (1000, "CRC-32"), (len(self.good) * 5, "not what the archive says"):

            def wrong_size(content, entry, lie=lie):
                struct.pack_into("<I", content, entry + 24, lie)

            with self.subTest(lie):
                path = self.changed("x.whl", {"it.so": self.good}, wrong_size)
                self.assert_told(path, told)

    def test_encrypted_members(self):
        def encrypted(content, entry):
            content[entry + 8] |= 1
            content[6] |= 1

        path = self.changed("x.whl", {"it.so": self.good, "y.so": self.good}, encrypted)
        self.assert_told(path, "it is encrypted$", others=1)

    def test_an_unknown_compression(self):
        def unknown(content, entry):
            struct.pack_into("<H", content, entry + 10, 97)
            struct.pack_into("<H", content, 8, 97)

        self.assert_told(self.changed("x.whl", {"it.so": self.good}, unknown), "compression")

    def test_a_bomb(self):
        """70 MB of zeros behind an ELF header; it is refused before it is expanded."""
        path = self.wheel("x.whl", {"bomb.so": self.good + bytes(70_000_000), "it.so": self.good})
        self.assert_told(path, "no shared object expands", others=1)
        path = self.wheel("y.whl", {"bomb.bin": bytes(10_000_000), "it.so": self.good})
        self.assertEqual(inspect(path).returncode, 0)

    def test_a_member_that_is_too_large(self):
        def huge(content, entry):
            struct.pack_into("<I", content, entry + 24, 0xFFFFFFFE)
            struct.pack_into("<I", content, entry + 20, 0x7FFFFFFF)

        # Later Pythons see that it would reach into the directory.
        told = "MiB of memory|ends|it is damaged"
        self.assert_told(self.changed("x.whl", {"it.so": self.good}, huge), told)

    def test_archives_in_archives_have_a_bottom(self):
        content = {"it.so": self.good}
        for depth in range(5):
            path = self.wheel("x.whl", content)
            content = {f"{depth}.whl": path.read_bytes()}
        self.assert_told(path, "inspect it by itself")

    def test_a_damaged_wheel_in_a_wheel(self):
        inner = self.wheel("inner.whl", {"it.so": self.good}).read_bytes()
        path = self.wheel("x.whl", {"bundled/y.whl": inner[:-30], "it.so": self.good})
        self.assert_told(path, "cut short", others=1)

    def test_duplicate_names(self):
        path = self.directory / "x.whl"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("it.so", self.good)
                archive.writestr("it.so", self.good)
        self.assert_told(path, "two members of this name", others=2)

    def test_names_that_climb_out_are_only_names(self):
        path = self.wheel("in/x.whl", {"../../evil/it.so": self.good, "/abs/it.so": self.good})
        before = sorted(self.directory.rglob("*"))
        done = inspect("--all", path)
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"x.whl!/../../evil/it.so\n", done.stdout)
        self.assertEqual(sorted(self.directory.rglob("*")), before)

    def test_names_with_any_bytes(self):
        """They neither control a terminal nor break the documents."""
        name = 'x\x1b[2J\n<&"\u009b\ufffe/it.so'
        path = self.wheel("x.whl", {name: self.good, "y.so": b"\x7fELF\x02 damaged"})
        junit, sarif = self.directory / "j.xml", self.directory / "s.json"
        done = inspect("--all", path, "--junit", junit, "--sarif", sarif)
        self.assertEqual(done.returncode, 3)
        self.assertNotRegex(done.stdout + done.stderr, rb"[\x00-\x09\x0b-\x1f\x7f]")
        cases = xml.etree.ElementTree.parse(junit).findall(".//testcase")
        self.assertEqual(len(cases), 2)
        self.assertIn('<&"', cases[0].get("name"))
        json.loads(sarif.read_text())
        (member,) = (file["member"] for file in self.document(path)["files"] if not file["error"])
        self.assertEqual(member, name)

    def test_a_name_that_is_not_utf8(self):
        def broken(content, entry):
            for at in (6, entry + 8):
                content[at + 1] |= 0x08
            for at in (30, entry + 46):
                content[at] = 0xFF

        path = self.changed("x.whl", {"it.so": self.good}, broken)
        self.assert_told(path, "UTF-8")

    def test_many_problems_are_counted(self):
        path = self.wheel("x.whl", {f"{i}.so": self.good for i in range(50)})
        content = bytearray(path.read_bytes())
        at = 0
        while (at := content.find(b"PK\x01\x02", at)) >= 0:
            content[at + 8] |= 1
            at += 4
        path.write_bytes(content)
        done = inspect(path)
        self.assertEqual(done.returncode, 3)
        self.assertEqual(done.stderr.count(b"\n"), 21)
        self.assertIn(b"30 more members", done.stderr)


if __name__ == "__main__":
    main()
