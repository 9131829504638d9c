"""Writes the seeds of the fuzz targets into OUT/TARGET/: what compilers and this tree's writers
make, and small texts. merge.sh makes the corpora of them.

Usage: seeds.py BUILD OUT
"""

import os
import shlex
import struct
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/loader/report"))

import recorded  # noqa: E402

BUILD, OUT = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
WORK = OUT / "work"
CC = shlex.split(os.environ.get("CC", "cc"))


def put(target, name, content):
    directory = OUT / target
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def compiled(name, source, *options, compiler=None):
    """The file that a compiler makes of a text or a source of this tree; None without it."""
    out = WORK / name
    if isinstance(source, str):
        (WORK / (name + ".c")).write_text(source, encoding="utf-8")
        source = WORK / (name + ".c")
    command = [*(compiler or CC), "-O1", "-fPIC", "-nostdlib", "-I", str(ROOT)]
    try:
        subprocess.run([*command, str(source), "-o", str(out), *options], check=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return None
    return out.read_bytes()


PT_GNU_EH_FRAME = 0x6474E550
FILE_HEADER = ("<Q", 32), ("<H", 54), ("<H", 56)  # where program headers are, their size, how many
SHARED = ["-shared", "-Wl,-z,noseparate-code,-z,norelro,-z,max-page-size=4096"]
SAMPLE = ROOT / "tests/loader/inspect/sample.c"
MODULE = "void *PyInit_m(void); void *PyInit_m(void) { return 0; }\n"
HIDDEN = '__attribute__((visibility("hidden"))) void *PyInit_h(void) { return 0; }\n'
ALLOCATOR = """
typedef unsigned long size_t;
const char text[] = "<jemalloc>: Error in malloc";
void *je_malloc(size_t s) { (void)s; return (void *)text; }
void je_free(void *p) { (void)p; }
void *malloc(size_t s) { return je_malloc(s); }
void free(void *p) { je_free(p); }
"""
CALLED = (
    *("malloc", "calloc", "realloc", "free", "memalign", "strdup", "getline", "mmap64"),
    *("_Znwm", "_Znam", "_ZdlPv", "_ZdaPvm", "_ZN1a1bEv", "_ZN1a1cEv", "PyMem_Malloc", "hf_free"),
)
CALLS = "".join(
    f"extern void {name}(void); void call_{name}(void) {{ {name}(); }}\n" for name in CALLED
)
UNIQUE = r"""
template <class T> struct holder { static int value; };
template <class T> int holder<T>::value = 1;
inline int &shared() { static int value; return value; }
template struct holder<int>;
int use() { return holder<int>::value + shared(); }
"""


def make_elf():
    library = compiled("libs.so", "void s_other(void) {}\n", *SHARED)
    strip = [*SHARED, "-s"]
    yield "both", compiled("both", SAMPLE, *strip, "-Wl,--hash-style=both,-soname,sample.so")
    script = "-Wl,--version-script=" + str(SAMPLE.with_suffix(".map"))
    yield "versions", compiled("versions", SAMPLE, *strip, script, "-Wl,--build-id=sha1")
    yield "sysv", compiled("sysv", SAMPLE, *strip, "-Wl,--hash-style=sysv")
    yield "symbols", compiled("symbols", SAMPLE, *SHARED, "-Wl,--hash-style=gnu")
    yield "tls", compiled("tls", SAMPLE, *strip, "-ftls-model=initial-exec")
    yield "allocator", compiled("allocator", ALLOCATOR, *strip, "-fno-builtin")
    yield "program", compiled("program", "void _start(void) {}\n", "-pie", *strip[1:])
    if library:
        needed = [f"-L{WORK}", "-Wl,--no-as-needed", "-ls", "-Wl,-rpath,$ORIGIN/x:/lib"]
        yield "needed", compiled("needed", MODULE, *strip, *needed)
    unique = WORK / "unique.cc"
    unique.write_text(UNIQUE, encoding="utf-8")
    yield "unique", compiled("unique", unique, *strip, "-fno-threadsafe-statics", "-lm")
    yield "calls", compiled("calls", CALLS, *strip, "-fno-builtin", "-fno-plt")
    yield "lazy", compiled("lazy", CALLS, *strip, "-fno-builtin", "-ftls-model=global-dynamic")
    arm = ["aarch64-linux-gnu-gcc"]
    yield "aarch64", compiled("aarch64", MODULE, *strip, compiler=arm)


def make_objects():
    yield "x86", compiled("x86.o", MODULE, "-c")
    yield "hidden", compiled("hidden.o", HIDDEN, "-c", "-w")
    yield "i386", compiled("i386.o", MODULE, "-c", "-m32")
    clang = ["clang", "-target"]
    yield "mips", compiled("mips.o", MODULE, "-c", compiler=[*clang, "mips-linux-gnu"])
    yield "s390x", compiled("s390x.o", MODULE, "-c", compiler=[*clang, "s390x-linux-gnu"])


# ---- processes --------------------------------------------------------------------------------


def loaded(content, base):
    """The memory from address 0 on of a process into which a shared object was loaded."""
    header = struct.unpack_from("<16sHHIQQQIHHH", content)
    table, count = header[5], header[10]
    image = bytearray(base)
    dynamic = 0
    for i in range(count):
        kind, _, offset, address, _, size, room, _ = struct.unpack_from(
            "<IIQQQQQQ", content, table + 56 * i
        )
        if kind == 1:
            image.extend(bytes(max(0, base + address + room - len(image))))
            image[base + address : base + address + size] = content[offset : offset + size]
        elif kind == 2:
            dynamic = base + address
    tags = {}
    at = dynamic
    while (tag := struct.unpack_from("<qQ", image, at))[0] != 0:
        tags[tag[0]] = tag[1]
        at += 16
    symbols = base + tags[6]
    for first, room in ((tags.get(7), tags.get(8, 0)), (tags.get(23), tags.get(2, 0))):
        for at in range(0, room, 24):
            place, info, addend = struct.unpack_from("<QQq", image, base + first + at)
            value = addend
            if info & 0xFFFFFFFF in (1, 6, 7):
                value += struct.unpack_from("<Q", image, symbols + 24 * (info >> 32) + 8)[0]
            struct.pack_into("<Q", image, base + place, base + value)
    return bytes(image), dynamic


def make_live():
    base = 0x400
    maps = (
        "400-{:x} r-xp 00000000 08:01 11 {}\n"
        "{:x}-{:x} rw-p 00000000 00:00 0 [heap]\n"
        "100000-100100 rw-s 00000000 00:05 9 /memfd:x.hfreport (deleted)\n"
    )
    script = WORK / "live.map"
    script.write_text(
        "{ global: hf_*; hf_live_records; malloc; free; work; local: *; };", encoding="utf-8"
    )
    options = [*SHARED, "-s", f"-Wl,--version-script={script}", "-Wl,-z,now", "-I", str(BUILD)]
    options += ["-I", str(ROOT / "alloc/include"), "-Wl,-z,max-page-size=512", "-fno-builtin"]
    options += ["-Wl,--hash-style=sysv", "-Wl,--build-id=none"]
    content = compiled("live.so", Path(__file__).parent / "live.c", *options)
    for name, path in (("homefree", "/x/libhomefree.so.1"), ("program", "/x/program")):
        image, dynamic = loaded(content, base)
        end = (len(image) + 0xFFF) & ~0xFFF
        link = len(image) + 8
        text = maps.format(end, path, end, end + 0x1000)
        lists = struct.pack("<iiQQiiQ", 1, 0, link + 40, 0, 0, 0, 0)
        lists += struct.pack("<QQQQQ", base, link + 80, dynamic, 0, 0) + path.encode() + b"\0"
        yield name, text.encode() + b"\n" + image.ljust(link, b"\0") + lists
        # DT_RELAENT, which nobody reads, becomes DT_DEBUG.
        image = image.replace(struct.pack("<qQ", 9, 24), struct.pack("<qQ", 21, link))
        yield name + "-lists", text.encode() + b"\n" + image.ljust(link, b"\0") + lists
    stat = "1 (a (b) c) S 1 1 1 0 -1 4194304 0\nName:\tx\nTgid:\t1\nPATH=/bin\0PATH=/usr/bin\0"
    yield "texts", stat.encode() + b"\n\n"


def compact(content):
    """A report in the form of expand.h."""
    header, command = content[:152], content[152 : 152 + 4096].rstrip(b"\0") + b"\0"
    out = header + struct.pack("<H", len(command)) + command
    for at in range(recorded.CHUNK, len(content), recorded.CHUNK):
        kind, used, first, _ = recorded.CHUNK_HEAD.unpack_from(content, at)
        body = content[at + 16 : at + 16 + used]
        out += struct.pack("<BBHII", kind, 0, len(body), first, used) + body
    return out


def make_reports(elf):
    everything = recorded.something_of_everything()
    yield "everything", compact(everything.bytes())
    yield "runs", compact(recorded.something_of_everything(end=recorded.RUNS).bytes())
    short = recorded.something_of_everything(end=recorded.SIGNAL, status=11)
    yield "cut", compact(short.bytes())[:-40]
    named = recorded.Recorded()
    number = named.object("/x/unique.so", 0x1000)
    site = named.site(number, 0x1000 + 0x1001, "malloc")
    named.finding("double-free", named.allocator("heap"), site, site, first=site)
    for name in ("both", "unique", "symbols"):
        if elf.get(name):
            yield "named-" + name, compact(named.bytes()) + b"\n--\n" + elf[name]


TEXTS = {
    "ancestors": [
        "7 (a) b) S 2 7 7\n",
        "7f00-7f01 r-xp 00000000 08:01 11 /bin/x\n7f01-7f02 rw-s 00000000 00:05 9 /t/1.hfreport\n",
        "7f01-7f02 rw-s 00000000 00:05 9 /1.hfreport\n7 (x) S 1 1",
        "x" * 4500 + "\n/a.hfreport\n",
    ],
    "arguments": [
        "\0--flag\n-x\n--value\nv\n-ofile\n--optional\n--optional=a\noperand",
        "\1--several\na\nb\n--\n--flag\n-",
        "\2--several\na\nb\n--value=x\n--flag\nc",
        "\2--several=a\n--\nb\nc",
        "\0--help",
        "\0--val\nv\n-xo\nf\n--nothing",
        "\1operand\n--flag",
    ],
    "exports": [
        "NODE_1.0\npackage.module\nPyInit_m\n# comment\n  hf_symbol  # more\n_ZN1a1bEv\n",
        "\nm\xf6dul\nf$x.y\n\n",
        "1x\na..b\na*\n",
        "V\nx\n_a@V1\nb c\n",
    ],
    "options": [
        "region:16T,hardened:4,dirty_decay_ms:0,thp:always,route:off,static_free:ignore,checks:full",
        "nonsense:8,dirty_decay_ms:3600000,route:on,thp:never,,x:1,checks",
        "region:18446744073709551615K,hardened:-1,region:32768k",
    ],
    "script": [
        "#!/bin/sh\n",
        "#! /usr/bin/env  python3\n",
        "#!/usr/bin/env -S A=1 -u B python3 -x\n",
        "#!/usr/bin/env -i LD_PRELOAD=x sh\n",
        "#!/usr/bin/env -S \"a b\" 'c' \\_ ${X}\n",
        "#!/usr/bin/env -vS --unset=LD_PRELOAD sh\n",
    ],
    "suppressions": [
        "double-free */liba.so* *\nforeign-free * * # why\n\n# all\n* * *\n"
        "double-free /liba.so.1 /app ",
        "a* *b* *c # x\nab b c ",
        "one two\nx y z ",
    ],
}


def make_call_frames(content):
    """The tables of a file for the first and the last of its functions, where they are small."""
    if content is None or content[:5] != b"\x7fELF\x02":
        return
    start, size, count = (struct.unpack_from(form, content, at)[0] for form, at in FILE_HEADER)
    headers = [struct.unpack_from("<IIQQQQQQ", content, start + i * size) for i in range(count)]
    table = next((one[2] for one in headers if one[0] == PT_GNU_EH_FRAME), None)
    if table is None:
        return
    found = content[table : table + 4000]  # .eh_frame follows
    if len(found) < 20 or found[:4] != b"\x01\x1b\x03\x3b":
        return
    (entries,) = struct.unpack_from("<I", found, 8)
    for number in {0, entries - 1}:
        (function,) = struct.unpack_from("<i", found, 12 + 8 * number)
        for distance in (1, 12):
            yield struct.pack("<iHH", function + distance, 0, 7) + found


def main():
    WORK.mkdir(parents=True, exist_ok=True)
    elf = dict(make_elf())
    for name, content in elf.items():
        if content:
            for target in ("elf", "inspect", "private_copy"):
                put(target, name, content)
    for name, content in make_objects():
        if content:
            put("elf", name, content)
    for name, content in elf.items():
        for number, frames in enumerate(make_call_frames(content)):
            put("call_frames", f"{name}-{number}", frames)
    for name, content in make_live():
        put("live", name, content)
    for name, content in make_reports(elf):
        put("report", name, content)
        put("known_sites", name, content)
    for target, texts in TEXTS.items():
        for number, text in enumerate(texts):
            put(target, f"text-{number}", text.encode("utf-8"))
    lines = {
        "steps": b"\x00\x09\x00" + bytes([2, 1, 4, 255, 6, 2]),
        "ranges": b"\x01\x05\x00" + bytes([4, 128, 4, 1, 4, 254]),
        "locations": b"\x02\x09\x00" + bytes([0xF0, 0x03, 0x80, 1, 0xD9, 2, 0x81, 1, 2, 0xF9]),
    }
    for name, content in lines.items():
        put("lines", name, content)


if __name__ == "__main__":
    main()
