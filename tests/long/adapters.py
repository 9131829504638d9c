#!/usr/bin/env python3
"""The adapters of adapters/ with allocators of several versions: each is a right member.

usage: tests/long/adapters.py [--build DIRECTORY] [--cache DIRECTORY] [--only TEXT] [SECONDS]
    --build  what tests/run, or `ninja -C build`, has built (build)
    --cache  where sources and builds are kept (/var/tmp/homefree-adoption)
    --only   rows whose name contains the text
    SECONDS  begins no row after that time (900)

The allocators are those of tests/long/adoption, as they come from there, and the shared library of
Debian's rpmalloc. Each row links one of them, hidden, with its adapter, into a stripped module, and
has `homefree test --registry` examine it.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/long/adoption")]
sys.dont_write_bytecode = True

import adoption  # noqa: E402

from tests.support import rows  # noqa: E402

# Their archives come without the internal headers that the adapter needs, and 5.2 has others.
NO_ADAPTER = re.compile(r"jemalloc (?:5\.2\.\d|.*archive)")


class SharedRpmalloc:
    """Debian's library; its archive is for programs alone."""

    name = "rpmalloc 2.0.1, sid's library"
    module_flags = ()

    def __init__(self, debian):
        self.debian = debian

    def build(self, cache, compiler, flags, directory):
        headers = self.debian.binary("librpmalloc-dev", "2.0.1-1") / "usr/include"
        self.includes = (f"-I{headers}",)
        package = self.debian.binary("librpmalloc1", "2.0.1-1")
        (library,) = package.glob("usr/lib/*/librpmalloc.so.1")
        adoption.run(sys.executable, "-c", f"import ctypes; ctypes.CDLL({str(library)!r})")
        return [library, f"-Wl,-rpath,{library.parent}"]


def plan(cache):
    built, found = adoption.allocators(cache)
    everybody = [*built, *found, SharedRpmalloc(adoption.Debian(cache / "debian"))]
    return [allocator for allocator in everybody if not NO_ADAPTER.match(allocator.name)]


def module(options, allocator):
    name = allocator.name.split()[0]
    directory = options.cache / "adapters" / re.sub(r"\W", "_", allocator.name)
    directory.mkdir(parents=True, exist_ok=True)
    flags = ["-O2", "-fvisibility=hidden"]
    objects = allocator.build(options.cache, adoption.GCC, flags, directory)
    includes = list(allocator.includes)
    if name == "jemalloc":
        includes += ["-D_REENTRANT", f"-I{allocator.configured(options.cache)}/include"]
    made, names = directory / "member.so", directory / "names.map"
    names.write_text("{ local: *; };\n")
    adapter = directory / "adapter.o"
    command = ["gcc", "-O2", "-fPIC", "-w", "-D_GNU_SOURCE", f"-I{ROOT}/include", *includes]
    adoption.run(*command, "-c", ROOT / f"adapters/{name}.c", "-o", adapter)
    command = ["g++", "-shared", "-s", f"-Wl,--version-script={names}", *allocator.module_flags]
    adoption.run(*command, adapter, *objects, "-lm", "-pthread", "-o", made)
    return made


def examine(options, file):
    """What to say, and whether the member is right."""
    command = options.build / "loader/command/homefree"
    done = subprocess.run(
        [command, "test", "--json", "--registry", file],
        capture_output=True,
        text=True,
        timeout=300,
        env={
            **os.environ,
            "LD_LIBRARY_PATH": str(options.build / "loader"),
            # jemalloc's thread-local data is of initial-exec.
            "GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=16384",
        },
    )
    if done.returncode not in (0, 1):
        return f"FAILED: {done.stderr.strip()}", False
    (member,) = json.loads(done.stdout)["members"]
    refused = [check for check in member["checks"] if check["result"] == "refused"]
    if refused:
        return f"refused: {refused[0]['check']}: {refused[0]['rule']}", False
    return "keeps every duty", True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", nargs="?", type=float, default=900)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--cache", type=pathlib.Path, default="/var/tmp/homefree-adoption")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.cache = options.cache.resolve()
    options.cache.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    outcomes = []
    for allocator in plan(options.cache):
        if options.only not in allocator.name:
            continue
        if time.monotonic() - started > options.seconds:
            print("the time was over")
            break
        try:
            text, good = examine(options, module(options, allocator))
        except (adoption.Unavailable, OSError) as why:
            text, good = f"not built: {why}", None
        outcome = {True: "passed", False: "failed", None: f"skipped: {text}"}[good]
        print(f"{allocator.name}: {text}", flush=True)
        rows.row(f"adapter: {allocator.name}", text, outcome)
        outcomes.append(good)
    print(f"{len(outcomes)} adapters, {outcomes.count(False)} wrong")
    return 1 if False in outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
