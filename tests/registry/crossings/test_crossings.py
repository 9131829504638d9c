"""Strangers that publish their allocators exchange memory in all directions.

The modules of examples/crossings are linked again, with a jemalloc and with a mimalloc inside, both
hidden and stripped, and their adapters. All 33 rows must pass with homefree, which believes the
registry alone (HOMEFREE_CONF=guess:off), and again without homefree, with adapters/reader.c
preloaded. Without either, the rows that must die do.

mimalloc's archive is that of the wheel cmeel-mimalloc, tcmalloc's that of libgoogle-perftools-dev;
what cannot be had is left out.

Usage: test_crossings.py --source DIRECTORY --build DIRECTORY --library LIBHOMEFREE
                         --command HOMEFREE
                         --jemalloc ARCHIVE --jemalloc-include DIRECTORY [unittest arguments]
"""

import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import unittest
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--source", required=True, type=Path)
parser.add_argument("--build", required=True, type=Path)
parser.add_argument("--library", required=True, type=Path)
parser.add_argument("--command", required=True)
parser.add_argument("--jemalloc", required=True, type=Path)
parser.add_argument("--jemalloc-include", required=True, type=Path)

MIMALLOC = "cmeel-mimalloc==3.4.3"
# What an archive defines under the names of libc and C++ gets another name: the family is another.
RENAMED = re.compile(
    r"malloc|calloc|realloc|free|cfree|memalign|posix_memalign|aligned_alloc|valloc|pvalloc|"
    r"reallocarray|malloc_\w+|mallinfo2?|mallopt|mall(?:ctl\w*|ocx)|[rxnsd]{1,2}allocx|free_\w+|"
    r"__libc_\w+|__posix_memalign|str(?:n)?dup|realpath|wcsdup|reallocarr|vfree|_aligned_\w+|"
    r"_Zn[wa]\w+|_Zd[la]\w+"
)
FLAGS = ["-O2", "-fPIC", "-w", "-D_GNU_SOURCE", "-pthread"]


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    if done.returncode:
        raise AssertionError(f"{command[0]}: {done.stderr}")
    return done.stdout


def mimalloc(work):
    """Its archive and headers; None without network and cache."""
    directory = work / "mimalloc"
    if not directory.exists():
        wheel = work / "wheel"
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "-d",
            wheel,
            MIMALLOC,
        ]
        if subprocess.run([str(word) for word in command], capture_output=True).returncode:
            return None
        (archive,) = wheel.glob("*.whl")
        run(sys.executable, "-m", "zipfile", "-e", archive, f"{directory}.new")
        os.rename(f"{directory}.new", directory)
    (archive,) = directory.glob("*/lib/*/libmimalloc.a")
    (header,) = directory.glob("*/include/*/mimalloc.h")
    return archive, header.parent


class Maker:
    """Links modules with one allocator inside."""

    def __init__(self, name, archive, flags, libraries=()):
        self.work = WORK / name
        self.work.mkdir(exist_ok=True)
        self.name = name
        self.libraries = libraries
        self.inside = [self.renamed(archive, "inside.a")]
        adapter = self.work / "adapter.o"
        registry = f"-I{options.source / 'include'}"
        run(
            "cc",
            *FLAGS,
            registry,
            *flags,
            "-c",
            options.source / f"adapters/{name}.c",
            "-o",
            adapter,
        )
        family = self.work / "family.o"
        source = options.source / "tests/registry/crossings/family.cc"
        macros = [f"-DFAMILY_MEMBER={name}_member", "-fvisibility=hidden", registry]
        run("c++", "-std=c++17", "-fno-builtin", *FLAGS, *macros, "-c", source, "-o", family)
        self.inside = [family, self.renamed(adapter, "renamed.o"), *self.inside]

    def renamed(self, file, name):
        """The file with other names for what the archive defines under the family's names."""
        out, names = self.work / name, self.work / "names"
        if name == "inside.a":
            symbols = run("nm", "-g", "--defined-only", file).split()
            found = sorted({symbol for symbol in symbols if RENAMED.fullmatch(symbol)})
            names.write_text("".join(f"{symbol} inside_{symbol}\n" for symbol in found))
        run("objcopy", f"--redefine-syms={names}", file, out)
        return out

    def module(self, kind, name, source, *objects):
        exports = self.work / f"{name}.map"
        exports.write_text(f"{{ global: PyInit_{name}; local: *; }};\n")
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        run(
            "c++",
            "-shared",
            "-s",
            "-std=c++17",
            *FLAGS,
            f"-DCROSSINGS_{kind}={name}",
            f"-I{sysconfig.get_paths()['include']}",
            f"-I{CROSSINGS}",
            f"-Wl,--version-script={exports}",
            CROSSINGS / source,
            *objects,
            *self.inside,
            *self.libraries,
            "-ldl",
            "-o",
            WORK / "modules" / f"{name}{suffix}",
        )

    def module_under_test(self):
        objects = [
            "-Wl,--whole-archive",
            options.build / "examples/crossings/libcrossings_objects.a",
        ]
        objects += ["-Wl,--no-whole-archive"]
        own = options.build / "examples/crossings/libcrossings_own.a"
        objects += [own] if own.exists() else []
        for name in (f"crossings_{self.name}", f"crossings_{self.name}_second"):
            self.module("MODULE", name, "name.cc", *objects)

    def alone(self):
        """The allocator and its adapter, all hidden."""
        exports, made = self.work / "nothing.map", self.work / "alone.so"
        exports.write_text("{ local: *; };\n")
        hidden = ["-shared", "-s", f"-Wl,--version-script={exports}", *self.inside, *self.libraries]
        run("c++", *FLAGS, *hidden, "-ldl", "-o", made)
        return made

    def partner(self):
        self.module("PARTNER", f"partner_{self.name}", "partner.cc")


