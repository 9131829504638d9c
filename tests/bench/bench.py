#!/usr/bin/env python3
"""Runs the speed benchmarks and prints one table: what, the measured figure, the wanted one.

Each sample is a fresh process. Rivals are run in turn (A, B, C, A, B, C, ...), so that whatever
else the machine does meets all of them alike; a ratio is one of medians, and beside it stand the
quartiles of the rounds' own ratios, which say how far to trust it. The exit status is 0 also when a
figure is missed, and 1 only when something that should be measured could not be.

    bench.py --programs DIR --library FILE [--rounds N] [--only ROW,...] [--verbose] [--json]
    bench.py --programs DIR --library FILE --callgrind

--callgrind counts instructions a malloc+free pair instead of time, under valgrind: the difference
between two loop counts. It sees what noise hides, but knows nothing of what an instruction costs.
"""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import arguments

# Variables that would change the allocators under test.
TUNING = ("LD_PRELOAD", "GLIBC_TUNABLES", "MALLOC_CONF", "HOMEFREE_CONF")
SKIPPED = 77
DISTURBED = 75
PEERS = {
    "jemalloc": "libjemalloc.so.2",
    "mimalloc": "libmimalloc.so.2",
    "tcmalloc": "libtcmalloc_minimal.so.4",
}
# The rivals of a row, each with the wanted ratio.
PAIR_PEERS = (("jemalloc", 1.05), ("glibc", 0.80), ("mimalloc", None), ("tcmalloc", None))
CHURN_PEERS = (("jemalloc", 1.05), ("glibc", None), ("mimalloc", None), ("tcmalloc", None))
OBJECT_KINDS = ["lazy", "relro", "now", "noplt", "words", "large"]
# The kinds of objects to load. In a real process, a third to two thirds of the libraries free
# memory.
ROUTED = {"routing": OBJECT_KINDS, "half": OBJECT_KINDS + ["idle"] * len(OBJECT_KINDS)}
OBJECTS = 300
ALL_TITLE = f"routing {OBJECTS} loaded objects"
CALLGRIND_COUNTS = (64 * 1000, 64 * 5000)


class Unmeasurable(Exception):
    """A program failed, or ended in a way that gives no figure."""


def environment_of(preload=None):
    """What a measured process gets: nothing that tunes an allocator."""
    environment = {k: v for k, v in os.environ.items() if k not in TUNING}
    if preload is not None:
        environment["LD_PRELOAD"] = preload
    return environment


def figures_in(text):
    """{name: value} of the "name value" lines that a program prints."""
    pairs = (line.split() for line in text.splitlines())
    return {name: float(value) for name, value in pairs}


class Sampler:
    """Starts the programs and keeps what they print: samples[variant][figure] = [values]."""

    def __init__(self, programs, library):
        self.programs = programs
        self.library = library
        self.samples = {}
        self.absent = {}

    def command(self, program, *args):
        return [str(self.programs / program), *map(str, args)]

    def run(self, command, preload=None):
        """The figures of one process, or None if what it measures is not installed."""
        done = subprocess.run(
            command, env=environment_of(preload), capture_output=True, text=True, timeout=120
        )
        if done.returncode in (SKIPPED, DISTURBED):
            return done.returncode
        if done.returncode != 0:
            what = " ".join([f"LD_PRELOAD={preload}"] * (preload is not None) + command[:8])
            raise Unmeasurable(f"{what}: exit {done.returncode}: {done.stderr.strip()[-500:]}")
        return figures_in(done.stdout)

    def interleave(self, variants, rounds):
        """variants: {name: (command, preload)}. A round takes one sample of each."""
        alive = dict(variants)
        for number in range(rounds):
            # Every other round goes backwards, so that no variant always follows a slow one.
            for name in list(alive)[:: 1 if number % 2 == 0 else -1]:
                figures = self.measure(*alive[name])
                if figures == SKIPPED:
                    self.absent[name] = f"{alive[name][1]} is not installed"
                    del alive[name]
                    continue
                kept = self.samples.setdefault(name, {})
                for figure, value in figures.items():
                    kept.setdefault(figure, []).append(value)

    def measure(self, command, preload):
        for _ in range(40):
            figures = self.run(command, preload)
            if figures != DISTURBED:
                return figures
        raise Unmeasurable(f"{command[0]}: another process took the core in each of 40 tries")

    def values(self, variant, figure):
        return self.samples.get(variant, {}).get(figure)

    def median(self, variant, figure):
        return statistics.median(self.samples[variant][figure])


