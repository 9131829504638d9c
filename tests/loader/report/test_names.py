"""`homefree report` finds the names of places: in debug information, symbol tables, debug files.

The objects are built here, and the reports name addresses in them.

Usage: test_names.py HOMEFREE [unittest arguments]; the compilers are $CC and $CXX, or cc and c++
"""

import functools
import http.server
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import unittest
from pathlib import Path

from recorded import Recorded

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))
from subcommand import Subcommand, SubcommandTest  # noqa: E402

HOMEFREE = Path(sys.argv.pop(1)).resolve()
CC = shlex.split(os.environ.get("CC", "cc"))
CXX = shlex.split(os.environ.get("CXX", "c++"))

SOURCE = """
void *malloc(unsigned long);
void *table;
static __attribute__((noinline, noclone)) void make_table(void)
{
    table = malloc(10); /* line 6 */
    __asm__ volatile("");
}
void start(void);
void start(void)
{
    make_table();
    __asm__ volatile("");
}
"""
MAKE_LINE = 6

CXX_SOURCE = """
#include <string>
namespace tables {
__attribute__((noinline)) void *make(const std::string &, int size) { return new char[size]; }
}
"""

NO_LIBDW = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
void *dlopen(const char *name, int flags)
{
    void *(*next)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    return name != NULL && strstr(name, HIDDEN) != NULL ? NULL : next(name, flags);
}
"""


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done
    return done.stdout


def have_libdw():
    return "libdw.so.1" in run("/sbin/ldconfig", "-p")


class Names(SubcommandTest):
    command = Subcommand(HOMEFREE, "report")

    def build(self, *flags, source=SOURCE, compiler=CC, suffix="c", name="libtable.so"):
        path = self.directory / name
        file = self.directory / f"table.{suffix}"
        file.write_text(source)
        run(*compiler, "-O1", "-fPIC", "-shared", "-o", path, file, "-Wl,--build-id", *flags)
        return path

    @staticmethod
    def build_id(path):
        words = run("readelf", "--wide", "--notes", path).split("Build ID:")
        return bytes.fromhex(words[1].split()[0]) if len(words) > 1 else b""

    @staticmethod
    def call(path, function, callee):
        """The return address of the first call of `callee` in a function."""
        lines = run("objdump", "-d", "--no-show-raw-insn", path).splitlines()
        start = next(i for i, line in enumerate(lines) if line.endswith(f"<{function}>:"))
        calls = re.compile(rf"\t(callq?|bl)\b.*{callee}")
        call = next(i for i in range(start, len(lines)) if calls.search(lines[i]))
        behind = (re.match(r" *([0-9a-f]+):\t", line) for line in lines[call + 1 :])
        return int(next(match for match in behind if match)[1], 16)

    def allocated(self, path, offset, build, **environment):
        """What the report says about a block that was allocated there."""
        recorded = Recorded()
        base = 0x7F1234560000
        site = recorded.site(recorded.object(str(path), base, build), base + offset)
        recorded.finding("static-free", 0, site, 0)
        done = self.command(
            "--json",
            recorded.write(self.directory / "1-0.hfreport"),
            env={**os.environ, "DEBUGINFOD_URLS": "", **environment},
        )
        self.assertEqual((done.returncode, done.stderr), (1, b""))
        side = json.loads(done.stdout)["findings"][0]["allocated"]
        return side["symbol"], os.path.basename(side["file"] or "") or None, side["line"]

    def test_frames_without_a_name(self):
        """Text folds them; the call itself stays, and where no frame has a name all do."""
        path = self.build()
        named = self.call(path, "make_table", "malloc")
        recorded = Recorded()
        library = recorded.object(str(path), 0, self.build_id(path))
        other = recorded.object("/opt/libother.so")
        site = recorded.site(library, named)
        for rule, frames in (
            ("static-free", [(other, 0x10), (other, 0x20), (0, 0x30), (library, named), (0, 0x40)]),
            ("stack-free", [(other, 0x50), (other, 0x60)]),
        ):
            stack = recorded.stack(frames)
            recorded.finding(rule, 0, site, site, allocated_stack=stack)
        text = self.command(recorded.write(self.directory / "1-0.hfreport")).stdout.decode()
        self.assertRegex(
            text,
            r"allocation\n +0x10 in libother.so\n +\.\.\. 2 without a name in libother.so\n"
            r" +make_table .*in libtable.so\n +\.\.\. 1 without a name in unknown code\n",
        )
        self.assertRegex(text, r"allocation\n +0x50 in libother.so\n +0x60 in libother.so\n")

    def hide(self, library):
        """A preload that hides libraries with such a name from dlopen(3)."""
        source = self.directory / "hide.c"
        source.write_text(NO_LIBDW)
        path = self.directory / "hide.so"
        run(*CC, "-fPIC", "-shared", f'-DHIDDEN="{library}"', "-o", path, source)
        return str(path)

    def expected(self, symbol, line):
        return (symbol, "table.c", line) if have_libdw() else (symbol, None, None)

    def test_debug_information(self):
        path = self.build("-g")
        build = self.build_id(path)
        self.assertEqual(
            self.allocated(path, self.call(path, "make_table", "malloc"), build),
            self.expected("make_table", MAKE_LINE),
        )

    def test_debug_information_without_a_table_of_addresses(self):
        """clang writes no .debug_aranges, in which libdw looks for an address first."""
        if shutil.which("clang") is None:
            self.skipTest("no clang")
        path = self.build("-g", compiler=["clang"])
        self.assertEqual(
            self.allocated(path, self.call(path, "make_table", "malloc"), self.build_id(path)),
            self.expected("make_table", MAKE_LINE),
        )

    def test_the_call_ends_its_function(self):
        """The return address of a call that does not return lies in the next function."""
        path = self.build(
            "-g",
            source="""
            void abort(void);
            void last(void);
            void last(void) { abort(); }
            void next(void);
            void next(void) { }
            """,
        )
        offset = self.call(path, "last", "abort")
        symbol, _, _ = self.allocated(path, offset, self.build_id(path))
        self.assertEqual(symbol, "last")

    def test_without_libdw(self):
        path = self.build("-g")
        hidden = self.allocated(
            path,
            self.call(path, "make_table", "malloc"),
            self.build_id(path),
            LD_PRELOAD=self.hide("libdw"),
        )
        self.assertEqual(hidden, ("make_table", None, None))

    def test_a_stripped_object(self):
        """Only exported functions have names, and another's code must not get them."""
        path = self.build()
        local = self.call(path, "make_table", "malloc")
        exported = self.call(path, "start", "make_table")
        build = self.build_id(path)
        run("strip", path)
        for environment in {}, {"LD_PRELOAD": self.hide("libdw")}:
            self.assertEqual(self.allocated(path, local, build, **environment)[0], None)
            self.assertEqual(self.allocated(path, exported, build, **environment)[0], "start")

    def test_a_separate_debug_file(self):
        path = self.build("-g")
        offset, build = self.call(path, "make_table", "malloc"), self.build_id(path)
        run("objcopy", "--only-keep-debug", path, f"{path}.debug")
        run("strip", path)
        run("objcopy", f"--add-gnu-debuglink={path}.debug", path)
        if not have_libdw():
            self.skipTest("only libdw follows a debug link")
        self.assertEqual(
            self.allocated(path, offset, build), self.expected("make_table", MAKE_LINE)
        )

    def test_another_build(self):
        """A file that is not the one that ran would give wrong names."""
        path = self.build("-g")
        offset, build = self.call(path, "make_table", "malloc"), self.build_id(path)
        unknown = (None, None, None)
        self.assertEqual(self.allocated(path, offset, bytes(20)), unknown)
        self.assertEqual(self.allocated(path, offset, build[:-1]), unknown)
        self.assertEqual(self.allocated(path, offset, b""), unknown)
        path.unlink()
        self.assertEqual(self.allocated(path, offset, build), unknown)

    def test_no_build_id_at_all(self):
        path = self.build("-g", "-Wl,--build-id=none")
        offset = self.call(path, "make_table", "malloc")
        self.assertEqual(self.allocated(path, offset, b""), self.expected("make_table", MAKE_LINE))

    def test_a_program_at_a_fixed_address(self):
        source = self.directory / "table.c"
        source.write_text(SOURCE + "int main(void) { start(); return table == 0; }\n")
        path = self.directory / "app"
        run(*CC, "-g", "-O1", "-no-pie", "-o", path, source, "-Wl,--build-id")
        self.assertEqual(
            self.allocated(path, self.call(path, "make_table", "malloc"), self.build_id(path)),
            self.expected("make_table", MAKE_LINE),
        )

    def test_cxx_names(self):
        path = self.build("-g", source=CXX_SOURCE, compiler=CXX, suffix="cc")
        mangled = next(
            line.split()[2]
            for line in run("nm", "--defined-only", path).splitlines()
            if "6tables4make" in line
        )
        offset, build = self.call(path, mangled, "_Znam"), self.build_id(path)
        symbol, _, _ = self.allocated(path, offset, build)
        self.assertRegex(symbol, r"\Atables::make\(std::.*string.* const&, int\)\Z")
        symbol, _, _ = self.allocated(path, offset, build, LD_PRELOAD=self.hide("++"))
        self.assertEqual(symbol, mangled)

    def test_paths_that_are_no_objects(self):
        fifo = self.directory / "fifo"
        os.mkfifo(fifo)
        text = self.directory / "text"
        text.write_text("hello")
        damaged = self.directory / "damaged.so"
        damaged.write_bytes(self.build("-g").read_bytes()[:2000])
        paths = [fifo, text, damaged, self.directory, "/dev/zero", "[vdso]", "libtable.so"]
        for path in paths:
            self.assertEqual(self.allocated(path, 0x1234, b""), (None, None, None), path)

    def test_offsets_outside(self):
        path = self.build("-g")
        for offset in 0, 1, 0xFFFFFF, 0x7FFFFFFFFFFF:
            symbol, _, _ = self.allocated(path, offset, self.build_id(path))
            self.assertEqual(symbol, None, offset)

    def test_a_server(self):
        """Who sets DEBUGINFOD_URLS gets names of files that are not here, and lines of others."""
        if "libdebuginfod.so.1" not in run("/sbin/ldconfig", "-p") or not have_libdw():
            self.skipTest("no libdebuginfod")
        path = self.build("-g")
        offset, build = self.call(path, "make_table", "malloc"), self.build_id(path)
        served = self.directory / "served/buildid" / build.hex()
        served.mkdir(parents=True)
        run("objcopy", "--only-keep-debug", path, served / "debuginfo")
        run("strip", path)
        shutil.copy(path, served / "executable")

        class Quiet(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *_):
                pass

        handler = functools.partial(Quiet, directory=self.directory / "served")
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        expected = ("make_table", "table.c", MAKE_LINE)
        for present in True, False:
            if not present:
                path.unlink()
            found = self.allocated(
                path,
                offset,
                build,
                DEBUGINFOD_URLS=f"http://127.0.0.1:{server.server_port}",
                DEBUGINFOD_CACHE_PATH=str(self.directory / f"cache-{present}"),
                no_proxy="127.0.0.1",
            )
            self.assertEqual(found, expected, present)

    def test_no_server_is_asked(self):
        """Only a user who sets DEBUGINFOD_URLS has libdw ask one."""
        if shutil.which("strace") is None:
            self.skipTest("no strace")
        path = self.build("-g")
        build = self.build_id(path)
        path.unlink()
        recorded = Recorded()
        site = recorded.site(recorded.object(str(path), 0, build), 0x1234)
        recorded.finding("static-free", 0, site, 0)
        command = [HOMEFREE, "report", recorded.write(self.directory / "1-0.hfreport")]
        log = self.directory / "log"
        environment = {k: v for k, v in os.environ.items() if k != "DEBUGINFOD_URLS"}
        subprocess.run(
            ["strace", "-f", "-e", "trace=socket,connect", "-o", log, *command],
            env=environment,
            stdout=subprocess.DEVNULL,
            timeout=60,
        )
        self.assertNotIn("socket(", log.read_text())


if __name__ == "__main__":
    unittest.main()