class Strangers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(WORK / "modules", ignore_errors=True)
        (WORK / "modules").mkdir(parents=True)
        cls.ways = ["jemalloc"]
        include = [f"-I{options.jemalloc_include}", "-O3"]
        makers = [Maker("jemalloc", options.jemalloc, include)]
        found = mimalloc(WORK)
        if found is not None:
            makers.append(Maker("mimalloc", found[0], [f"-I{found[1]}"]))
            cls.ways.append("mimalloc")
        for maker in makers:
            maker.module_under_test()
        archive = run("cc", "-print-file-name=libtcmalloc_minimal.a").strip()
        if archive.startswith("/") and Path("/usr/include/gperftools/tcmalloc.h").exists():
            libraries = ["-static-libgcc", "-static-libstdc++"]
            makers.append(Maker("tcmalloc", Path(archive), [], libraries))
        for maker in makers:
            maker.partner()
        cls.makers = makers
        for plain in (options.build / "examples/crossings").glob("partner_plain.*.so"):
            shutil.copy(plain, WORK / "modules")
        cls.reader = WORK / "reader.so"
        source = options.source / "adapters/reader.c"
        words = ["-shared", "-DREADER_PRELOAD", f"-I{options.source / 'include'}", source]
        run("cc", *FLAGS, *words, "-o", cls.reader, "-ldl")

    def rows(self, rows, preload, conf=""):
        """How each row of each way ends; both are in a process of their own."""
        os.environ.update(LD_PRELOAD=str(preload), HOMEFREE_CONF=conf)
        cells = [(way, row) for way in self.ways for row in rows]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            jobs = [pool.submit(crossings.run_cell, WORK / "modules", *cell) for cell in cells]
        del os.environ["LD_PRELOAD"], os.environ["HOMEFREE_CONF"]
        results = {
            (way, row.name): crossings.describe(job.result())
            for (way, row), job in zip(cells, jobs)
        }
        counts = {way: [v for (w, _), v in results.items() if w == way] for way in self.ways}
        for way, values in counts.items():
            print(
                f"{way}: {values.count('ok')} of {len(values)} with {Path(preload).name or 'none'}"
            )
        return results

    def check(self, preload, conf=""):
        self.assertEqual(len(crossings.ROWS), 33)
        results = self.rows(crossings.ROWS, preload, conf)
        bad = {
            key: value
            for key, value in results.items()
            if value != "ok" and not value.startswith("skipped: no ")
        }
        self.assertEqual(bad, {})

    def test_homefree_without_guessing(self):
        self.check(options.library, "guess:off")

    def test_homefree_with_guessing(self):
        self.check(options.library)

    def test_reader_of_one_file(self):
        self.check(self.reader)

    def test_each_keeps_its_duties(self):
        for maker in self.makers:
            with self.subTest(maker.name):
                command = [options.command, "test", "--registry", maker.alone()]
                done = subprocess.run(
                    [str(word) for word in command], capture_output=True, text=True
                )
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_nobody_reads(self):
        given = [row for row in crossings.ROWS if row.name in ("raw-given", "array-given")]
        self.assertEqual(len(given), 2)
        results = self.rows(given, "")
        self.assertEqual([key for key, value in results.items() if value == "ok"], [])


if __name__ == "__main__":
    options, rest = parser.parse_known_args()
    CROSSINGS = options.source / "examples/crossings"
    WORK = options.build / "tests/registry/crossings/work"
    WORK.mkdir(parents=True, exist_ok=True)
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(CROSSINGS))
    import run as crossings  # noqa: E402 (found beside the examples)

    crossings.WAYS.update(jemalloc="jemalloc", mimalloc="mimalloc")
    unittest.main(argv=[sys.argv[0], *rest])
