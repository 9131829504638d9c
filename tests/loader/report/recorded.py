"""Writes the files of diagnosed processes, as alloc/diagnose/report_format.h describes them.

It takes numbers of rules and functions from the tables, and nothing else from the sources, so that
the reader in loader/command/report is tested against the description.

Usage: recorded.py FILE   writes a file with something of everything
"""

import re
import struct
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DIAGNOSE = ROOT / "alloc/diagnose"

MAGIC = b"HFREPORT"
CHUNK = 16384
CHUNK_HEAD = struct.Struct("=IIII")
HEADER = struct.Struct("=8sIIIIIIIIQQQ16s64sII4096s")
OBJECT = struct.Struct("=QII32s")
SITE = struct.Struct("=QIHH")
ALLOCATOR = struct.Struct("=II")
FINDING = struct.Struct("=IIIIIIIIQQQQQ")
PAIR = struct.Struct("=HHIQQQ")
STACK = struct.Struct("=HHI")
FRAME = struct.Struct("=QII")
LINE = struct.Struct("=IIII")
SAMPLE = struct.Struct("=QQII")
SUPPRESSION = struct.Struct("=IIQ")

STRINGS, OBJECTS, SITES, ALLOCATORS, FINDINGS, PAIRS, STACKS, SAMPLES, SUPPRESSED = range(1, 10)
SIZES = {
    STRINGS: 1,
    OBJECTS: OBJECT.size,
    SITES: SITE.size,
    ALLOCATORS: ALLOCATOR.size,
    FINDINGS: FINDING.size,
    PAIRS: PAIR.size,
    STACKS: 1,
    SAMPLES: SAMPLE.size,
    SUPPRESSED: SUPPRESSION.size,
}
ALLOCATED = 0xFFFF
RUNS, EXIT, SIGNAL, EXEC = range(4)


def rows(name, macro):
    text = (DIAGNOSE / name).read_text(encoding="utf-8")
    return re.findall(rf"^{macro}\((\w+),\s*\"([^\"]*)\"", text, re.MULTILINE)