class Row:
    """One line of the table."""

    def __init__(self, what, wanted=None, unit="ratio"):
        self.what = what
        self.wanted = wanted
        self.unit = unit
        self.value = None
        self.quartiles = None
        self.beside = ""
        self.why_not = None

    def verdict(self):
        if self.why_not is not None:
            return f"skipped: {self.why_not}"
        if self.wanted is None:
            return "reported"
        return "ok" if self.value <= self.wanted else "missed"

    def shown(self, value):
        if value is None:
            return "-"
        return {"ratio": f"{value:.3f}"}.get(self.unit, f"{value:.2f} {self.unit}")

    def cells(self):
        figure = self.shown(self.value)
        if self.quartiles is not None and self.value is not None:
            figure += " ({:.2f}..{:.2f})".format(*self.quartiles)
        wanted = "" if self.wanted is None else "≤ " + self.shown(self.wanted)
        return [self.what, figure, wanted, self.verdict(), self.beside]

    def as_json(self):
        return {
            "what": self.what,
            "value": self.value,
            "quartiles": self.quartiles,
            "unit": self.unit,
            "wanted": self.wanted,
            "verdict": self.verdict().split(":")[0],
            "why": self.why_not,
            "beside": self.beside,
        }


def quartiles(values):
    if len(values) < 2:
        return [values[0], values[0]]
    cuts = statistics.quantiles(values, n=4)
    return [cuts[0], cuts[2]]


def ratio_row(sampler, what, ours, theirs, figure, wanted=None):
    row = Row(what, wanted)
    for variant in (ours, theirs):
        if variant in sampler.absent:
            row.why_not = sampler.absent[variant]
            return row
    mine, other = sampler.values(ours, figure), sampler.values(theirs, figure)
    row.value = statistics.median(mine) / statistics.median(other)
    row.quartiles = quartiles([a / b for a, b in zip(mine, other)])
    row.beside = f"{statistics.median(mine):.2f} ns / {statistics.median(other):.2f} ns"
    return row


def figure_row(sampler, what, variant, figure, unit, scale=1.0, wanted=None):
    row = Row(what, wanted, unit)
    values = [value * scale for value in sampler.values(variant, figure)]
    row.value = statistics.median(values)
    row.quartiles = quartiles(values)
    return row


# ---- the rows ------------------------------------------------------------------------------------


def pair_variants(sampler, cpu, peers=PEERS):
    """Rows 1 to 3: where the malloc and free of a loop lead. peers: {name: library to preload}."""
    plain = ["pairs", "--cpu", cpu, "--module", sampler.programs / "plain.so"]
    late = ["pairs", "--cpu", cpu, "--module", sampler.programs / "with_homefree.so"]
    variants = {"homefree": (sampler.command(*late, "--home", "yes"), None)}
    variants["glibc"] = (sampler.command(*plain), None)
    variants["routed"] = (sampler.command(*plain, "--route", sampler.library), None)
    for name, library in peers.items():
        variants[name] = (sampler.command(*plain, "--preloaded", library), library)
    return variants


def adopted_variants(sampler, cpu):
    """The same loop in a module with a hidden jemalloc that is adopted; none if there is no such
    module here."""
    hidden = sampler.programs / "hidden.so"
    if not hidden.exists():
        return {}
    command = ["pairs", "--cpu", cpu, "--module", hidden, "--home", "yes"]
    return {"adopted": (sampler.command(*command, "--adopt", sampler.library), None)}


PATTERNS = {"pair": "malloc+free pair", "batch": "the same, 64 at a time"}


def measure_pairs(sampler, options):
    sampler.interleave(pair_variants(sampler, options.cpu), options.rounds)
    rows = []
    for pattern, title in PATTERNS.items():
        figure = f"{pattern}.mix"
        for peer, wanted in PAIR_PEERS:
            what = f"{title}, late-loaded homefree / {peer}"
            rows.append(ratio_row(sampler, what, "homefree", peer, figure, wanted))
        what = f"{title}, libc's own, routed / unrouted"
        rows.append(ratio_row(sampler, what, "routed", "glibc", figure, 1.08))
    if options.verbose:
        for figure in sampler.samples["homefree"]:
            if figure.endswith(".mix"):
                continue
            for ours, peer in [("homefree", name) for name in ("jemalloc", "glibc")] + [
                ("routed", "glibc")
            ]:
                what = f"  of {figure.split('.')[1]} bytes, {ours} / {peer}"
                rows.append(ratio_row(sampler, what, ours, peer, figure))
    return rows


