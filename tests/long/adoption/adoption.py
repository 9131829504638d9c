#!/usr/bin/env python3
"""Allocators of many versions, built in many ways, hidden in modules, adopted.

usage: tests/long/adoption/adoption.py [--build DIRECTORY] [--cache DIRECTORY] [--only TEXT]
                                       [--write] [SECONDS]
    --build  what tests/run, or `ninja -C build`, has built (build)
    --cache  where sources and builds are kept (/var/tmp/homefree-adoption)
    --only   rows whose name contains the text
    --write  writes README.md
    SECONDS  begins no row after that time (1800)

Sources and archives are Debian's, of several releases, and a wheel of cmeel-mimalloc. Each row
links one of them, hidden, into the modules of tests/load/hidden and has the runner there let blocks
cross: on one thread, on sixteen, and in a child. A row passes if all crossings do, or if the object
is refused and the table of refusals below says why.
"""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
HERE = pathlib.Path(__file__).resolve().parent
INNER = ROOT / "tests/load/hidden"
sys.path.insert(0, str(ROOT))
sys.dont_write_bytecode = True

from tests.support import rows  # noqa: E402

MODULE_FLAGS = ["-D_GNU_SOURCE", "-fPIC", "-fno-builtin", "-g", "-w"]
LINK_FLAGS = ["-shared", f"-Wl,--version-script={INNER}/inner.map", "-Wl,--exclude-libs,ALL"]

# What else a row's name may say, and a word of the reason for which it is refused.
REFUSED = {
    "rpmalloc of LLVM 19, gcc -O2, stripped": "no allocator was found",
    "stripped": "no names",
    # Its static initialisers construct its caches.
    "tcmalloc 2.10, gcc -O0": "directly",
    "tcmalloc 2.10, clang -O0": "directly",
    # Parts of the allocator may be inlined into the module's own code: any reason will do.
    "LTO": "",
    # Its constructor contains parts of it.
    "rpmalloc of LLVM 19, clang": "initializer",
}


class Unavailable(Exception):
    """Something cannot be had here; why."""


def run(*command, **more):
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, errors="replace", **more
    )
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise Unavailable(f"{pathlib.Path(str(command[0])).name}: {lines[-1]}")
    return done.stdout


# ---- where things come from ----