RULES = {
    name: number for number, (_, name) in enumerate(rows("report_rules.def", "HF_REPORT_RULE"))
}
# What a report calls each function, in the order of the numbers in its file. Those of other
# allocators' interfaces come last.
FUNCTION_NAMES = {
    **dict(rows("report_functions.def", r"HF_REPORT_FUNCTION")),
    **{
        name: name
        for name in re.findall(
            r"^HF_NAMED_RELEASES\(\w+, \w+, (\w+),",
            (DIAGNOSE.parents[1] / "shim/functions.def").read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    },
}
FUNCTIONS = {identity: number for number, identity in enumerate(FUNCTION_NAMES)}


class Recorded:
    """What one process recorded. Methods add records and return what others refer to them by."""

    def __init__(self, process=4711, **header):
        self.header = {
            "version": 1,
            "mode": 2,
            "process": process,
            "parent": 4700,
            "end": EXIT,
            "status": 0,
            "started": 1_790_000_000_125_000_000,
            "ended": 1_790_000_003_500_000_000,
            "dropped": 0,
            "homefree": b"1.0.0",
            "host": b"box",
            "command": b"python3\0app.py\0",
            **header,
        }
        self.chunks = []  # [type, first, bytes], in the order of the file
        self.totals = dict.fromkeys(SIZES, 0)
        self.last = {}
        self.known = {}
        self.add(OBJECTS, OBJECT.pack(0, 0, 0, b""))
        self.add(SITES, SITE.pack(0, 0, 0, 0))

    def add(self, kind, record):
        """Returns the record's number, or the position of its bytes."""
        chunk = self.last.get(kind)
        if chunk is None or len(chunk[2]) + len(record) > CHUNK - CHUNK_HEAD.size:
            chunk = self.last[kind] = [kind, self.totals[kind], bytearray()]
            self.chunks.append(chunk)
        number = self.totals[kind]
        chunk[2] += record
        self.totals[kind] += len(record) if kind in (STRINGS, STACKS) else 1
        return number

    def string(self, text):
        if text is None:
            return 0
        if text not in self.known:
            self.known[text] = 1 + self.add(
                STRINGS, text.encode("utf-8", "surrogateescape") + b"\0"
            )
        return self.known[text]

    def object(self, path, base=0, build=b""):
        record = OBJECT.pack(base, self.string(path), len(build), build)
        if record not in self.known:
            self.known[record] = self.add(OBJECTS, record)
        return self.known[record]

    def site(self, number, address, function="malloc"):
        record = SITE.pack(address, number, FUNCTIONS[function], 0)
        if record not in self.known:
            self.known[record] = self.add(SITES, record)
        return self.known[record]

    def allocator(self, name, path=None):
        return 1 + self.add(ALLOCATORS, ALLOCATOR.pack(self.string(name), self.string(path)))

    def stack(self, frames=(), lines=()):
        """Frames are (object, address), lines (file, function, line); innermost first."""
        packed = STACK.pack(len(frames), len(lines), 0)
        packed += b"".join(FRAME.pack(address, number, 0) for number, address in frames)
        for file, function, line in lines:
            packed += LINE.pack(self.string(file), self.string(function), line, 0)
        return 1 + self.add(STACKS, packed)

    def finding(self, rule, allocator=0, allocated=0, freed=0, count=1, size=0, **more):
        number = rule if isinstance(rule, int) else RULES[rule]
        return self.add(
            FINDINGS,
            FINDING.pack(
                number,
                allocator,
                allocated,
                freed,
                more.get("first", 0),
                more.get("allocated_stack", 0),
                more.get("freed_stack", 0),
                more.get("first_stack", 0),
                count,
                size,
                more.get("pointer", 0),
                more.get("asked", 0),
                more.get("said", 0),
            ),
        )

    def pair(self, allocated, freed, blocks, size, threads=1):
        return self.add(PAIRS, PAIR.pack(allocated, freed, threads, 1, blocks, size))

    def sample(self, time, number, size):
        return self.add(SAMPLES, SAMPLE.pack(time, size, number, 0))

    def suppressed(self, pattern, why, count):
        record = SUPPRESSION.pack(self.string(pattern), self.string(why), count)
        return self.add(SUPPRESSED, record)

    def bytes(self):
        header = self.header
        command = header["command"]
        packed = HEADER.pack(
            header.get("magic", MAGIC),
            header["version"],
            header["mode"],
            header.get("chunks", 1 + len(self.chunks)),
            header["process"],
            header["parent"],
            header["end"],
            header["status"],
            0,
            header["started"],
            header["ended"],
            header["dropped"],
            header["homefree"],
            header["host"],
            header.get("command_size", len(command)),
            0,
            command,
        )
        parts = [packed.ljust(CHUNK, b"\0")]
        for kind, first, content in self.chunks:
            head = CHUNK_HEAD.pack(kind, len(content), first, 0)
            parts.append((head + content).ljust(CHUNK, b"\0"))
        return b"".join(parts)

    def write(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.bytes())
        return path


def something_of_everything(process=4711, base=0x7F0000000000, **header):
    """A jemalloc inside a library whose blocks the program frees, and smaller things."""
    recorded = Recorded(process, **header)
    library = recorded.object("/opt/lib/libtable.so", base, b"\x11" * 20)
    program = recorded.object("/opt/bin/app", 0x400000, b"\x22" * 20)
    python = recorded.object("/usr/lib/libpython3.11.so.1.0", base + 0x10000000)
    jemalloc = recorded.allocator("jemalloc", "/opt/lib/libtable.so")
    libc = recorded.allocator("libc", "/usr/lib/libc.so.6")
    make = recorded.site(library, base + 0x1234, "malloc")
    drop = recorded.site(program, 0x401000, "free")
    allocated_stack = recorded.stack(
        [(library, base + 0x1234), (program, 0x400800)],
        [("app.py", "main", 3), ("app.py", "<module>", 9)],
    )
    freed_stack = recorded.stack([(program, 0x401000), (python, base + 0x10000100)])
    recorded.finding(
        "foreign-free",
        jemalloc,
        make,
        drop,
        count=17,
        size=68000,
        allocated_stack=allocated_stack,
        freed_stack=freed_stack,
    )
    new = recorded.site(program, 0x400900, "_Znam")
    delete = recorded.site(program, 0x400A00, "_ZdlPv")
    recorded.finding("array-new-delete", libc, new, delete, count=5, size=500)
    sized = recorded.site(program, 0x400B00, "_ZdlPvm")
    recorded.finding("sized-delete", libc, new, sized, count=2, asked=64, said=32)
    recorded.finding("double-free", libc, make, drop, first=sized)
    recorded.finding("boundary-leak", libc, make, 0, count=3, size=30)
    for number, blocks in (library, 900), (program, 100):
        recorded.pair(number, ALLOCATED, blocks, blocks * 100)
    recorded.pair(library, program, 17, 68000, threads=2)
    recorded.pair(library, library, 800, 80000)
    recorded.pair(program, 0, 4, 400)
    recorded.suppressed("new-free", "the tests", 6)
    for moment in range(4):
        recorded.sample(moment * 250_000_000, library, 1 << 20)
        recorded.sample(moment * 250_000_000, program, moment * 1000)
    return recorded


if __name__ == "__main__":
    something_of_everything().write(Path(sys.argv[1]))
