#!/usr/bin/env python3
"""How Python's threads scale with homefree: a free-threaded CPython as it is, with install() and
under `homefree run`, and the same version with a GIL.

    scaling.py --package DIR --command FILE [--python FILE] [--gil FILE] [--only WORK,...] [--json]

thread_works.py has the works. Each sample is a fresh process that divides a fixed amount of work
among its threads; a round is one sample of each way, every other round backwards. A figure is the
median of the rounds' own ratios to the free-threaded CPython as it is with as many threads: wall
time, or with --by cpu the processor time of all threads, for a busy machine; and the most that was
resident. Exit status 1 only if something could not be measured.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import two_pythons
from thread_works import WORKS

HERE = Path(__file__).resolve().parent
WAYS = {"stock": "stock", "install()": "install", "run": "stock", "GIL": "stock"}
WANTED = {"install()": 1.00, "run": 1.00}  # the geometric mean of time, and of peaks
NEEDS_NUMPY = ("numpy_arrays", "numpy_large")
FIGURES = "wall", "cpu", "peak"


class Unmeasurable(Exception):
    pass


def run(command, environment=None):
    done = subprocess.run(
        [*map(str, command)], env=environment, capture_output=True, text=True, timeout=600
    )
    if done.returncode != 0:
        raise Unmeasurable(f"{' '.join(map(str, command[-5:]))}: {done.stderr.strip()[-500:]}")
    return done.stdout


def build(python, directory):
    """The extension, for one CPython."""
    code = "import sysconfig as s; print(s.get_path('include'), s.get_config_var('EXT_SUFFIX'))"
    include, suffix = run([python, "-c", code]).split()
    directory.mkdir()
    command = ["cc", "-shared", "-fPIC", "-O2", HERE / "blocks.c", "-I", include]
    run([*command, "-o", directory / f"blocks{suffix}"])
    return directory


class Bench:
    def __init__(self, options, work):
        self.options = options
        pythons = {"stock": options.python, "GIL": options.gil}
        self.ways = [way for way in WAYS if pythons.get(way, options.python)]
        self.pythons = {way: pythons.get(way, options.python) for way in self.ways}
        kinds = dict.fromkeys(self.pythons.values())
        self.built = {
            python: build(python, Path(work) / str(number)) for number, python in enumerate(kinds)
        }

    def sample(self, way, name, threads):
        python = self.pythons[way]
        loops = max(threads, round(WORKS[name][1] * self.options.scale) // threads * threads)
        command = [python, HERE / "thread_works.py", WAYS[way], name, threads, loops]
        if way == "run":
            command = [self.options.command, "run", "--", *command]
        out = run(command, two_pythons.environment(self.options, python, self.built[python]))
        return dict(zip(FIGURES, map(float, out.split())))

    def measure(self):
        """{work: {threads: {way: [samples]}}}"""
        seen = {}
        for name in self.options.works:
            seen[name] = {count: {way: [] for way in self.ways} for count in self.options.threads}
            for number in range(self.options.rounds):
                for count, rivals in seen[name].items():
                    for way in self.ways[:: 1 if number % 2 == 0 else -1]:
                        rivals[way].append(self.sample(way, name, count))
            print(name, file=sys.stderr)
        return seen


def ratio(rivals, way, figure):
    pairs = zip(rivals[way], rivals["stock"])
    return statistics.median(mine[figure] / its[figure] for mine, its in pairs)


def mean(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios)))


def print_table(seen, options, ways):
    ways = [way for way in ways if way != "stock"]
    counts = options.threads
    for figure, title in ((options.by, "time"), ("peak", "peak")):
        heads = [f"{way}, {count}" for way in ways for count in counts]
        print(f"\n| {title} / that without homefree; threads | " + " | ".join(heads) + " |")
        print("|---|" + "---|" * len(heads))
        for name, rows in seen.items():
            cells = [f"{ratio(rows[count], way, figure):.2f}" for way in ways for count in counts]
            print(f"| {WORKS[name][0]} | " + " | ".join(cells) + " |")
        cells = [
            f"{mean([ratio(rows[count], way, figure) for rows in seen.values()]):.2f}"
            for way in ways
            for count in counts
        ]
        print("| geometric mean | " + " | ".join(cells) + " |")
        for way in ways:
            found = mean([ratio(rows[n], way, figure) for rows in seen.values() for n in counts])
            wanted = WANTED.get(way)
            said = "" if wanted is None else ": ok" if round(found, 3) <= wanted else ": missed"
            print(f"{title}, {way}: {found:.3f} in the mean of all{said}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    two_pythons.add_options(parser)
    parser.add_argument("--only", default=",".join(WORKS), help="works (%(default)s)")
    parser.add_argument("--threads", default="1,2,4,8", help="how many (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="samples of each (%(default)s)")
    parser.add_argument("--scale", type=float, default=1, help="of the work (%(default)s)")
    parser.add_argument("--by", choices=FIGURES[:2], default="wall", help="time (%(default)s)")
    options = two_pythons.parse(parser)
    options.works = options.only.split(",")
    options.threads = [*map(int, options.threads.split(","))]
    unknown = set(options.works) - set(WORKS)
    if unknown:
        parser.error(f"no such works: {', '.join(sorted(unknown))}")
    return options


def main():
    options = arguments()
    try:
        try:
            environment = two_pythons.environment(options, options.python)
            run([options.python, "-c", "import numpy"], environment)
        except Unmeasurable:
            print(f"skipped: {options.python} has no NumPy", file=sys.stderr)
            options.works = [name for name in options.works if name not in NEEDS_NUMPY]
        with tempfile.TemporaryDirectory(prefix="homefree-scaling-") as work:
            bench = Bench(options, work)
            seen = bench.measure()
    except (Unmeasurable, subprocess.TimeoutExpired, OSError) as error:
        print(f"could not measure: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps({"version": 1, "samples": seen}, indent=2))
    else:
        print_table(seen, options, bench.ways)
    return 0


if __name__ == "__main__":
    sys.exit(main())
