#!/usr/bin/env python3
"""jemalloc's own tests, of a stock build and of the build that is in homefree: the same must pass.

    jemalloc.sh [--only PROGRAM,...] [--jobs N] [--build FOLDER] [SECONDS]

Both builds are made by alloc/jemalloc/build.sh with the same options, the stock one with an empty
patch. homefree's is linked with homefree's own region, fork gate and start (the objects of
alloc/ in the build folder), and jemalloc_start.c gives it the test's configuration. Unit tests get
jemalloc as its makefile builds it for them, integration tests a shared library; the latter run
three times, as in `make check`: as they are, and with the two decay settings. jemalloc's stress
tests and its analysis tools are benchmarks, and left out.

Each test function is an outcome, and each program one more. expected.txt explains the differences.
"""

import concurrent.futures
import re
import shutil
import subprocess
import sys
from pathlib import Path

import suites

PROGRAM_SECONDS = 120
LINE = re.compile(r"^(\w+) \(([\w-]+)\): (pass|skip|fail)$", re.M)
WORDS = {"pass": "passed", "skip": "skipped", "fail": "failed"}
DECAYS = {
    "": "",
    " decay -1": "dirty_decay_ms:-1,muzzy_decay_ms:-1",
    " decay 0": "dirty_decay_ms:0,muzzy_decay_ms:0",
}


def call(*command, **options):
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True,
        env=suites.environment(), **options,
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


class Builds:
    """The two trees with their tests, in the cache; made again when a source has changed."""

    def __init__(self, options):
        self.build = Path(options.build).resolve()
        self.jobs = options.jobs
        self.folder = suites.cache() / "jemalloc"
        self.folder.mkdir(exist_ok=True)
        self.source = self.jemalloc_source()
        self.version = self.jemalloc_version()

    def jemalloc_source(self):
        found = sorted((suites.ROOT / "subprojects").glob("jemalloc-*/configure"))
        if not found:
            sys.exit("jemalloc's source is missing: configure homefree's build first")
        return found[-1].parent

    def jemalloc_version(self):
        wrap = (suites.ROOT / "subprojects/jemalloc.wrap").read_text()
        return re.search(r"^source_url = .*/(.*)$", wrap, re.M)[1]

    def has_changed(self, stamp, sources):
        newest = max(file.stat().st_mtime for file in sources)
        return not stamp.exists() or stamp.stat().st_mtime < newest

    def make(self, tree, targets, *arguments):
        call("make", "-s", f"-j{self.jobs}", *targets, *arguments, cwd=tree)

    def tree(self, name, seam):
        """A tree as build.sh leaves it."""
        call(
            "sh", suites.ROOT / "alloc/jemalloc/build.sh", self.source, seam, name, "cc", "ar",
            f"{name}.a", cwd=self.folder,
        )  # fmt: skip
        return self.folder / name

    def stock(self):
        seam, stamp = self.folder / "no-seam", self.folder / "stock.made"
        if self.has_changed(stamp, [suites.ROOT / "alloc/jemalloc/build.sh"]):
            shutil.rmtree(seam, ignore_errors=True)
            (seam / "include").mkdir(parents=True)
            (seam / "homefree.patch").touch()
            # Its tests' configurations are in the environment, which build.sh has not read.
            (seam / "pages.h").write_text("#define JEMALLOC_CONFIG_ENV\n")
            tree = self.tree("stock", seam)
            self.make(tree, ["tests_unit", "tests_integration"])
            stamp.touch()
        return self.folder / "stock"

    def homefree(self):
        seam, stamp = suites.ROOT / "alloc/jemalloc", self.folder / "homefree.made"
        objects = sorted(self.build.glob("loader/libhomefree.so.*.p/.._alloc_*.o"))
        if not objects:
            sys.exit(f"{self.build} has no objects of libhomefree: build it first")
        start = suites.HERE / "jemalloc_start.c"
        if self.has_changed(stamp, [start, *objects, *(f for f in seam.rglob("*") if f.is_file())]):
            tree = self.tree("homefree", seam)
            archive = tree / "libhf_alloc.a"
            call("ar", "rcs", archive, *objects)
            for name, more in {"unit": ["-DUNIT"], "library": []}.items():
                prefix = "jet_" if name == "unit" else "hf_je_"
                call(
                    "cc", "-O2", "-g", "-fPIC", "-D_GNU_SOURCE", f"-I{suites.ROOT}", *more,
                    f"-DCONFIGURATION={prefix}malloc_conf",
                    f"-DMESSAGE={prefix}malloc_message", "-c", start, "-o", tree / f"{name}.o",
                )  # fmt: skip
            boot, both = "hf_heap_boot", "hf_heap_boot,--wrap=jet_nallocx,--wrap=jet_a0malloc"
            flags = f"EXTRA_LDFLAGS=-Wl,--wrap={both} {tree / 'unit.o'} {archive}"
            self.make(tree, ["tests_unit"], flags)
            flags = f"EXTRA_LDFLAGS=-Wl,--wrap={boot} {tree / 'library.o'} {archive}"
            self.make(tree, ["lib/libjemalloc.so.2"], flags)
            self.make(tree, ["tests_integration"])
            stamp.touch()
        return self.folder / "homefree"


