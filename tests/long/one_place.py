#!/usr/bin/env python3
"""What CONTRIBUTING.md says an addition takes: a known allocator and an interposed function a row
each, a rule of diagnostics mode a row and its condition. Each is added to a copy of the tree, which
is built; then the allocator is recognised, the function's blocks go home, and the rule is found.

usage: tests/long/one_place.py BUILD-DIRECTORY
"""

import json
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# (file, the text in front of which it goes, or None: at the end, the addition)
ADDITIONS = [
    (
        "loader/foreign/known_allocators.def",
        None,
        """
/* Made up for this test. */
HF_ALLOCATOR(RAINMAKER, "rainmaker")
HF_ALLOCATOR_SYMBOL(RAINMAKER, "rain_stats")
HF_ALLOCATOR_CALLS(RAINMAKER, "rain_stats", TRUE, "rain_owns", "rain_realloc", "rain_size")
HF_ALLOCATOR_RELEASE(RAINMAKER, "rain_stats", PLAIN, "rain_free")
""",
    ),
    (
        "shim/functions.def",
        "\n/* ---- routing: CUDA's runtime and driver.",
        "HF_NAMED_RELEASES(RAINMAKER, rainmaker, rain_free, (void *ptr), (ptr))\n",
    ),
    (
        "alloc/diagnose/report_rules.def",
        "/* clang-format on */",
        """HF_REPORT_RULE(ODD_FREE, "odd-free", ERROR,
    "An odd address was freed.",
    "glibc aborts.",
    "Keep the pointer that the allocation returned.")
""",
    ),
    (
        "alloc/diagnose/faults.c",
        "    hf_finding(&event);\n    return event.rule == HF_FAULT_OVERRUN;",
        """    if ((uintptr_t)ptr % 2 != 0)
        event.rule = HF_FAULT_ODD_FREE;
""",
    ),
]

LIBRARY = """
#include <stdlib.h>
int rain_stats(void) { return 1; }
int rain_owns(const void *ptr) { (void)ptr; return 0; }
void *rain_realloc(void *ptr, size_t size) { (void)ptr; (void)size; abort(); }
size_t rain_size(const void *ptr) { (void)ptr; abort(); }
void rain_free(void *ptr) { (void)ptr; abort(); }
"""

PROGRAM = """
#include <dlfcn.h>
#include <stdlib.h>
void rain_free(void *ptr);
int main(int argc, char **argv)
{
    void *(*allocate)(size_t) = NULL;
    if (argc == 1) {
        free((char *)malloc(8) + 1);
        return 0;
    }
    void *heap = dlopen(argv[1], RTLD_NOW);
    if (heap == NULL || (*(void **)&allocate = dlsym(heap, "hf_malloc")) == NULL)
        return 1;
    rain_free(allocate(8));
    return 0;
}
"""


def run(*words, **options):
    words = [str(word) for word in words]
    done = subprocess.run(words, text=True, capture_output=True, check=False, **options)
    if done.returncode not in (0, 1):
        sys.exit(f"failed: {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def built(*words):
    done = run(*words)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(map(str, words))}\n{done.stdout[-4000:]}{done.stderr}")


def copied(tree):
    """A copy of what is tracked, and of the subprojects as they are unpacked already."""
    shutil.rmtree(tree, ignore_errors=True)
    names = run("git", "ls-files", "-z", cwd=ROOT).stdout.split("\0")
    for name in filter(None, names):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tree / name, follow_symlinks=False)
    shutil.copytree(ROOT / "subprojects", tree / "subprojects", symlinks=True, dirs_exist_ok=True)


def add(tree):
    for name, before, text in ADDITIONS:
        path = tree / name
        old = path.read_text(encoding="utf-8")
        at = len(old) if before is None else old.index(before)
        path.write_text(old[:at] + text + old[at:], encoding="utf-8")


def expect(what, fact):
    if not fact:
        sys.exit(f"failed: {what}")


def main():
    work = pathlib.Path(sys.argv[1]).resolve() / "long/one-place"
    tree, build = work / "tree", work / "build"
    copied(tree)
    add(tree)
    shutil.rmtree(build, ignore_errors=True)
    built(
        "meson",
        "setup",
        "-Dwerror=true",
        "-Dexamples=false",
        "-Dtests=false",
        f"-Djemalloc_build={sys.argv[1]}",
        build,
        tree,
    )
    version = run(tree / "release/version").stdout.strip()
    built("ninja", "-C", build, "loader/command/homefree", f"loader/libhomefree.so.{version}",
           "loader/libhomefree-diagnose.so", "loader/libhomefree-preload.so")  # fmt: skip
    homefree = build / "loader/command/homefree"

    (work / "rain.c").write_text(LIBRARY)
    (work / "program.c").write_text(PROGRAM)
    library, program = work / "librain.so", work / "program"
    built("cc", "-shared", "-fPIC", work / "rain.c", "-o", library)
    built("cc", work / "program.c", library, f"-Wl,-rpath,{work}", "-ldl", "-o", program)

    said = run(homefree, "inspect", library, "--json").stdout
    expect("inspect does not name the allocator", "rainmaker" in said)
    done = run(program, build / "loader/libhomefree.so.1")
    expect("the function's call does not go home", done.returncode == 0)
    reports = work / "reports"
    shutil.rmtree(reports, ignore_errors=True)
    run(homefree, "run", "--diagnose", "--report", reports, "--", program)
    found = json.loads(run(homefree, "report", "--json", reports).stdout)["findings"]
    expect("the rule is not found", [finding["rule"] for finding in found] == ["odd-free"])
    listed = json.loads(run(homefree, "report", "--rules", "--json").stdout)["rules"]
    expect("the rule is not listed", "odd-free" in [rule["rule"] for rule in listed])
    print(f"a known allocator, a function and a rule: {len(ADDITIONS)} places")


if __name__ == "__main__":
    main()
