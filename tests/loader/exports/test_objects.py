"""The functions of modules are found in objects, archives and shared objects of any machine, and
for damaged and hostile ones there is an error, in time: these files may come from anywhere.

Usage: test_objects.py PACKAGE [unittest arguments]. PACKAGE: the directory of the package
`command`.
"""

import os
import random
import shutil
import struct
import sys
import tempfile
import time
import unittest
from pathlib import Path

if len(sys.argv) > 1:
    sys.path.insert(0, sys.argv.pop(1))
from command import exports, start

REL, EXEC, DYN, CORE = 1, 2, 3, 4
NOTYPE, OBJECT, FUNCTION = 0, 1, 2
LOCAL, GLOBAL, WEAK = 0, 1, 2
DEFAULT, HIDDEN, PROTECTED = 0, 2, 3
UNDEFINED, TEXT, COMMON, FAR = 0, 1, 0xFFF2, 0xFFFF
WIDE_LITTLE, MACHINES = (2, 1), [(2, 1), (2, 2), (1, 1), (1, 2)]  # class, byte order

MIXED = [
    ("PyInit_local", LOCAL, FUNCTION, DEFAULT, TEXT),
    ("helper", GLOBAL, FUNCTION, DEFAULT, TEXT),
    ("PyInit_one", GLOBAL, FUNCTION, DEFAULT, TEXT),
    ("PyInit_wanted", GLOBAL, FUNCTION, DEFAULT, UNDEFINED),
    ("PyInit_data", GLOBAL, OBJECT, DEFAULT, TEXT),
    ("PyInit_weak", WEAK, FUNCTION, DEFAULT, FAR),
    ("PyInit_hidden", GLOBAL, FUNCTION, HIDDEN, TEXT),
    ("PyInit_untyped", GLOBAL, NOTYPE, PROTECTED, TEXT),
    ("PyInit_", GLOBAL, FUNCTION, DEFAULT, TEXT),
    ("xPyInit_one", GLOBAL, FUNCTION, DEFAULT, TEXT),
    ("PyInitU_gfs105b", GLOBAL, FUNCTION, DEFAULT, TEXT),
    ("PyModExport_one", GLOBAL, FUNCTION, DEFAULT, TEXT),
]
FOUND = ["PyInit_one", "PyInit_weak", "PyInit_untyped", "PyInitU_gfs105b", "PyModExport_one"]
ONE = [("PyInit_one", GLOBAL, FUNCTION, DEFAULT, TEXT)]


def elf(symbols, kind=REL, machine=WIDE_LITTLE, tables=1, names=None):
    """An object: header, symbols, their names, and the section headers: none, names, symbols.
    Result: its bytes, and where the section header of the symbols is."""
    wide, order = machine[0] == 2, "<>"[machine[1] - 1]
    text, rows = b"\0" if names is None else names, []
    for name, binding, type_, visibility, section in [("", 0, 0, 0, 0), *symbols]:
        at = 0
        if name and names is None:
            at, text = len(text), text + os.fsencode(name) + b"\0"
        info = binding << 4 | type_
        row = (
            (at, info, visibility, section, 0, 0) if wide else (at, 0, 0, info, visibility, section)
        )
        rows.append(struct.pack(order + ("IBBHQQ" if wide else "IIIBBH"), *row))
    header, entry = (64, 64) if wide else (52, 40)
    table = b"".join(rows)
    start = header + len(table) + len(text)
    shape = order + ("IIQQQQIIQQ" if wide else "IIIIIIIIII")
    number = tables + 2
    sections = struct.pack(shape, 0, 0, 0, 0, 0, number if number > 0xFF00 else 0, 0, 0, 0, 0)
    sections += struct.pack(shape, 0, 3, 0, 0, header + len(table), len(text), 0, 0, 0, 0)
    wanted = 11 if kind == DYN else 2
    sections += tables * struct.pack(
        shape, 0, wanted, 0, 0, header, len(table), 1, 0, 0, len(rows[0])
    )
    ident = b"\x7fELF" + bytes([*machine, 1]).ljust(12, b"\0")
    fields = (
        kind,
        62,
        1,
        0,
        0,
        start,
        0,
        header,
        0,
        0,
        entry,
        number if number <= 0xFF00 else 0,
        0,
    )
    head = struct.pack(order + ("HHIQQQIHHHHHH" if wide else "HHIIIIIHHHHHH"), *fields)
    return ident + head + table + text + sections, start + 2 * entry