def measure_adopted(sampler, options):
    shim = {"homefree": pair_variants(sampler, options.cpu)["homefree"]}
    adopted = adopted_variants(sampler, options.cpu)
    if not adopted:
        raise Unmeasurable("there is no libjemalloc_pic.a to hide in a module")
    sampler.run(*adopted["adopted"])  # makes the copy
    sampler.interleave({**shim, **adopted}, options.rounds)
    return [
        ratio_row(
            sampler,
            f"{title}, adopted / linked with the shim",
            "adopted",
            "homefree",
            f"{pattern}.mix",
            1.03,
        )
        for pattern, title in PATTERNS.items()
    ]


def limited_variants(sampler, cpu):
    """The same loop in a module that has a limit, and does not reach it."""
    command = pair_variants(sampler, cpu, {})["homefree"][0]
    return {"limited": ([*command, "--limit", "yes"], None)}


def measure_limited(sampler, options):
    shim = {"homefree": pair_variants(sampler, options.cpu)["homefree"]}
    sampler.interleave({**shim, **limited_variants(sampler, options.cpu)}, options.rounds)
    return [
        ratio_row(
            sampler, f"{title}, with a limit / without", "limited", "homefree", f"{pattern}.mix"
        )
        for pattern, title in PATTERNS.items()
    ]


