#!/usr/bin/env python3
"""Writes loader/start_layout.ld: which functions and variables a start of libhomefree, or a fork,
touches.

    tests/bench/start_layout.py build >loader/start_layout.ld

Runs the field benchmark's program that does nothing under valgrind's lackey, late-loaded and
preloaded, and one that forks once, and maps every address that is executed, read or written to the
library's symbols. To be run after larger changes of the start or of jemalloc. A list that has gone
stale links as before; the start takes a few more page faults.
"""

import bisect
import os
import re
import subprocess
import sys
from pathlib import Path

# Of larger variables, mostly arrays, a start must touch half of all lines.
SMALL, LARGEST, LINE = 256, 8192, 64

HEAD = """\
/* Puts together what each start of libhomefree and each fork touches, so that it lies in few pages.
 * At a fault, the kernel maps 16 pages of code, for 6 us, or one of variables. Names that do not
 * exist do no harm. Made by tests/bench/start_layout.py. */
SECTIONS
{
    .text_start :
    {
        *libc_nonshared.a:(.text .text.*)
        *libgcc.a:(.text .text.*)
"""

BETWEEN = """\
    }
}
INSERT BEFORE .text;
SECTIONS
{
    /* Sealed tables (alloc/base/seal.h): whole pages of their own, which they share. */
    hf_sealed : ALIGN(CONSTANT(MAXPAGESIZE))
    {
        *(EXCLUDE_FILE(*foreign.c.o *numpy.c.o *stubs.c.o) hf_sealed)
        *(hf_sealed)
        . = ALIGN(CONSTANT(MAXPAGESIZE));
    }
    .bss_start :
    {
"""

TAIL = """\
    }
}
INSERT AFTER .data;
"""


def symbols(library):
    """[(start, end, name, kind)], sorted."""
    found = []
    listing = subprocess.run(["nm", "-S", library], capture_output=True, text=True, check=True)
    for line in listing.stdout.splitlines():
        parts = line.split()
        if len(parts) == 4:
            start, size = int(parts[0], 16), int(parts[1], 16)
            name = re.sub(r"@.*|\.localalias$", "", parts[3])
            found.append((start, start + size, name, parts[2].lower()))
    return sorted(found)


def touched(build, program, preload):
    """Names of functions, and of variables that begin as zeros, of one run and its child."""
    library = preload or (build / "loader/libhomefree.so.1")
    environment = {"PATH": os.environ["PATH"], "LD_DEBUG": "files"}
    if preload:
        environment["LD_PRELOAD"] = str(preload)
    valgrind = ["valgrind", "--tool=lackey", "--trace-mem=yes", "--basic-counts=no"]
    command = [*valgrind, *program]
    table = symbols(library)
    starts = [entry[0] for entry in table]
    end = max(entry[1] for entry in table)
    base, ours = None, False
    lines = {}
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        for line in process.stderr:
            if "generating link map" in line:
                ours = "libhomefree" in line
            elif ours and (match := re.search(r"base: 0x([0-9a-f]+)", line)):
                base = int(match[1], 16)  # the last one's: valgrind's own starts come before
                ours = False
            elif base is not None and (match := re.match(r"(?:I | [LSM]) +([0-9a-f]+),", line)):
                offset = int(match[1], 16) - base
                if 0 <= offset < end:
                    symbol = table[bisect.bisect_right(starts, offset) - 1]
                    if offset < symbol[1]:
                        lines.setdefault(symbol, set()).add(offset // LINE)
    if process.returncode != 0 or base is None:
        sys.exit(f"{program} failed under valgrind")
    functions = {name for _, _, name, kind in lines if kind == "t"}
    variables = {
        name
        for (start, stop, name, kind), seen in lines.items()
        if kind == "b"
        and stop - start <= LARGEST
        and (stop - start <= SMALL or len(seen) * LINE * 2 >= stop - start)
    }
    # Several variables may have one name.
    variables -= {entry[2] for entry in table if entry[3] == "b" and entry[1] - entry[0] > LARGEST}
    return functions, variables


def print_patterns(names, *kinds):
    """Sections by name. The compiler's suffixes (".constprop.0", ".3") vary."""
    seen = set()
    for name in sorted({name for name in names if ".cold" not in name}):
        plain, dot, _ = name.partition(".")
        pattern = f"{plain}{'.*' if dot else ''}"
        if pattern not in seen:
            seen.add(pattern)
            print(f"        *({' '.join(f'{kind}.{pattern}' for kind in kinds)})")


def main():
    build = Path(sys.argv[1]).resolve()
    field, preload = build / "tests/bench/field", build / "loader/libhomefree-preload.so"
    start = [field / "field", "--start"]
    runs = [
        touched(build, [*start, field / "late-nothing.so"], None),
        touched(build, [*start, field / "plain-nothing.so"], preload),
        touched(build, [build / "tests/bench/forking", "--forks", "1"], preload),
    ]
    functions, variables = (set().union(*kind) for kind in zip(*runs))
    # Whole functions of the compiler's own section for cold ones, which also has parts of others.
    names = [name for _, _, name, _ in symbols(build / "loader/libhomefree.so.1")]
    parts = {name.split(".cold")[0] for name in names if ".cold" in name}
    print(HEAD, end="")
    print_patterns(functions & parts, ".text")
    print_patterns(functions - parts, ".text", ".text.startup", ".text.unlikely")
    print(BETWEEN, end="")
    print_patterns(variables, ".bss")
    print(TAIL, end="")


if __name__ == "__main__":
    main()