def member(content, name="x.o/", size=None):
    size = str(len(content)) if size is None else size
    header = f"{name:16}{0:<12}{0:<6}{0:<6}{0o644:<8o}{size:10}`\n".encode()
    return header + content + b"\n" * (len(content) % 2)


def archive(*members):
    return b"!<arch>\n" + b"".join(members)


class Objects(unittest.TestCase):
    def setUp(self):
        self.file = os.memfd_create("homefree-objects")  # disks are slow
        self.addCleanup(os.close, self.file)

    def read(self, content, size=None):
        """What is found in a file, and whether something was hidden."""
        os.truncate(self.file, 0)
        os.pwrite(self.file, content, 0)
        if size is not None:
            os.truncate(self.file, size)
        return self.read_path(f"/proc/self/fd/{self.file}")

    def read_path(self, path):
        seen = exports._Seen()
        exports._read_file(str(path), seen)
        return seen.functions, seen.hidden

    def refused(self, why, *content):
        with self.assertRaisesRegex(start.Failure, why):
            self.read(*content)

    # ---- what is found -----------------------------------------------------------------------

    def test_only_what_can_be_exported_on_any_machine(self):
        for machine in MACHINES:
            for kind in REL, DYN:
                with self.subTest(machine=machine, kind=kind):
                    content, _ = elf(MIXED, kind, machine)
                    self.assertEqual(self.read(content), (FOUND, True))

    def test_objects_that_define_nothing(self):
        self.assertEqual(self.read(elf([])[0]), ([], False))
        self.assertEqual(self.read(elf(ONE, tables=0)[0]), ([], False))

    def test_names_that_share_their_ends(self):
        names = b"\0aPyInit_PyInit_x\0"
        for at, name in ((2, "PyInit_PyInit_x"), (9, "PyInit_x")):
            content = bytearray(elf(ONE, names=names)[0])
            struct.pack_into("<I", content, 64 + 24, at)
            self.assertEqual(self.read(content), ([name], False))

    def test_all_members_of_an_archive(self):
        one, text = elf(ONE)[0], b"just a text\n"
        members = [member(elf([])[0]), member(text), member(one), member(one, "/12")]
        self.assertEqual(self.read(archive(*members)), (["PyInit_one"] * 2, False))
        self.refused("other things than ELF", archive(member(text)))
        self.assertEqual(self.read(archive()), ([], False))
        self.refused("bitcode", archive(member(one), member(b"BC\xc0\xde")))

    def test_an_index_is_no_member(self):
        # One of 2135247942 symbols begins with the bytes of an ELF file.
        for name in "/", "//", "/SYM64/":
            self.assertEqual(self.read(archive(member(b"\x7fELF", name))), ([], False))
        for name in "/12", "a.o/", "":
            self.refused("damaged ELF", archive(member(b"\x7fELF", name)))

    def test_names_in_front_of_members(self):
        """BSD's ar, and llvm-ar on request."""
        index = b"__.SYMDEF SORTED".ljust(20, b"\0") + b"\x7fELF8bit"
        named = b"a_very_long_name.o".ljust(20, b"\0") + elf(ONE)[0]
        whole = archive(member(index, "#1/20"), member(named, "#1/20"))
        self.assertEqual(self.read(whole), (["PyInit_one"], False))
        for wrong in "#1/29", "#1/x", "#1/":
            self.refused("damaged archive", archive(member(index, wrong)))

    # ---- what is refused ---------------------------------------------------------------------

    def test_other_files(self):
        for content, why in [
            (b"", "is empty"),
            (b"int main;\n", "is not an object file"),
            (b"\x7fELF", "is not an object file"),
            (b"!<thin>\n", "thin archive"),
            (b"BC\xc0\xde....", "bitcode"),
            (elf(MIXED, EXEC)[0], "neither an object file nor"),
            (elf(MIXED, CORE)[0], "neither an object file nor"),
            (elf([("__gnu_lto_slim", GLOBAL, OBJECT, DEFAULT, COMMON)])[0], "-ffat-lto-objects"),
        ]:
            self.refused(why, content)

    def test_what_is_no_file(self):
        directory = Path(tempfile.mkdtemp(prefix="homefree-objects-"))
        self.addCleanup(shutil.rmtree, directory)
        pipe = directory / "pipe"
        os.mkfifo(pipe)  # must not wait for a writer
        for path, why in [
            (directory / "no", "cannot be opened: No such file"),
            (pipe, "not a regular file"),
            (directory, "is a directory"),
        ]:
            with self.assertRaisesRegex(start.Failure, why):
                self.read_path(path)

    def test_names_that_would_write_into_the_script(self):
        for name in "x; evil", "*", "x\n", '"', "\udcff", "a b", "\x85", "y" * 2041:
            self.refused("no version script", elf([(f"PyInit_{name}", *ONE[0][1:])])[0])

    def test_tables_that_lie(self):
        for field, size, value in [
            (24, 8, 1 << 20),
            (24, 8, (1 << 64) - 8),
            (32, 8, 1 << 20),
            (32, 8, (1 << 64) - 23),
            (40, 4, 77),
            (40, 4, 2),
            (40, 4, 0),
            (56, 8, 0),
            (56, 8, 1),
        ]:
            content, at = elf(MIXED)
            content = bytearray(content)
            content[at + field : at + field + size] = value.to_bytes(size, "little")
            self.refused("damaged ELF file|larger than 1 GiB", content)

    def test_sizes_of_members(self):
        second = member(b"text", "b.o/")
        for size in "4", "0004", "3":
            self.refused("other things than ELF", archive(member(b"text", size=size), second))
        for size in "5", "", "-4", "+4", "0x4", "4 4", "4294967300", "9999999999", "\u0664":
            self.refused("damaged archive", archive(member(b"text", size=size)[:64], second))

    # ---- damage ------------------------------------------------------------------------------

    def attempt(self, content):
        """Whether it was understood; anything but a result and an error fails."""
        try:
            self.read(content)
        except start.Failure:
            return False
        return True

    def test_files_that_are_cut_short(self):
        whole = elf(MIXED)[0]
        for size in range(len(whole)):
            self.assertFalse(self.attempt(whole[:size]), size)
        one = member(elf(ONE)[0])
        both = archive(one, one)
        for size in range(len(both)):
            # Between two members, it is an archive of the first.
            self.assertEqual(self.attempt(both[:size]), size in (8, 8 + len(one)), size)

    def test_damaged_bytes(self):
        files = [elf(MIXED, machine=machine)[0] for machine in MACHINES]
        files.append(archive(member(files[0]), member(files[3])))
        generator = random.Random(1)
        understood = tried = 0
        for content in files:
            for at in range(len(content)):
                for mask in 0xFF, 0x01, 0x80:
                    copy = bytearray(content)
                    copy[at] ^= mask
                    self.attempt(copy)
            for _ in range(1000):
                copy = bytearray(content)
                for _ in range(generator.randint(1, 4)):
                    width = generator.choice((1, 2, 4, 8))
                    at = generator.randrange(len(copy) - width)
                    value = generator.choice((0, 1, 0x7F, 0xFF, generator.randrange(256)))
                    copy[at : at + width] = bytes([value]) * width
                understood += self.attempt(copy)
                tried += 1
        # If nearly all were refused at the header, only that check would be tested.
        self.assertGreater(understood * 10, tried)

    # ---- time --------------------------------------------------------------------------------

    def test_what_is_said_often_is_not_read_often(self):
        long = b"\0PyInit_".ljust(4 << 20, b"x") + b"\0"
        short = b"\0PyInit_".ljust(2000, b"x") + b"\0"
        for names, count, tables, why in [
            (long, 200000, 1, "no version script can hold"),
            (short, 200000, 1, None),
            (short, 100000, 100000, "two symbol tables"),
            (b"\0" + b"PyInit_" * (1 << 19), 1, 1, "no version script can hold"),
        ]:
            content = bytearray(elf(ONE * count, tables=tables, names=names)[0])
            for index in range(1, count + 1):
                content[64 + 24 * index] = 1
            before = time.process_time()
            if why is None:
                self.assertEqual(len(self.read(content)[0]), count)
            else:
                self.refused(why, content)
            self.assertLess(time.process_time() - before, 10)

    def test_gigabytes_that_cost_their_writer_nothing(self):
        content, at = elf(ONE)
        content = bytearray(content)
        size = 1 << 40
        struct.pack_into("<Q", content, at + 32, size)
        self.refused("larger than 1 GiB", content, size + 4096)

    def test_members_of_nothing(self):
        self.refused("other things than ELF", archive(member(b"") * 100000))


if __name__ == "__main__":
    unittest.main()
