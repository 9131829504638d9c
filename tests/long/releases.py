#!/usr/bin/env python3
"""release/abi, which compares a release with one before, on copies of this tree: a later release
with a function more is compatible, and a module that is built with this one runs with it; one that
lacks a function, or has a struct's member elsewhere, is not.

usage: tests/long/releases.py BUILD-DIRECTORY     whose jemalloc is used
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
NEXT = "1.99.0"
ADDED = """
/* A function of a later release. */
HF_API int hf_later(void);
"""


def edit(tree, name, old, new):
    path = tree / name
    text = path.read_text("utf-8")
    assert text.count(old) == 1, (name, old, text.count(old))
    path.write_text(text.replace(old, new), "utf-8")


def copy(directory):
    """The files that git knows, as they are now, and the sources of others."""
    names = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
    ).stdout
    for name in names.decode().split("\0")[:-1]:
        if (ROOT / name).is_file():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, directory / name)
    cache = ROOT / "subprojects/packagecache"
    if cache.is_dir():
        shutil.copytree(cache, directory / "subprojects/packagecache", dirs_exist_ok=True)
    return directory


def later(tree):
    """A compatible release: a function more, in a node of its own."""
    subprocess.run([tree / "release/version", "--set", NEXT], check=True)
    header = tree / "alloc/include/homefree/base.h"
    text = header.read_text("utf-8")
    end = text.index("#ifdef __cplusplus\n}")
    header.write_text(text[:end] + ADDED.lstrip() + "\n" + text[end:], "utf-8")
    edit(tree, "alloc/start/start.c", '#include "alloc/start/start.h"\n',
         '#include "alloc/start/start.h"\n#include <homefree/base.h>\n'
         "int hf_later(void)\n{\n    return 1;\n}\n")  # fmt: skip
    path = tree / "alloc/homefree.map"
    path.write_text(
        path.read_text("utf-8") + "HOMEFREE_1.1 {\n  global:\n    hf_later;\n} HOMEFREE_1.0;\n"
    )


def broken(tree):
    """A function less, and a member in front of others."""
    edit(tree, "alloc/homefree.map", "    hf_heap_walk;\n", "")
    path = tree / "alloc/include/homefree/stats.h"
    text, count = re.subn(
        r"(struct hf_stats \{\n    size_t size;[^\n]*\n)",
        r"\1    size_t in_the_way;\n",
        path.read_text("utf-8"),
    )
    assert count == 1
    path.write_text(text, "utf-8")


def compare(work, tree, jemalloc):
    done = subprocess.run(
        [ROOT / "release/abi", "--work", work, "--jemalloc-build", jemalloc, ROOT, tree],
        capture_output=True,
        text=True,
        check=False,
    )
    shutil.rmtree(work / "new", ignore_errors=True)
    return done.returncode, done.stdout + done.stderr


def main():
    if not shutil.which("abidiff"):
        print("abidiff is not installed (Debian: abigail-tools)")
        return 77
    failed = []

    def expect(what, true, said):
        print(f"{'ok' if true else 'FAILED'}: {what}", flush=True)
        if not true:
            failed.append(what)
            print(said)

    with tempfile.TemporaryDirectory(prefix="homefree-releases-") as directory:
        work = pathlib.Path(directory)
        tree = copy(work / "later")
        later(tree)
        status, said = compare(work, tree, sys.argv[1])
        expect("a later release is compatible", status == 0, said)
        expect("a module runs with it", f"and {NEXT} agree" in said, said)
        tree = copy(work / "broken")
        broken(tree)
        status, said = compare(work, tree, sys.argv[1])
        expect("one that breaks its promise is not", status == 1, said)
        expect("the function is named", "hf_heap_walk" in said, said)
        expect("the member is named", "in_the_way" in said, said)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
