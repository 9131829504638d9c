"""The matrix: blocks cross between a module that is linked with homefree and an object that is not.

One description of sides, links, scopes and hosts gives the configurations; the runner (runner.c)
passes blocks by every pair of functions under every condition, a process a cell. Everything is
built by the system's compiler and linkers as a user's build would do it.

    matrix.py --build BUILD                 everything
    matrix.py --build BUILD --sample        a few cells of a few configurations; another commit,
                                            other cells
    matrix.py --build BUILD --thin N        every Nth cell of every configuration
    matrix.py --build BUILD --seconds N     for that long, in an order of its own each time
    matrix.py --build BUILD --list          the configurations
    matrix.py --build BUILD --only PATTERN  the configurations whose names match

Exit status: 0 all cells passed, 1 some failed, 3 it could not be run.
"""

import argparse
import concurrent.futures
import dataclasses
import fnmatch
import hashlib
import itertools
import os
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from commit import commit  # noqa: E402
from rows import row  # noqa: E402

SAMPLE = 4  # configurations
SAMPLE_THIN = 8  # every eighth cell of them


# ---- the description ----

STATIC_RUNTIME = ("-static-libstdc++", "-static-libgcc")


@dataclasses.dataclass(frozen=True)
class Link:
    """How an object, or the host, is compiled and linked."""

    relro: str = "partial"  # none, partial, full
    binding: str = "lazy"  # lazy, now
    plt: str = "plt"  # plt, no-plt
    lto: str = "no-lto"  # no-lto, lto
    runtime: str = "shared-runtime"  # shared-runtime, static-runtime (libstdc++)
    linker: str = "bfd"  # bfd, gold, lld, mold; the other three fold identical code
    relocations: str = "plain-relocations"  # plain-relocations, packed-relocations

    def __str__(self):
        return "+".join(str(value) for value in vars(self).values())

    def possible(self):
        if self.lto == "lto" and self.linker == "lld":  # GCC's intermediate code is not lld's
            return False
        # gold has none; lld 14's and mold 1.10's lack the version that glibc asks for.
        if self.relocations == "packed-relocations" and self.linker != "bfd":
            return False
        return not (self.relro == "full" and self.binding == "lazy")  # full means bound at start

    def compile_options(self):
        return ["-O2", "-fPIC", "-fvisibility=hidden"] + [
            option
            for option, wanted in (
                ("-fno-plt", self.plt == "no-plt"),
                ("-flto", self.lto == "lto"),
                ("-ffunction-sections", self.linker != "bfd"),
            )
            if wanted
        ]

    def link_options(self):
        return [
            "-Wl,-z,norelro" if self.relro == "none" else "-Wl,-z,relro",
            f"-Wl,-z,{self.binding}",
            f"-fuse-ld={self.linker}",
            *(["-flto"] if self.lto == "lto" else []),
            *(STATIC_RUNTIME if self.runtime == "static-runtime" else []),
            *(["-Wl,--icf=all"] if self.linker != "bfd" else []),
            *(["-Wl,-z,pack-relative-relocs"] if self.relocations == "packed-relocations" else []),
        ]


LINKS = [
    link
    for link in itertools.starmap(
        Link,
        itertools.product(
            ("none", "partial", "full"),
            ("lazy", "now"),
            ("plt", "no-plt"),
            ("no-lto", "lto"),
            ("shared-runtime", "static-runtime"),
            ("bfd", "gold", "lld", "mold"),
            ("plain-relocations", "packed-relocations"),
        ),
    )
    if link.possible()
]


@dataclasses.dataclass(frozen=True)
class Allocator:
    """Whose functions the other side calls."""

    name: str
    libraries: tuple = ()  # linked by the other side
    private: bool = False  # a hidden copy inside the other side: nobody reaches its own free()
    adopted: bool = False  # the same, and the other side is loaded from its adopted copy
    # Pairs of functions that do not fit together in this allocator itself: always, and where they
    # fail without homefree.
    without: tuple = ()
    doubtful: tuple = ()


