#!/usr/bin/env python3
"""How fast Python is with homefree: install() in its modes, against the interpreter as it is.

As pyperf does it, with the rivals in turn: each sample is a fresh process of worker.py, a round is
one sample of each rival (every other round backwards), with the same hash seed for all of a round.
A figure is the median of the rounds' own ratios to stock, or to --base (so what a profile costs is
`--base arena --how arena+profile`); in parentheses are the quartiles. The
exit status is 0 also when a figure is missed, and 1 only when something could not be measured.

    python_bench.py --package DIR [--python FILE] [--rounds N] [--only WORK,...] [--json]
    python_bench.py --package DIR --callgrind

memray and heaptrack are ways, too: the worker runs under them, and does not load homefree.

--callgrind counts instructions of a loop instead of time, under valgrind: the difference between
two loop counts. It sees what noise hides, but knows nothing of what an instruction costs.
"""

import argparse
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from works import SEVEN, TEN, WORKS

WORKER = Path(__file__).resolve().parent / "worker.py"
TUNING = ("PYTHON", "LD_", "MALLOC_", "HOMEFREE_", "GLIBC_")
# Loops of one repeat.
LOOPS = {name: loops for name, (_, loops, _) in WORKS.items()}
TITLES = {name: title for name, (title, _, _) in WORKS.items()}
NEEDS_NUMPY = ("numpy_arrays", "numpy_large")
SETTLE, REPEATS = 3, 25
# install() uses "arena"; of the other ways, those without a figure are only reported.
WANTED_EACH, WANTED_MEAN = {"arena": 1.02}, {"arena": 0.98, "full": 1.00}
PROFILED = "+profile"
WANTED_PROFILED = 1.01  # to the same without
# CPython's own ways to have another allocator: values of PYTHONMALLOC.
OF_CPYTHON = ("malloc", "mimalloc")
# Profilers of others': words in front of a Python program, or of any; they write into the current
# directory.
PROFILERS = {
    "memray": ["-m", "memray", "run", "-q", "-f", "-o", "memray.bin"],
    "heaptrack": ["heaptrack"],
}
CALLGRIND_LOOPS = (2, 6)


class Unmeasurable(Exception):
    pass


def number(text):
    """The one line that is a number; tools print others."""
    for line in text.splitlines():
        try:
            return float(line)
        except ValueError:
            continue
    raise Unmeasurable(f"no figure in {text[-200:]!r}")


def under(how, python, program):
    """A Python program's command, under a profiler."""
    words = PROFILERS.get(how, [])
    return [python, *words, *program] if how == "memray" else [*words, python, *program]


def run(command, package, seed, allocator=None):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(TUNING)}
    environment.update(
        PYTHONHASHSEED=str(seed),
        PYTHONPATH=str(package),
        PYTHONDONTWRITEBYTECODE="1",
        OPENBLAS_NUM_THREADS="1",
    )
    if allocator is not None:
        environment["PYTHONMALLOC"] = allocator
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            [*map(str, command)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
            cwd=directory,
        )
    if done.returncode != 0:
        raise Unmeasurable(f"{' '.join(map(str, command[-6:]))}: {done.stderr.strip()[-500:]}")
    return done


def pinned(options, command):
    """Stays on one processor, so that the scheduler's moves are not measured."""
    if options.cpu < 0 or not shutil.which("taskset"):
        return command
    return ["taskset", "-c", str(options.cpu), *command]


def way(how):
    """What the worker is told, and the allocator that CPython is told to use."""
    if how in PROFILERS:
        return "stock", None
    return ("stock", how) if how in OF_CPYTHON else (how, None)


def has(options, allocator):
    """Whether the interpreter was built with an allocator of CPython's."""
    try:
        run([options.python, "-c", "pass"], options.package, 1, allocator)
    except Unmeasurable:
        return False
    return True


def is_there(options, profiler):
    if profiler != "memray":
        return shutil.which(profiler) is not None
    done = subprocess.run([str(options.python), "-c", "import memray"], capture_output=True)
    return done.returncode == 0


def sample(options, how, work, seed):
    told, allocator = way(how)
    program = [WORKER, told, work, SETTLE, options.repeats, LOOPS[work]]
    command = pinned(options, under(how, options.python, program))
    return number(run(command, options.package, seed, allocator).stdout)


def instructions(options, how, work):
    """Instructions of one loop; startup and warm-up are the same in both runs and cancel out."""
    counts = []
    told, allocator = way(how)
    for loops in CALLGRIND_LOOPS:
        done = run(
            ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", options.python]
            + [WORKER, told, work, SETTLE, 0, loops],
            options.package,
            1,
            allocator,
        )
        found = re.search(r"Collected : (\d+)", done.stderr)
        if not found:
            raise Unmeasurable(f"callgrind said nothing of {work}: {done.stderr.strip()[-300:]}")
        counts.append(int(found[1]))
    return (counts[1] - counts[0]) / (CALLGRIND_LOOPS[1] - CALLGRIND_LOOPS[0])


def measure(options, say=lambda text, passing=False: None):
    """{work: {how: [values]}}; say: told how far it is."""
    rivals = [options.base, *options.how.split(",")]
    values = {work: {how: [] for how in rivals} for work in options.works}
    if options.callgrind:
        for work in options.works:
            for how in rivals:
                values[work][how].append(instructions(options, how, work))
        return values
    for number in range(options.rounds):
        say(f"round {number + 1} of {options.rounds}")
        for work in options.works:
            say(f"round {number + 1} of {options.rounds}, {work}", passing=True)
            # Every other round goes backwards, so that no variant always follows a slow one.
            for how in rivals[:: 1 if number % 2 == 0 else -1]:
                values[work][how].append(sample(options, how, work, number + 1))
    return values