class Debian:
    """Packages of several releases; this machine's own lists and packages are left alone."""

    def __init__(self, directory):
        self.directory = directory
        self.ready = False

    def apt(self, *words, **more):
        directory = self.directory
        for name in ("lists/partial", "cache/archives/partial", "etc"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        options = [
            f"Dir::State={directory}",
            f"Dir::State::Lists={directory}/lists",
            f"Dir::Cache={directory}/cache",
            f"Dir::Etc::SourceList={directory}/etc/sources.list",
            "Dir::Etc::SourceParts=/dev/null",
            "APT::Sandbox::User=root",
            "Acquire::Check-Valid-Until=false",
        ]
        command = [word for option in options for word in ("-o", option)]
        return run("apt-get", *command, "-qq", *words, **more)

    def prepare(self):
        if self.ready:
            return
        sites = run(
            "apt-get",
            "indextargets",
            "--no-release-info",
            "--format",
            "$(SITE)",
            "Created-By: Packages",
        ).split()
        site = next((site for site in sites if site.rstrip("/").endswith("/debian")), None)
        if site is None:
            raise Unavailable("no archive of Debian's is configured")
        (self.directory / "etc").mkdir(parents=True, exist_ok=True)
        keys = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
        (self.directory / "etc/sources.list").write_text(
            "".join(
                f"{kind} {keys} {site} {suite} main\n"
                for suite in ("bullseye", "bookworm", "trixie", "sid")
                for kind in ("deb", "deb-src")
            )
        )
        self.apt("update")
        self.ready = True

    def binary(self, package, version):
        """The directory in which a package is unpacked."""
        directory = self.directory / f"{package}_{version}"
        if not directory.exists():
            self.prepare()
            with tempfile.TemporaryDirectory(dir=self.directory) as work:
                self.apt("download", f"{package}={version}", cwd=work)
                (archive,) = pathlib.Path(work).glob("*.deb")
                run("dpkg-deb", "-x", archive, f"{work}/x")
                os.rename(f"{work}/x", directory)
        return directory

    def source(self, package, version):
        directory = self.directory / f"{package}_{version}.source"
        if not directory.exists():
            self.prepare()
            with tempfile.TemporaryDirectory(dir=self.directory) as work:
                self.apt("source", "--download-only", f"{package}={version}", cwd=work)
                (description,) = pathlib.Path(work).glob("*.dsc")
                run("dpkg-source", "-x", description, f"{work}/x")
                os.rename(f"{work}/x", directory)
        return directory

    def source_part(self, package, version, part):
        """The same of a large package, of which one directory is unpacked."""
        directory = self.directory / f"{package}_{version}.part"
        if not directory.exists():
            self.prepare()
            with tempfile.TemporaryDirectory(dir=self.directory) as work:
                self.apt("source", "--download-only", f"{package}={version}", cwd=work)
                (archive,) = pathlib.Path(work).glob("*.orig.tar.xz")
                run("tar", "xf", archive, "-C", work, "--wildcards", f"*/{part}/*")
                (found,) = pathlib.Path(work).glob(f"*/{part}")
                os.rename(found, directory)
        return directory


def wheel(cache, requirement):
    directory = cache / requirement
    if not directory.exists():
        with tempfile.TemporaryDirectory(dir=cache) as work:
            run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", work, requirement)
            (archive,) = pathlib.Path(work).glob("*.whl")
            run(sys.executable, "-m", "zipfile", "-e", archive, f"{work}/x")
            os.rename(f"{work}/x", directory)
    return directory


# ---- allocators ----


@dataclasses.dataclass
class Compiler:
    c: str
    cxx: str


GCC = Compiler("gcc", "g++")
CLANG = Compiler("clang", "clang++")


def compile_files(compiler, flags, files, directory):
    """Compiles files into the directory. Result: the objects."""
    objects = []
    for file in files:
        made = directory / f"{file.stem}.o"
        is_cxx = file.suffix != ".c"
        command = [compiler.cxx if is_cxx else compiler.c, "-fPIC", "-w", *flags]
        command += ["-std=gnu++17" if is_cxx else "-std=gnu11", "-c", file, "-o", made]
        run(*command)
        objects.append(made)
    return objects


class Jemalloc:
    c_source = INNER / "inner.c"
    cxx_source = INNER / "inner.cc"
    includes = ()
    module_flags = ()

    def __init__(self, version, get):
        self.name = f"jemalloc {version}"
        self.version = version
        self.get = get

    def configured(self, cache):
        directory = cache / f"jemalloc-{self.version}"
        if not (directory / "ready").exists():
            shutil.rmtree(directory, ignore_errors=True)
            source, configure = self.get()
            shutil.copytree(source, directory, symlinks=True)
            if configure is not None:
                shutil.copy(configure, directory / "configure")
            more = [f"--with-version={self.version}-0-g0", "--disable-doc"]
            run("sh", "configure", *more, "EXTRA_CFLAGS=-O0 -g0 -w", cwd=directory)
            run("make", "include/jemalloc/internal/private_namespace.h", cwd=directory)
            (directory / "ready").touch()
        return directory

    def build(self, cache, compiler, flags, directory):
        tree = self.configured(cache)
        files = sorted(file for file in (tree / "src").glob("*.c") if file.name != "zone.c")
        files += (tree / "src").glob("*.cpp")
        more = ["-fvisibility=hidden", "-D_GNU_SOURCE", "-D_REENTRANT", f"-I{tree}/include"]
        return compile_files(compiler, [*flags, *more], files, directory)


class Mimalloc:
    c_source = HERE / "inner_mimalloc.c"
    cxx_source = INNER / "inner.cc"
    module_flags = ()

    def __init__(self, version, get):
        self.name = f"mimalloc {version}"
        self.get = get

    def build(self, cache, compiler, flags, directory):
        tree = self.get()
        self.includes = (f"-I{tree}/include",)
        more = ["-DMI_MALLOC_OVERRIDE", "-DNDEBUG", "-ftls-model=initial-exec"]
        more += ["-fvisibility=hidden", "-fno-builtin-malloc", *self.includes]
        return compile_files(compiler, [*flags, *more], [tree / "src/static.c"], directory)


class Tcmalloc:
    c_source = None
    cxx_source = INNER / "inner_tcmalloc.cc"
    module_flags = ("-static-libstdc++",)

    def __init__(self, version, get):
        self.name = f"tcmalloc {version}"
        self.version = version
        self.get = get

    def build(self, cache, compiler, flags, directory):
        tree = self.get()
        configured = cache / f"gperftools-{self.version}"
        if not (configured / "config.h").exists():
            if shutil.which("cmake") is None:
                raise Unavailable("cmake is not installed")
            run("cmake", "-S", tree, "-B", configured, "-DBUILD_TESTING=OFF")
        self.includes = (f"-I{configured}", f"-I{tree}/src")
        names = (
            "common internal_logging system-alloc memfs_malloc central_freelist page_heap sampler "
            "span stack_trace_table static_vars symbolize thread_cache malloc_hook "
            "malloc_extension tcmalloc maybe_threads base/spinlock base/spinlock_internal "
            "base/logging base/sysinfo base/dynamic_annotations"
        )
        files = [tree / f"src/{name}" for name in names.split()]
        files = [file.with_suffix(".cc") for file in files]
        files = [file if file.exists() else file.with_suffix(".c") for file in files]
        more = [
            "-DNDEBUG",
            "-DNO_TCMALLOC_SAMPLES",
            "-DNO_HEAP_CHECK",
            "-fno-builtin",
            *self.includes,
        ]
        more += [f"-I{configured}/gperftools"]
        return compile_files(
            compiler, [*flags, *more], [file for file in files if file.exists()], directory
        )


class Rpmalloc:
    """The copy in LLVM's sources. Its operator new returns NULL, so there is no module in C++."""

    c_source = HERE / "inner_rpmalloc.c"
    cxx_source = None
    module_flags = ()
    name = "rpmalloc of LLVM 19"

    def __init__(self, get):
        self.get = get

    def build(self, cache, compiler, flags, directory):
        tree = self.get()
        (directory / "rpmalloc").mkdir(exist_ok=True)
        shutil.copy(tree / "rpmalloc.h", directory / "rpmalloc")
        self.includes = (f"-I{directory}",)
        more = ["-D_GNU_SOURCE", "-DENABLE_OVERRIDE=1", "-DENABLE_PRELOAD=1", "-DNDEBUG"]
        return compile_files(compiler, [*flags, *more], [tree / "rpmalloc.c"], directory)


class Archive:
    """An allocator as somebody else has compiled it."""

    def __init__(self, name, kind, get, includes=()):
        self.name = name
        self.c_source = kind.c_source
        self.cxx_source = kind.cxx_source
        self.module_flags = kind.module_flags
        self.get = get
        self.include = includes
        self.includes = ()

    def build(self, cache, compiler, flags, directory):
        archive, include = self.get()
        self.includes = (f"-I{include}",) if include else ()
        # Of newer releases of glibc, which this machine's need not have.
        newer = directory / "newer.c"
        newer.write_text(
            "#include <stdlib.h>\n"
            '#define HIDDEN __attribute__((visibility("hidden")))\n'
            "HIDDEN long __isoc23_strtol(const char *s, char **e, int b)\n"
            "{ return strtol(s, e, b); }\n"
            "HIDDEN unsigned long long __isoc23_strtoull(const char *s, char **e, int b)\n"
            "{ return strtoull(s, e, b); }\n"
            "HIDDEN unsigned long __isoc23_strtoul(const char *s, char **e, int b)\n"
            "{ return strtoul(s, e, b); }\n"
            "HIDDEN long long __isoc23_strtoll(const char *s, char **e, int b)\n"
            "{ return strtoll(s, e, b); }\n"
        )
        run("gcc", "-O2", "-fPIC", "-c", newer, "-o", directory / "newer.o")
        return [archive, directory / "newer.o"]


# ---- ways to build ----

FUNCTION_SECTIONS = ["-ffunction-sections", "-fdata-sections"]
WAYS = {
    "gcc -O0": (GCC, ["-O0"], []),
    "gcc -O2": (GCC, ["-O2"], []),
    "gcc -O3": (GCC, ["-O3"], []),
    "gcc -O2, sections": (GCC, ["-O2", *FUNCTION_SECTIONS], ["-Wl,--gc-sections"]),
    "gcc -O3, sections": (GCC, ["-O3", *FUNCTION_SECTIONS], ["-Wl,--gc-sections"]),
    "gcc -O2, LTO": (GCC, ["-O2", "-flto=auto"], []),
    "gcc -O3, LTO": (GCC, ["-O3", "-flto=auto"], []),
    "gcc -O2, IBT": (GCC, ["-O2", "-fcf-protection=full"], []),
    "clang -O0": (CLANG, ["-O0"], []),
    "clang -O2": (CLANG, ["-O2"], []),
    "clang -O3": (CLANG, ["-O3"], []),
    "clang -O2, LTO": (CLANG, ["-O2", "-flto"], ["-fuse-ld=lld"]),
    "clang -O2, IBT": (CLANG, ["-O2", "-fcf-protection=full"], []),
    "clang -O2, --icf=all": (
        CLANG,
        ["-O2", *FUNCTION_SECTIONS],
        ["-fuse-ld=lld", "-Wl,--icf=all", "-Wl,--gc-sections"],
    ),
}
AFTERWARDS = ("stripped", "debug file")  # of "gcc -O2"


def link(allocator, source, compiler, flags, link_flags, objects, made):
    compiled = made.with_suffix(".o")
    standard = "-std=gnu17" if source.suffix == ".c" else "-std=c++17"
    driver = compiler.c if source.suffix == ".c" else compiler.cxx
    run(driver, standard, *MODULE_FLAGS, *flags, *allocator.includes, "-c", source, "-o", compiled)
    command = [compiler.cxx, *LINK_FLAGS, *flags, *link_flags, *allocator.module_flags]
    run(*command, compiled, *objects, "-lm", "-pthread", "-o", made)
    return made


def strip(module, how):
    made = module.with_name(f"{module.stem}-{how.split()[0]}.so")
    run("strip", "-s", "-o", made, module)
    if how == "debug file":
        run("objcopy", "--only-keep-debug", module, f"{made}.debug")
    return made


# ---- what happens ----


def inspect(build, module):
    """Whether the module can be adopted, and why not."""
    done = subprocess.run(
        [build / "loader/command/homefree", "inspect", "--adoption", "--json", module],
        capture_output=True,
        text=True,
    )
    (file,) = json.loads(done.stdout)["files"]
    for finding in file["findings"]:
        if finding["rule"] == "adoptable":
            return True, finding["message"]
        if finding["rule"] == "not-adoptable":
            return False, finding["message"].replace("it cannot be adopted: ", "")
    return None, "no allocator was found in it"


def crossings(build, module, cache):
    for mode in ("crossings", "threads", "forked"):
        try:
            done = subprocess.run(
                [build / "tests/load/hidden/adopt-runner", mode, module],
                capture_output=True,
                text=True,
                timeout=120,
                env={**os.environ, "XDG_CACHE_HOME": str(cache)},
            )
        except subprocess.TimeoutExpired:
            return f"{mode}: it still ran after two minutes"
        if (done.returncode, done.stderr) != (0, ""):
            lines = done.stderr.strip().splitlines() or [""]
            return f"{mode}: {done.returncode}, {lines[-1]}"
    return None


def examine(options, name, module, work):
    """One row: what to say, and whether it is as it should be."""
    adoptable, why = inspect(options.build, module)
    # inspect looks for allocators in the file alone, and some are known by symbols only.
    if not adoptable and not (adoptable is None and "debug file" in name):
        word = next((word for part, word in REFUSED.items() if part in name), None)
        return f"refused: {why}", word is not None and word in why
    wrong = crossings(options.build, module, work)
    return (f"FAILED: {wrong}", False) if wrong else ("adopted, all crossings passed", True)


def allocators(cache):
    debian = Debian(cache / "debian")

    def crate():
        directory = debian.binary("librust-jemalloc-sys-dev", "0.3.2-2")
        (found,) = directory.glob("usr/share/cargo/registry/jemalloc-sys-*")
        return found / "jemalloc", found / "configure/configure"

    def ours():
        found = list((ROOT / "subprojects").glob("jemalloc-*/configure"))
        if not found:
            raise Unavailable("jemalloc's source is not in the tree")
        return found[-1].parent, None

    def archive(package, version, name):
        def get():
            directory = debian.binary(package, version)
            (found,) = directory.glob(f"usr/lib/*/{name}")
            return found, directory / "usr/include"

        return get

    def cmeel():
        directory = wheel(cache, "cmeel-mimalloc==3.4.3") / "cmeel.prefix"
        return directory / "lib/mimalloc-3.4/libmimalloc.a", directory / "include/mimalloc-3.4"

    built = [
        Jemalloc("5.2.1", crate),
        Jemalloc("5.3.0", lambda: (debian.source("jemalloc", "5.3.0-1"), None)),
        Jemalloc("5.3.1", ours),
        Mimalloc("2.0.9", lambda: debian.source("mimalloc", "2.0.9+ds-2")),
        Tcmalloc("2.10", lambda: debian.source("google-perftools", "2.10-1")),
        Rpmalloc(
            lambda: debian.source_part(
                "llvm-toolchain-19", "1:19.1.7-3~deb12u1", "llvm/lib/Support/rpmalloc"
            )
        ),
    ]
    found = [
        Archive(
            f"jemalloc {version.split('-')[0]}, {suite}'s archive",
            Jemalloc,
            archive("libjemalloc-dev", version, "libjemalloc_pic.a"),
        )
        for suite, version in (
            ("bullseye", "5.2.1-3"),
            ("bookworm", "5.3.0-1"),
            ("trixie", "5.3.0-3"),
            ("sid", "5.3.1-2"),
        )
    ]
    found += [
        Archive(
            f"tcmalloc {version.split('-')[0]}, {suite}'s archive",
            Tcmalloc,
            archive("libgoogle-perftools-dev", version, "libtcmalloc_minimal.a"),
        )
        for suite, version in (
            ("bullseye", "2.8.1-1"),
            ("bookworm", "2.10-1"),
            ("trixie", "2.16-1"),
            ("sid", "2.18.1-2"),
        )
    ]
    found.append(Archive("mimalloc 3.4.3, cmeel-mimalloc's archive", Mimalloc, cmeel))
    return built, found


def plan(cache):
    """The rows: name, allocator, way, what is done afterwards."""
    built, found = allocators(cache)
    ways = [(way, None) for way in WAYS] + [("gcc -O2", how) for how in AFTERWARDS]
    for allocator in found:
        yield from ((allocator, "gcc -O2", how) for how in (None, *AFTERWARDS))
    for way, how in ways:
        yield from ((allocator, way, how) for allocator in built)


def examine_all(options):
    results = []
    made = {}  # (allocator, way): modules, or why there are none
    started = time.monotonic()
    for allocator, way, how in plan(options.cache):
        for source in (allocator.c_source, allocator.cxx_source):
            if source is None:
                continue
            language = "C" if source.suffix == ".c" else "C++"
            name = f"{allocator.name}, {way}{', ' + how if how else ''}, {language}"
            if options.only not in name:
                continue
            if time.monotonic() - started > options.seconds:
                return results, False
            directory = (
                options.cache
                / "modules"
                / "".join(
                    letter if letter.isalnum() else "_" for letter in f"{allocator.name}-{way}"
                )
            )
            directory.mkdir(parents=True, exist_ok=True)
            compiler, flags, link_flags = WAYS[way]
            key = (allocator.name, way)
            try:
                if key not in made:
                    made[key] = allocator.build(options.cache, compiler, flags, directory)
                module = directory / f"inner-{language.replace('+', 'x')}.so"
                link(allocator, source, compiler, flags, link_flags, made[key], module)
                if how:
                    module = strip(module, how)
                with tempfile.TemporaryDirectory() as work:
                    text, good = examine(options, name, module, pathlib.Path(work))
            except (Unavailable, OSError) as why:
                text, good = f"not built: {why}", None
            outcome = {True: "passed", False: "failed", None: f"skipped: {text}"}[good]
            print(f"{name}: {text}", flush=True)
            rows.row(f"adopted: {name}", text, outcome)
            results.append((name, text, good))
    return results, True


PAGE = """\
# Allocators, built in many ways and adopted

Written by `tests/long/adoption/adoption.py --write` on {date}, with {gcc} and
{clang}. Each row is a module with that allocator inside, hidden by a version script; the compiler
and its flags are the allocator's, too, except for archives that somebody else has compiled.
"adopted, all crossings passed" means that blocks crossed between module, libc, libstdc++ and heap
in both directions, on one thread, on sixteen, and in a child.

| allocator, build, module | outcome |
|---|---|
{lines}

## Not tried

- tcmalloc 2.18.1 of Debian's archive is compiled for programs alone (`R_X86_64_TPOFF32`), so no
  linker puts it into a module; nor rpmalloc 2.0.1 of Debian's librpmalloc-dev.
- Google's newer tcmalloc and snmalloc: neither Debian nor PyPI has their sources, and no wheel that
  was looked at contains one.
"""


def write(results):
    def version(program):
        return run(program, "--version").splitlines()[0]

    text = PAGE.format(
        date=datetime.date.today().isoformat(),
        gcc=version("gcc"),
        clang=version("clang"),
        lines="\n".join(f"| {name} | {text} |" for name, text, _ in sorted(results)),
    )
    (HERE / "README.md").write_text(text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", nargs="?", type=float, default=1800)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--cache", type=pathlib.Path, default="/var/tmp/homefree-adoption")
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.cache = options.cache.resolve()
    options.cache.mkdir(parents=True, exist_ok=True)
    results, whole = examine_all(options)
    if options.write:
        write(results)
    adopted = sum("adopted" in text for _, text, _ in results)
    wrong = [name for name, _, good in results if good is False]
    print(f"{len(results)} modules, {adopted} adopted, {len(wrong)} not as expected", end="")
    print("" if whole else "; the time was over")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
