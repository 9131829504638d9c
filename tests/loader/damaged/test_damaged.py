"""A module with a damaged byte is loaded with homefree wherever it is loaded without.

The dynamic linker reads little of a file: not its notes, not every symbol, one of two hash tables.
homefree looks at more, so it follows no address that the file names without comparing it with the
file's segments. Each byte of the headers and of the tables is changed once (SEED chooses how), and
one program loads all variants: alone, with each library preloaded, and with it loaded late.

usage: test_damaged.py PROGRAM LIBHOMEFREE PRELOAD DIAGNOSE MODULE…
"""

import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

program, late, preload, diagnose, *modules = map(os.path.abspath, sys.argv[1:])
SEED = int(os.environ.get("SEED", "1"))

PT_DYNAMIC, PT_NOTE = 2, 4
DT_NULL = 0
# The tables that a dynamic section names, and how much of each is damaged: the hash tables' heads
# and first entries, and the first entries of the others. Not the versions of symbols: what the
# dynamic linker makes of a wrong one depends on the blocks in the heap.
DT_HASH, DT_SYMTAB, DT_RELA, DT_JMPREL = 4, 6, 7, 23
DT_GNU_HASH, DT_VERNEED = 0x6FFFFEF5, 0x6FFFFFFE
TABLES = {
    DT_HASH: 48,
    DT_GNU_HASH: 48,
    DT_SYMTAB: 192,
    DT_RELA: 96,
    DT_JMPREL: 96,
    DT_VERNEED: 32,
}


def places(path):
    """Offsets of the bytes to damage. In the first segment an address is an offset."""
    with open(path, "rb") as file:
        content = file.read()
    (headers,) = struct.unpack_from("<Q", content, 32)
    (count,) = struct.unpack_from("<H", content, 56)
    found = set(range(16, 64)) | set(range(headers, headers + 56 * count))
    for i in range(count):
        kind, _, offset, _, _, size = struct.unpack_from("<IIQQQQ", content, headers + 56 * i)
        if kind == PT_NOTE:
            found |= set(range(offset, offset + size))
        if kind != PT_DYNAMIC:
            continue
        for at in range(offset, offset + size, 16):
            tag, value = struct.unpack_from("<QQ", content, at)
            found |= set(range(at, at + 16))
            found |= set(range(value, value + TABLES.get(tag, 0)))
            if tag == DT_NULL:
                break
    return sorted(found)


class Damaged(unittest.TestCase):
    def load(self, module, lines, library=None, environment=None):
        with tempfile.TemporaryDirectory(prefix="homefree-damaged-") as directory:
            result = subprocess.run(
                [program, module, f"{directory}/module.so"] + ([library] if library else []),
                input="".join(f"{offset} {mask}\n" for offset, mask in lines),
                capture_output=True,
                text=True,
                errors="replace",
                env={
                    **os.environ,
                    "HOMEFREE_DIAGNOSE": f"mode:report,quiet:1,directory:{directory}",
                    **(environment or {}),
                },
            )
        self.assertEqual(result.returncode, 0, result.stderr)
        words = result.stdout.splitlines()
        self.assertEqual(len(words), len(lines))
        return words

    def test_no_damage_is_worse_with_homefree(self):
        chance = random.Random(SEED)
        for module in modules:
            lines = [(0, 0)] + [(at, chance.randint(1, 255)) for at in places(module)]
            alone = self.load(module, lines)
            self.assertEqual(alone[0], "loaded")
            usable = [line for line, word in zip(lines, alone) if word == "loaded"]
            self.assertGreater(len(usable), len(lines) // 4)
            self.assertLess(len(usable), len(lines))
            for way, arguments in {
                "late": {"library": late},
                "preloaded": {"environment": {"LD_PRELOAD": preload}},
                "diagnosed": {"environment": {"LD_PRELOAD": diagnose}},
            }.items():
                with self.subTest(way=way, module=os.path.basename(module)):
                    words = self.load(module, usable, **arguments)
                    worse = [
                        f"byte {at} ^ {mask:#x}: {word}"
                        for (at, mask), word in zip(usable, words)
                        if word != "loaded"
                    ]
                    self.assertEqual(worse, [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