def summary(values, base="stock"):
    """{how: {work: (median, quartile, quartile)}} of the ratios to stock Python, or another way."""
    table = {}
    for work, rivals in values.items():
        for how, mine in rivals.items():
            if how == base:
                continue
            ratios = [a / b for a, b in zip(mine, rivals[base])]
            low, _, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
            table.setdefault(how, {})[work] = (statistics.median(ratios), low, high)
    return table


def verdict(value, wanted):
    return "" if wanted is None else "ok" if value <= wanted else "missed"


def print_table(values, table, unit, base):
    hows = list(table)
    lines = [["work", base, *(cell for how in hows for cell in (how, ""))]]
    for work, rivals in values.items():
        stock = statistics.median(rivals[base])
        line = [TITLES[work], f"{stock * 1e3:.3f} ms" if unit == "s" else f"{stock:.0f}"]
        for how in hows:
            ratio, low, high = table[how][work]
            line.append(f"{ratio:.3f} ({low:.3f}..{high:.3f})")
            line.append(verdict(ratio, WANTED_EACH.get(how)))
        lines.append(line)
    line = ["geometric mean", ""]
    for how in hows:
        mean = geometric_mean(table[how])
        wanted = WANTED_PROFILED if how == base + PROFILED else WANTED_MEAN.get(how)
        line += [f"{mean:.3f}", verdict(mean, wanted)]
    lines.append(line)
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


def geometric_mean(rows):
    return math.exp(statistics.fmean(math.log(ratio) for ratio, _, _ in rows.values()))


def newest(wheels):
    """The environment with NumPy that tests/real makes."""
    found = wheels.glob("cpython-3.*/ready") if wheels else []
    found = sorted(found, key=lambda path: int(path.parent.name.rpartition(".")[2]))
    return found[-1].parent / "bin" / "python" if found else None


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--package", type=Path, required=True, help="directory that holds homefree/"
    )
    parser.add_argument(
        "--python", type=Path, help="the interpreter; default: the newest of --wheels"
    )
    parser.add_argument(
        "--wheels", type=Path, help="the directory with the environments of tests/real"
    )
    parser.add_argument("--rounds", type=int, default=15, help="samples of each (%(default)s)")
    parser.add_argument(
        "--repeats",
        type=int,
        default=REPEATS,
        help="of each sample, the least counts (%(default)s)",
    )
    parser.add_argument(
        "--only", default=",".join([*SEVEN, *TEN]), help="loops to measure (%(default)s)"
    )
    parser.add_argument(
        "--how",
        default="arena,full",
        help="beside stock: route, arena, full, and these with +profile; malloc, mimalloc for "
        "PYTHONMALLOC; memray, heaptrack (%(default)s)",
    )
    parser.add_argument("--base", default="stock", help="what they are compared with (%(default)s)")
    parser.add_argument("--cpu", type=int, default=os.cpu_count() - 1, help="-1: any")
    parser.add_argument("--callgrind", action="store_true", help="count instructions instead")
    parser.add_argument("--json", action="store_true", help="a JSON document instead of the table")
    options = parser.parse_args()
    options.python = options.python or newest(options.wheels) or Path(sys.executable)
    options.python, options.package = options.python.absolute(), options.package.absolute()
    options.works = options.only.split(",")
    unknown = set(options.works) - set(LOOPS)
    if unknown or options.rounds < 1:
        parser.error(f"no such works: {', '.join(sorted(unknown))}" if unknown else "no rounds")
    return options


def what_is_missing(options):
    """Leaves out what this interpreter cannot do, and says so."""
    missing = []
    if set(options.works) & set(NEEDS_NUMPY):
        try:
            run([options.python, "-c", "import numpy"], options.package, 1)
        except Unmeasurable:
            missing.append(f"{options.python} has no NumPy")
            options.works = [work for work in options.works if work not in NEEDS_NUMPY]
    for how in options.how.split(","):
        if how in OF_CPYTHON and not has(options, how):
            missing.append(f"{options.python} knows no PYTHONMALLOC={how}")
            options.how = ",".join(one for one in options.how.split(",") if one != how)
    lacks = [
        how for how in options.how.split(",") if how in PROFILERS and not is_there(options, how)
    ]
    missing += [f"no {how}" for how in lacks]
    options.how = ",".join(how for how in options.how.split(",") if how not in lacks)
    return missing


def main():
    options = arguments()
    for text in what_is_missing(options):
        print(f"skipped: {text}", file=sys.stderr)
    try:
        values = measure(options)
    except (Unmeasurable, subprocess.TimeoutExpired, OSError) as error:
        print(f"could not measure: {error}", file=sys.stderr)
        return 1
    table = summary(values, options.base)
    if options.json:
        document = {
            "version": 1,
            "unit": "instructions" if options.callgrind else "seconds",
            "samples": values,
            "ratios": table,
            "geometric_mean": {how: geometric_mean(rows) for how, rows in table.items()},
        }
        print(json.dumps(document, indent=2))
    else:
        print_table(values, table, "instructions" if options.callgrind else "s", options.base)
    return 0


if __name__ == "__main__":
    sys.exit(main())
