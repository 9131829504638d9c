"""`homefree inspect` of objects for macOS and Windows: what each rule finds, in files of real
linkers (platforms/make.sh), what several do to each other, and damaged files.

The reports behind the rules: apache/arrow 50428, catboost/catboost 3086, microsoft/mimalloc 1301
and 1327 (tests/long/platforms.py looks into the wheels that they are about).

Usage: test_platforms.py HOMEFREE LIBRARY SHIM [unittest arguments]
"""

import importlib.util
import json
import os
import random
import resource
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

from command import HOMEFREE, InspectTest, inspect, main

OBJECTS = Path(__file__).parent / "platforms/objects.zip"
PACKAGE = HOMEFREE.parents[2] / "python/homefree/command"

# By object, all that is found of it alone.
FOUND = {
    "both.so": {"fixed-tls-slot", "private-allocator"},
    "debugging.pyd": {"debugging-c-runtime"},
    "libiomp5md.dll": set(),
    "libomp.dylib": set(),
    "libomp140.x86_64.dll": set(),
    "mimalloc.so": {"fixed-tls-slot", "private-allocator"},
    "old.pyd": {"other-c-runtime"},
    "plain.so": set(),
    "redirected.dll": {"patches-allocator"},
    "static.pyd": {"private-allocator", "other-c-runtime", "exports-memory"},
    "takes_over.dylib": {
        "default-malloc-zone",
        "exported-allocator",
        "flat-namespace",
        "interposes",
        "own-free",
        "private-allocator",
    },
    "ucrt.pyd": set(),
}


def imported(name):
    """A module of the command, whose package has another name here: `command` is the tests'."""
    if "looked_at" not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            "looked_at", PACKAGE / "__init__.py", submodule_search_locations=[str(PACKAGE)]
        )
        sys.modules["looked_at"] = importlib.util.module_from_spec(spec)
    return importlib.import_module(f"looked_at.{name}")


def contents(name):
    with zipfile.ZipFile(OBJECTS) as archive:
        return archive.read(name)