ALLOCATORS = [
    Allocator("glibc"),
    Allocator(
        "jemalloc-shared",
        ("-ljemalloc",),
        # Its aligned operator new calls aligned_alloc() by name, which is libc's where libc comes
        # first. Its sized operator delete takes the block for its own. So does the plain one from
        # 5.3.1 on; before, that one called free() by name. A delete[] in another module gets there,
        # too: the C++ runtime's calls the delete of the scope that the runtime was loaded in.
        without=("new-aligned/delete-aligned-sized", "new[]-aligned/delete[]-aligned-sized"),
        doubtful=("new-aligned/delete-aligned", "new[]-aligned/delete[]-aligned"),
    ),
    Allocator("mimalloc-shared", ("-lmimalloc",)),
    Allocator("tcmalloc-shared", ("-ltcmalloc_minimal",)),
    Allocator("debug-shared", ("-ltcmalloc_minimal_debug",)),
    Allocator("mimalloc-private", ("-l:libmimalloc-static.a", "-pthread"), private=True),
    Allocator("jemalloc-private", ("-l:libjemalloc_pic.a", "-lm", "-pthread"), private=True),
    # Debian compiles these two for objects with a C++ runtime of their own.
    Allocator(
        "tcmalloc-private", (*STATIC_RUNTIME, "-l:libtcmalloc_minimal.a", "-pthread"), private=True
    ),
    Allocator(
        "debug-private",
        (*STATIC_RUNTIME, "-l:libtcmalloc_minimal_debug.a", "-pthread"),
        private=True,
    ),
]

ALLOCATORS += [
    dataclasses.replace(
        one, name=one.name.replace("private", "adopted"), private=False, adopted=True
    )
    for one in ALLOCATORS
    if one.private and not one.name.startswith("debug")
]

# What the host preloads.
PRELOADS = {
    "nothing": None,
    "jemalloc": "libjemalloc.so.2",
    "mimalloc": "libmimalloc.so.2",
    "tcmalloc": "libtcmalloc_minimal.so.4",
    "debug": "libtcmalloc_minimal_debug.so.4",
    "homefree": "libhomefree-preload.so",
    "diagnose": "libhomefree-diagnose.so",
}

SCOPES = ("local", "global", "deepbind", "namespace")
LANGUAGES = ("c", "c++")


@dataclasses.dataclass(frozen=True)
class Configuration:
    """What one process of the runner loads, and how."""

    module_language: str = "c++"
    other_language: str = "c++"
    allocator: Allocator = ALLOCATORS[0]
    scope: str = "local"
    preload: str = "nothing"
    link: Link = Link()
    host: str = "pie"  # pie, fixed

    def __str__(self):
        return "/".join(
            (
                self.module_language,
                self.other_language,
                self.allocator.name,
                self.scope,
                "preload-" + self.preload,
                self.host,
                str(self.link),
            )
        )


def configurations():
    """Every configuration, each once."""
    seen = {}
    plain = Configuration()
    for allocator, scope in itertools.product(ALLOCATORS, SCOPES):
        for module, other in (("c++", "c++"), ("c", "c"), ("c++", "c")):
            seen[Configuration(module, other, allocator, scope)] = None
    for preload, allocator in itertools.product(PRELOADS, ALLOCATORS):
        seen[Configuration(preload=preload, allocator=allocator)] = None
    hosts = itertools.cycle(("pie", "fixed"))
    for link in LINKS:
        for allocator in (plain.allocator, ALLOCATORS[1]):
            seen[Configuration(link=link, allocator=allocator, host=next(hosts))] = None
    return [configuration for configuration in seen if promised(configuration)]


# Two builds of one allocator in a process interpose each other's functions: neither is whole.
SAME_ALLOCATOR = {"tcmalloc-shared": "debug", "debug-shared": "tcmalloc"}


def promised(configuration):
    """Whether homefree promises anything about a configuration."""
    if SAME_ALLOCATOR.get(configuration.allocator.name) == configuration.preload:
        return False
    # Calls between an allocator and another namespace's libc are not routed.
    return configuration.scope != "namespace" or configuration.allocator.name == "glibc"


def gives(configuration):
    """Which side's blocks cross; docs/limits.md has the reasons."""
    if configuration.scope == "namespace":  # its libc's blocks look like the program's
        return "module"
    return "other" if configuration.allocator.private else "both"


# ---- building ----


class Failure(Exception):
    """Nothing could be run; the message says why."""


def succeed(command, **environment):
    result = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}
    )
    if result.returncode != 0:
        raise Failure(f"{shlex.join(map(str, command))}\n{result.stderr}")
    return result.stdout


# Prints what hf_adopt_file() of a libhomefree says about a file.
ADOPT = """
import ctypes, sys
text = ctypes.create_string_buffer(4096)
library = ctypes.CDLL(sys.argv[1])
print(library.hf_adopt_file(sys.argv[2].encode(), text, ctypes.c_size_t(4096)), text.value.decode())
"""