def measure_owns(sampler, options):
    variants = {
        f"owns {threads}": (sampler.command("owns", "--threads", threads), None)
        for threads in (1, 8)
    }
    sampler.interleave(variants, max(3, options.rounds // 2))
    rows = []
    for figure, title in (("owns.inline", "ownership test"), ("owns.call", "the same, called")):
        inline = figure == "owns.inline"
        for threads in (1, 8):
            what = f"{title}, {threads} thread" + "s" * (threads > 1)
            wanted = 1.0 if inline else None
            rows.append(figure_row(sampler, what, f"owns {threads}", figure, "ns", wanted=wanted))
    flat = ratio_row(sampler, "  8 threads / 1 (flat)", "owns 8", "owns 1", "owns.inline", 1.10)
    rows.insert(2, flat)
    return rows


def copy_objects(sampler, directory, kinds, count):
    """Copies of the object: the loader loads each file only once."""
    copies = []
    for number in range(count):
        kind = kinds[number % len(kinds)]
        copies.append(directory / f"{kind}{number}.so")
        shutil.copyfile(sampler.programs / f"object_{kind}.so", copies[-1])
    return copies


def measure_routing(sampler, options):
    variants = {}
    with tempfile.TemporaryDirectory(prefix="homefree-bench-") as directory:
        for name, kinds in ROUTED.items():
            where = Path(directory, name)
            where.mkdir()
            objects = copy_objects(sampler, where, kinds, OBJECTS)
            last = where / "last.so"
            shutil.copyfile(sampler.programs / "object_now.so", last)
            fixed = ["routing", "--cpu", options.cpu, "--library", sampler.library]
            variants[name] = (sampler.command(*fixed, "--last", last, *objects), None)
        sampler.interleave(variants, options.rounds)
    rows = [
        figure_row(sampler, ALL_TITLE, "routing", "route.all", "ms", 1e-6, 1.5),
        figure_row(
            sampler, "  the same, half of them free nothing", "half", "route.all", "ms", 1e-6
        ),
        figure_row(sampler, "  nothing new", "routing", "route.nothing", "ns"),
    ]
    for row, name in zip(rows, ROUTED):
        changed, found = (sampler.median(name, f"route.{x}") for x in ("changed", "objects"))
        if changed < OBJECTS / 2:
            raise Unmeasurable(f"routing changed {changed:.0f} slots in {OBJECTS} objects")
        row.beside = f"{found:.0f} objects, {changed:.0f} slots"
    return rows


def measure_churn(sampler, options):
    program = ["churn", "--threads", 4, "--module"]
    plain = sampler.command(*program, sampler.programs / "plain.so")
    variants = {
        "homefree": (sampler.command(*program, sampler.programs / "with_homefree.so"), None),
        "glibc": (plain, None),
    }
    for name, soname in PEERS.items():
        variants[name] = ([*plain, "--preloaded", soname], soname)
    sampler.interleave(variants, options.rounds)
    title = "four threads' churn"
    rows = []
    for peer, wanted in CHURN_PEERS:
        what = f"{title}, homefree / {peer}"
        rows.append(ratio_row(sampler, what, "homefree", peer, "churn.real", wanted))
    what = "  in processor time, homefree / jemalloc"
    rows.insert(1, ratio_row(sampler, what, "homefree", "jemalloc", "churn.cpu"))
    return rows


def measure_forking(sampler, options):
    program = sampler.command("forking", "--cpu", options.cpu)
    preload = sampler.library.parent / "libhomefree-preload.so"
    variants = {
        "plain": (program, None),
        "late": ([*program, "--library", str(sampler.library)], None),
        "preloaded": ([*program, "--preloaded", "libhomefree.so.1"], str(preload)),
    }
    sampler.interleave(variants, options.rounds)
    rows = []
    for variant in ("late", "preloaded"):
        what = f"fork, exit and wait in a tiny process, {variant} / plain"
        row = ratio_row(sampler, what, variant, "plain", "fork.whole", 1.2)
        times = [sampler.median(name, "fork.whole") / 1000 for name in (variant, "plain")]
        row.beside = "{:.0f} µs / {:.0f} µs".format(*times)
        rows.append(row)
    return rows


MEASURES = {
    "pairs": measure_pairs,
    "adopted": measure_adopted,
    "limited": measure_limited,
    "owns": measure_owns,
    "routing": measure_routing,
    "churn": measure_churn,
    "forking": measure_forking,
}


# ---- callgrind -----------------------------------------------------------------------------------


def count_instructions(sampler, command, preload):
    """The instructions of a whole process."""
    tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    environment = dict(os.environ)
    environment.pop("LD_PRELOAD", None)
    # Set by env(1) below valgrind, so that valgrind itself is not preloaded.
    preloading = ["env", f"LD_PRELOAD={preload}"] if preload is not None else []
    trace = ["--trace-children=yes", "--trace-children-skip=*/env"] if preloading else []
    done = subprocess.run(
        [*tool, *trace, *preloading, *command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode == SKIPPED:
        return None
    found = re.findall(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not found:
        raise Unmeasurable(f"callgrind: exit {done.returncode}: {done.stderr.strip()[-500:]}")
    return int(found[-1])


def measure_instructions(sampler, options):
    if shutil.which("valgrind") is None:
        raise Unmeasurable("valgrind is not installed")
    low, high = CALLGRIND_COUNTS
    counts = {}
    variants = {
        **pair_variants(sampler, options.cpu),
        **adopted_variants(sampler, options.cpu),
        **limited_variants(sampler, options.cpu),
    }
    if "adopted" in variants:
        sampler.run(*variants["adopted"])  # makes the copy
    for name, (command, preload) in variants.items():
        for pattern in PATTERNS:
            runs = []
            for count in (low, high):
                only = ["--only", pattern, "--count", str(count)]
                runs.append(count_instructions(sampler, [*command, *only], preload))
            if None in runs:
                sampler.absent[name] = f"{preload} is not installed"
                break
            counts[name, pattern] = (runs[1] - runs[0]) / (high - low)
    rows = []
    for pattern, title in PATTERNS.items():
        for name in variants:
            row = Row(f"{title}, {name}", unit="instructions")
            row.value = counts.get((name, pattern))
            row.why_not = sampler.absent.get(name)
            if row.value is not None:
                row.beside = f"{row.value / counts['glibc', pattern]:.2f} of glibc's"
            rows.append(row)
    return rows


# ---- output --------------------------------------------------------------------------------------


def print_table(rows):
    head = ["what", "measured", "wanted", "verdict", "beside"]
    lines = [head] + [row.cells() for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for number, line in enumerate(lines):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))


def options_of_call():
    parser = arguments.parser_of(__doc__, MEASURES, rounds=21)
    parser.add_argument("--verbose", action="store_true", help="also the figures of each size")
    return arguments.parse(parser, MEASURES)


def main():
    options = options_of_call()
    programs, library = options.programs.resolve(), options.library.resolve()
    measures = [measure_instructions] if options.callgrind else []
    measures = measures or [MEASURES[name] for name in options.only.split(",")]
    rows, failures, samples = [], [], {}
    cache = tempfile.TemporaryDirectory(prefix="homefree-bench-")  # of adopted copies
    os.environ["XDG_CACHE_HOME"] = cache.name
    for measure in measures:
        sampler = Sampler(programs, library)
        try:
            rows += measure(sampler, options)
        except (Unmeasurable, subprocess.TimeoutExpired, OSError) as error:
            failures.append(f"{measure.__name__}: {error}")
        samples[measure.__name__.removeprefix("measure_")] = sampler.samples
    if options.json:
        document = {
            "version": 1,
            "rounds": options.rounds,
            "rows": [row.as_json() for row in rows],
            "failures": failures,
            "samples": samples,
        }
        print(json.dumps(document, indent=2))
    else:
        print_table(rows)
    for failure in failures:
        print(f"could not measure: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