class Platforms(InspectTest):
    def take(self, name, where=""):
        return self.file(os.path.join(where, name), contents(name))

    def document(self, *words, status):
        done = inspect("--json", *words)
        self.assertEqual((done.returncode, done.stderr), (status, b""))
        return json.loads(done.stdout)["files"]

    def together(self, *paths, status):
        """{rule: {file: message}}"""
        found = {}
        for file in self.document("--environment", *paths, status=status):
            for finding in file["findings"]:
                name = os.path.basename(file["path"])
                found.setdefault(finding["rule"], {})[name] = finding["message"]
        return found

    def test_each_rule_is_found_where_it_applies_and_nowhere_else(self):
        files = self.document(OBJECTS, status=1)
        found = {file["member"]: {one["rule"] for one in file["findings"]} for file in files}
        self.assertEqual(found, FOUND)

    def test_files_and_directories_are_the_same_as_members(self):
        def told(files):
            """But for their places."""
            return [{**file, "path": "", "container": "", "member": ""} for file in files]

        with zipfile.ZipFile(OBJECTS) as archive:
            names = archive.namelist()
        paths = [self.take(name, "site") for name in names]
        expected = told(self.document(OBJECTS, status=1))
        self.assertEqual(told(self.document(*paths, status=1)), expected)
        by_name = sorted(range(len(names)), key=names.__getitem__)
        expected = [expected[number] for number in by_name]
        self.assertEqual(told(self.document(paths[0].parent, status=1)), expected)

    def test_what_is_known_of_them(self):
        both, static = self.document(self.take("both.so"), self.take("static.pyd"), status=1)
        self.assertEqual(both["machine"], "x86-64, arm64")
        self.assertEqual((both["platform"], static["platform"]), ("macOS", "Windows"))
        self.assertEqual((both["module"], static["module"]), ("mimalloc", "static"))
        self.assertEqual((both["tls_slots"], static["runtimes"]), ([108], ["static"]))
        self.assertEqual(both["soname"], "@rpath/both.so")
        self.assertEqual([one["name"] for one in static["libraries"]], ["kernel32.dll"])
        (taking,) = self.document(self.take("takes_over.dylib"), status=1)
        self.assertEqual(taking["allocators"][0]["version"], "5.3.0")
        said = {finding["rule"]: finding for finding in taking["findings"]}
        self.assertIn("joins operators", said["exported-allocator"]["message"])
        self.assertEqual(said["own-free"]["names"], ["getline"])
        self.assertEqual(said["flat-namespace"]["names"], ["calloc"])

    def test_two_mimallocs_in_one_slot_clash(self):
        found = self.together(self.take("both.so"), self.take("mimalloc.so"), status=1)
        self.assertEqual(set(found["tls-slot-clash"]), {"both.so", "mimalloc.so"})
        self.assertIn("slot 108", found["tls-slot-clash"]["both.so"])
        alone = self.together(self.take("both.so"), self.take("plain.so"), status=1)
        self.assertEqual(set(alone), {"fixed-tls-slot"})

    def test_two_openmps(self):
        first, second = self.take("libomp.dylib", "a"), self.take("libomp.dylib", "b")
        found = self.together(first, second, status=1)["several-openmps"]
        self.assertIn("functions that dyld takes from another", found["libomp.dylib"])
        names = "libiomp5md.dll", "libomp140.x86_64.dll"
        self.assertIn("several-openmps", self.together(*map(self.take, names), status=1))
        # One for each platform is one.
        self.assertEqual(self.together(first, self.take(names[0]), status=0), {})

    def test_what_goes_well_together_has_only_notes(self):
        names = "plain.so", "libomp.dylib", "static.pyd", "ucrt.pyd", "old.pyd"
        found = self.together(*map(self.take, names), status=0)
        self.assertEqual(set(found), {"several-c-runtimes"})

    def test_python_has_the_tables_of_c(self):
        for command in imported("_tables").RULES:
            words = [HOMEFREE, command, "--rules", "--json"]
            printed = subprocess.run(words, capture_output=True, check=True).stdout
            self.assertEqual(json.loads(printed)["rules"], imported("asked").rules(command))

    def test_classes_of_java_and_programs_are_left_out(self):
        self.file("site/A.class", b"\xca\xfe\xba\xbe\0\0\0\x34" + bytes(60))
        program = bytearray(contents("ucrt.pyd"))
        at = struct.unpack_from("<I", program, 60)[0] + 22
        struct.pack_into("<H", program, at, struct.unpack_from("<H", program, at)[0] & ~0x2000)
        self.file("site/tool.dll", bytes(program))
        self.take("plain.so", "site")
        files = self.document(self.directory / "site", status=0)
        self.assertEqual([Path(file["path"]).name for file in files], ["plain.so"])

    def test_a_damaged_one_costs_itself_alone(self):
        bad = self.file("bad.dylib", contents("both.so")[:5000])
        done = inspect("--json", bad, self.take("plain.so"))
        first, second = json.loads(done.stdout)["files"]
        self.assertEqual(done.returncode, 3)
        self.assertIn("it is damaged: ", first["error"])
        self.assertIsNone(second["error"])
        archive = self.directory / "bad.whl"
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("bad.dylib", contents("both.so")[:5000])
            file.writestr("plain.so", contents("plain.so"))
        done = inspect("--json", archive)
        errors = [file["error"] is None for file in json.loads(done.stdout)["files"]]
        self.assertEqual((done.returncode, errors), (3, [False, True]))