class Builder:
    """Builds each object once, into a directory."""

    def __init__(self, build, directory, libraries):
        self.directory = directory
        self.build = build
        self.search = [f"-L{libraries}"] if libraries else []
        flags = subprocess.run(
            ["pkg-config", "--libs", "homefree"],
            env={**os.environ, "PKG_CONFIG_PATH": str(build / "loader/pkgconfig")},
            capture_output=True,
            text=True,
        )
        if flags.returncode != 0:
            raise Failure(flags.stderr)
        self.homefree = flags.stdout.split()
        self.made = {}  # a lock for each name
        self.lock = threading.Lock()

    def make(self, name, command):
        """The path of what a command makes with -o; several threads may ask for it at once."""
        path = self.directory / name
        with self.lock:
            building = self.made.setdefault(name, threading.Lock())
        with building:
            if not path.exists():
                succeed([*command, "-o", path])
        return path

    def object(self, language, link):
        options = link.compile_options()
        name = "side-" + digest(language, *options) + ".o"
        standard = (
            ["-x", "c", "-std=gnu11"]
            if language == "c"
            else ["-std=gnu++17", "-fsized-deallocation"]
        )
        compiler = "gcc" if language == "c" else "g++"
        return self.make(name, [compiler, *options, *standard, "-c", HERE / "side.cc"])

    def side(self, language, link, libraries, kind):
        name = f"{kind}-" + digest(language, str(link), *libraries) + ".so"
        driver = "gcc" if language == "c" and not any(".a" in x for x in libraries) else "g++"
        return self.make(
            name,
            [
                driver,
                "-shared",
                self.object(language, link),
                f"-Wl,--version-script={HERE / 'matrix.map'}",
                *link.link_options(),
                "-Wl,--no-as-needed",
                *self.search,
                *libraries,
            ],
        )

    def module(self, configuration):
        return self.side(configuration.module_language, configuration.link, self.homefree, "module")

    def other(self, configuration):
        side = self.side(
            configuration.other_language,
            configuration.link,
            configuration.allocator.libraries,
            "other",
        )
        return self.adopted(side) if configuration.allocator.adopted else side

    def adopted(self, side):
        """The copy of an object in which its allocator's functions lead to the heap."""
        result, _, text = succeed(
            [sys.executable, "-c", ADOPT, self.build / "loader/libhomefree.so.1", side],
            XDG_CACHE_HOME=str(self.directory),
        ).partition(" ")
        if int(result) != 1:
            raise Failure(f"{side} cannot be adopted: {text}")
        return pathlib.Path(text.rstrip("\n"))

    def host(self, configuration):
        link = configuration.link
        shape = ["-pie", "-fPIE"] if configuration.host == "pie" else ["-no-pie", "-fno-pie"]
        options = [*shape, "-Wl,-z,norelro" if link.relro == "none" else "-Wl,-z,relro"]
        options += [f"-Wl,-z,{link.binding}", "-O2", "-fno-builtin"]
        name = "host-" + digest(*options)
        return self.make(name, ["gcc", *options, HERE / "runner.c", "-pthread", "-ldl"])


def digest(*parts):
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def missing(builder):
    """Libraries and linkers that this machine lacks, by what they leave out."""
    lacks = {}
    source = builder.directory / "probe.cc"
    # Needs the part of an archive that some releases compile for programs alone.
    source.write_text(
        "#include <cstdlib>\nvoid *(*volatile function)(std::size_t) = std::malloc;\n"
    )
    for allocator in ALLOCATORS:
        probe = [
            "g++",
            "-shared",
            "-fPIC",
            "-Wl,--no-as-needed",
            source,
            *builder.search,
            *allocator.libraries,
            "-o",
            builder.directory / "probe",
        ]
        if subprocess.run(probe, capture_output=True).returncode != 0:
            lacks[allocator.name] = allocator.libraries[0]
    for linker in ("gold", "lld", "mold"):
        if shutil.which(f"ld.{linker}") is None:
            lacks[linker] = f"ld.{linker}"
    return lacks


def preloaded(build, name):
    library = PRELOADS[name]
    if library is None or not library.startswith("libhomefree"):
        return library
    return str(build / "loader" / library)


# ---- running ----


@dataclasses.dataclass
class Outcome:
    configuration: Configuration
    cells: int
    failed: list