def programs(tree):
    """The tests of a tree, as its makefile lists them."""
    makefile = (tree / "Makefile").read_text().replace("\\\n", " ")
    names = []
    for kind in ("TESTS_UNIT", "TESTS_INTEGRATION"):
        for line in re.findall(rf"^{kind} [:+]?= *(.*)$", makefile, re.M):
            names += re.findall(r"test/[\w/]+(?=\.c\b)", line)
    return [name for name in dict.fromkeys(names) if (tree / name).exists()]


def run_program(tree, name, configuration, seconds):
    """{test: outcome} of one program, started as jemalloc's test.sh does."""
    script = tree / f"{name}.sh"
    settings = f". {script}; " if script.exists() else ""
    program = (
        f"MALLOC_CONF=; enable_fill=1 enable_prof=0; {settings}"
        'export HF_JE_MALLOC_CONF="$MALLOC_CONF${MALLOC_CONF:+${1:+,}}$1"; '
        f'exec "{tree / name}" "{tree}" "{tree}"'
    )
    status, output = suites.run(["sh", "-c", program, "sh", configuration], tree, seconds)
    outcomes = {f"{name} {test} {kind}": WORDS[word] for test, kind, word in LINE.findall(output)}
    words = {0: "passed", 1: "skipped", 2: "failed", None: "timed-out"}
    outcomes[name] = words.get(status, "crashed")
    return outcomes, output


class Runner:
    """Runs programs of both trees: the stock one for None."""

    def __init__(self, builds, jobs):
        self.trees = {None: builds.stock(), "build": builds.homefree()}
        self.jobs = jobs
        self.outputs = {}

    def run(self, how, names, seconds):
        """{test: outcome} of some programs; None if there was not enough time."""
        clock = suites.Clock(seconds)
        work = [
            (name, suffix, configuration)
            for name in names
            for suffix, configuration in DECAYS.items()
            if not suffix or "/integration/" in name
        ]

        def one(item):
            if clock.is_over():
                return None
            return run_program(self.trees[how], item[0], item[2], PROGRAM_SECONDS)

        outcomes = {}
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            for (name, suffix, _), result in zip(work, pool.map(one, work)):
                if result is None:
                    return None
                outcomes.update({test + suffix: word for test, word in result[0].items()})
                self.outputs[how, name + suffix] = result[1]
        return outcomes


def main():
    parser = suites.arguments(__doc__)
    options = parser.parse_args()
    verdict = suites.Verdict("jemalloc")
    builds = Builds(options)
    runner = Runner(builds, options.jobs)
    names = options.only or programs(runner.trees[None])
    # Building is not counted: it is done once.
    clock = suites.Clock(options.seconds)
    before = runner.run(None, names, clock.left())
    after = runner.run("build", names, clock.left())
    if before is None or after is None:
        verdict.skip(builds.version, "not enough time")
        return verdict.finish()
    found = suites.differences(before, after)
    stay = suites.lasting(runner, "build", names, found, 600) if found else []
    if options.verbose:
        for (how, program), output in runner.outputs.items():
            if how and any(name.split()[0] == program.split()[0] for name, *_ in stay):
                print(f"---- {program}\n{output}")
    name = f"{builds.version} ({len(names)} programs)"
    verdict.judge(name, "build", builds.version, before, after, stay, len(found) - len(stay))
    return verdict.finish()


if __name__ == "__main__":
    sys.exit(main())