class Hostile(InspectTest):
    """In this process, which may have 400 MiB more than it has."""

    def look(self, data):
        """Result: why it is no object that can be read; None if it is."""
        inspect_platforms = imported("inspect_platforms")
        path = self.file("hostile.so", bytes(data))
        try:
            inspect_platforms.file(path)
        except (inspect_platforms.Damaged, inspect_platforms.NoObject) as why:
            return str(why)
        return None

    def test_cut_off_and_changed_files(self):
        numbers = random.Random(37)
        read = 0
        for name in FOUND:
            whole = contents(name)
            for _ in range(20):
                self.look(whole[: numbers.randrange(len(whole))])
                changed = bytearray(whole)
                for _ in range(numbers.randrange(1, 8)):
                    # Where the tables are, and any number that may be too large.
                    at = numbers.randrange(min(len(whole) - 4, 2048))
                    value = numbers.choice([0, 1, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF])
                    struct.pack_into("<I", changed, at, value)
                read += self.look(changed) is None
        self.assertGreater(read, 0)

    def macho(self, commands, tail=b""):
        """A Mach-O file for arm64."""
        body = b"".join(commands)
        head = struct.pack("<8I", 0xFEEDFACF, 0x0100000C, 0, 6, len(commands), len(body), 0, 0)
        return head + body + tail

    def test_counts_that_are_too_large(self):
        symbols = struct.pack("<6I", 2, 24, 0, 0xFFFFFFFF, 0, 8)
        self.assertIn("symbols", self.look(self.macho([symbols])))
        names = struct.pack("<6I", 2, 24, 0, 1, 0, 0xFFFFFFFF)
        self.assertIn("symbols", self.look(self.macho([names])))
        sections = struct.pack("<2I16s4Q4I", 0x19, 72, b"", 0, 0, 0, 0, 0, 0, 1 << 30, 0)
        self.assertIn("sections", self.look(self.macho([sections])))
        self.assertIn("load commands", self.look(self.macho([struct.pack("<2I", 1, 0)])))
        self.assertIn("machines", self.look(struct.pack(">2I", 0xCAFEBABE, 1 << 31)))

    def test_images_in_each_others_place(self):
        image = self.macho([], bytes(1000))
        parts = struct.pack(">5I", 0x0100000C, 0, 48, len(image), 0) * 2
        self.assertIn("overlap", self.look(struct.pack(">2I", 0xCAFEBABE, 2) + parts + image))

    def test_sections_in_each_others_place(self):
        size = 4 << 20
        section = struct.pack("<16s16s2Q8I", b"__cstring", b"__TEXT", 0, size, 0, *[0] * 7)
        section = section[:48] + struct.pack("<I", 1) + section[52:]
        count = 1000
        length = 72 + 80 * count
        segment = struct.pack("<2I16s4Q4I", 0x19, length, b"", 0, 0, 0, 0, 0, 0, count, 0)
        whole = self.macho([segment + section * count], bytes(size))
        self.assertIn("overlap", self.look(whole))

    def test_many_sections_give_one_finding(self):
        count = 20_000
        sections = struct.pack("<16s16s2Q8I", b"__interpose", b"__DATA", 0, 1, 1, *[0] * 7) * count
        length = 72 + len(sections)
        segment = struct.pack("<2I16s4Q4I", 0x19, length, b"", 0, 0, 0, 0, 0, 0, count, 0)
        path = self.file("many.so", self.macho([segment + sections]))
        (found,) = imported("inspect_platforms").file(path)["findings"]
        self.assertEqual(found["message"], "it has 20000 bytes of __interpose")

    def test_symbols_with_one_endless_name(self):
        tail = struct.pack("<IBBHQ", 0, 0x0F, 1, 0, 0) * 100_000 + b"a" * (4 << 20)
        size = 100_000 * 16
        symbols = struct.pack("<6I", 2, 24, 56, 100_000, 56 + size, 4 << 20)
        self.assertIsNone(self.look(self.macho([symbols], tail)))

    def test_sections_and_names_in_the_last_of_them(self):
        """Each name would be looked for in each section."""
        header = struct.pack("<2H3I2H", 0x8664, 60_000, 0, 0, 0, 240, 0x2000)
        head = b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0" + header
        self.assertIn("60000 sections", self.look(head + b"\x0b\x02" + bytes(60_000 * 40 + 238)))

    def test_imports_that_do_not_end(self):
        whole = bytearray(contents("ucrt.pyd"))
        header = struct.unpack_from("<I", whole, 60)[0]
        # Its last section, the one of imports, goes on: a name of 8192 letters, and thunks to it.
        sections = struct.unpack_from("<H", whole, header + 6)[0]
        last = header + 24 + 240 + 40 * (sections - 1)
        address, size, offset = struct.unpack_from("<3I", whole, last + 12)
        name = address + len(whole) - offset
        thunks = 2_000_000
        struct.pack_into("<I", whole, last + 16, len(whole) - offset + 8192 + 8 * thunks)
        whole += b"a" * 8192 + struct.pack("<Q", name) * thunks
        table = struct.unpack_from("<I", whole, header + 24 + 112 + 8)[0]
        self.assertTrue(address <= table < address + size)
        struct.pack_into("<I", whole, table - address + offset, name + 8192)
        self.assertIn("characters", self.look(whole))


def limit():
    with open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + (400 << 20), resource.RLIM_INFINITY))


if __name__ == "__main__":
    limit()
    main()