def run(builder, configuration, chosen):
    """Runs the cells of a configuration. chosen: the runner's last arguments."""
    command = [
        builder.host(configuration),
        builder.module(configuration),
        builder.other(configuration),
        configuration.scope,
        gives(configuration),
        ",".join(configuration.allocator.without),
        ",".join(configuration.allocator.doubtful),
        *chosen,
    ]
    environment = dict(
        os.environ,
        LD_LIBRARY_PATH=str(builder.build / "loader"),
        # A private jemalloc needs more static TLS than glibc keeps for objects that come late.
        GLIBC_TUNABLES="glibc.rtld.optional_static_tls=16384",
    )
    library = preloaded(builder.build, configuration.preload)
    if library is not None:
        environment["LD_PRELOAD"] = library
    if configuration.preload == "diagnose":
        environment["HOMEFREE_DIAGNOSE"] = f"mode:report,directory:{builder.directory}/reports"
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, errors="replace", timeout=1800
    )
    tally = re.search(
        r"^(\d+) cells, (\d+) failed, (\d+) pairs left out$", result.stdout, re.MULTILINE
    )
    if result.returncode not in (0, 1) or tally is None:
        return Outcome(
            configuration, 1, [f"the host ended with {result.returncode}: {result.stderr[-400:]}"]
        )
    failed = [line for line in result.stdout.splitlines() if ": " in line]
    return Outcome(configuration, int(tally[1]), failed)


def show_progress(done, total, cells, failed, started):
    if sys.stderr.isatty():
        seconds = time.monotonic() - started
        text = f"{done} of {total} configurations, {cells} cells, {failed} failed, {seconds:.0f} s"
        print(f"\r\033[K{text}", end="" if done < total else "\n", file=sys.stderr, flush=True)


def run_all(builder, wanted, chosen, jobs, seconds):
    """Runs the configurations; with `seconds`, those that are begun in that time."""
    started = time.monotonic()
    cells = failed = ran = 0

    def run_in_time(one):
        over = seconds is not None and time.monotonic() - started > seconds
        return None if over else run(builder, one, chosen)

    for configuration in wanted if seconds is None else ():
        # A thread a compiler would gain nothing on small machines.
        builder.host(configuration), builder.module(configuration), builder.other(configuration)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for outcome in pool.map(run_in_time, wanted):
            if outcome is None:
                continue
            ran += 1
            cells += outcome.cells
            failed += len(outcome.failed)
            for line in outcome.failed:
                print(f"{outcome.configuration}: {line}")
            show_progress(ran, len(wanted), cells, failed, started)
    took = time.monotonic() - started
    of_all = f" of {len(wanted)}" if seconds is not None else ""
    about = f" of about {cells * len(wanted) // max(ran, 1)}" if ran < len(wanted) else ""
    figures = f"{ran}{of_all} configurations, {cells}{about} cells, {failed} failed, {took:.0f} s"
    print(figures)
    good = failed == 0 and cells > 0
    row("matrix of crossings", figures, "passed" if good else "failed")
    return good


def sample(wanted, seed):
    """A few configurations, others for each seed."""
    return sorted(wanted, key=lambda one: digest(seed, str(one)))[:SAMPLE]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--build", type=pathlib.Path, required=True, help="homefree's build directory"
    )
    parser.add_argument("--sample", action="store_true", help="a few, chosen by the commit")
    parser.add_argument("--thin", type=int, default=1, metavar="N", help="every Nth cell")
    parser.add_argument("--seconds", type=float, help="for how long")
    parser.add_argument("--only", metavar="PATTERN", default="*", help="configurations, by name")
    parser.add_argument("--cell", help="this cell alone")
    parser.add_argument("--list", action="store_true", help="list the configurations")
    parser.add_argument("--libraries", metavar="DIRECTORY", help="where else to look for libraries")
    parser.add_argument("-j", type=int, default=os.cpu_count(), dest="jobs", help="processes")
    options = parser.parse_args()
    seed = commit()
    with tempfile.TemporaryDirectory(prefix="homefree-matrix-") as directory:
        builder = Builder(options.build.resolve(), pathlib.Path(directory), options.libraries)
        lacks = missing(builder)
        for name, what in lacks.items():
            print(f"left out: {name}, because {what} cannot be linked here", file=sys.stderr)
        wanted = [
            one
            for one in configurations()
            if not {one.allocator.name, one.link.linker} & set(lacks)
            and fnmatch.fnmatch(str(one), options.only)
        ]
        if options.sample:
            wanted = sample(wanted, seed)
        if options.list:
            print("\n".join(map(str, wanted)))
            return 0
        if options.seconds is not None:
            random.shuffle(wanted)
        thin = SAMPLE_THIN if options.sample else options.thin
        chosen = [options.cell] if options.cell else ["1", str(thin), seed]
        return 0 if run_all(builder, wanted, chosen, options.jobs, options.seconds) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as error:
        print(f"matrix: {error}", file=sys.stderr)
        sys.exit(3)
