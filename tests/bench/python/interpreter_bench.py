#!/usr/bin/env python3
"""What NumPy costs in one more interpreter with a GIL of its own, against one more process.

Each sample is a process of its own, and the two kinds take turns. In one kind the process imports
NumPy for the first time, while another one that has imported it lives. In the other, a process that
has imported it makes Executors of one interpreter each, which import it as private copies and live
on; the first one does not count. Times of imports are the importing thread's processor time,
because the machine may be busy.

Memory is what one more adds. Of an interpreter, that is what the proportional memory (Pss) of its
process grows by: pages that it shares with the original's file are no new memory. Of a process it
is its resident memory, as one that is alone on its machine takes, or, beside another one that
lives, what it has alone (Private_*). --split shows the interpreter's by kinds of mappings.

Then the time until a task is done that uses NumPy: in a worker that has taken the place of one that
retired (max_tasks_per_child), in a new Executor, and in a process; and what is left of an Executor
that imports NumPy, uses it and ends. The first two cycles do not count, nor does what
homefree.trim() gives back. These are wall times.

Prints the table of tests/bench/README.md. The exit status is 0 also when a figure is missed, and 1
only when something could not be measured.

    interpreter_bench.py --package DIR --python FILE [--rounds N] [--cycles N] [--split]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COUNT = 4  # interpreters of one process
SIZES = """
import re

def sizes():
    with open("/proc/self/smaps_rollup") as lines:
        found = {line.split(":")[0]: int(line.split()[1]) for line in lines if " kB" in line}
    return found["Rss"], found["Pss"], found["Private_Clean"] + found["Private_Dirty"]

def kinds():
    found, kind = {}, None
    with open("/proc/self/smaps") as lines:
        for line in lines:
            mapping = re.match("[0-9a-f]+-[0-9a-f]+ (...). [0-9a-f]+ [0-9a-f:]+ [0-9]+ *(.*)", line)
            if mapping:
                rights, name = mapping.groups()
                file = "a copy's file" if ".homefree-" in name else "other files"
                kind = f"{file}, {rights}" if name.startswith("/") else "no file"
            elif line.startswith("Pss:"):
                found[kind] = found.get(kind, 0) + int(line.split()[1])
    return found
"""
TIMED = """
import time
def timed():
    begin = time.thread_time()
    import numpy
    return time.thread_time() - begin
"""
PROCESS = (
    "import homefree\nhomefree.install()\n"
    + SIZES
    + TIMED
    + """
import json, sys
spent = timed()
print(json.dumps([spent, *sizes()]), flush=True)
sys.stdin.read()
"""
)
INTERPRETERS = (
    SIZES
    + TIMED
    + f"""
import json, os
import homefree
from homefree.interpreters import Executor

def begun():
    executor = Executor(1)
    return executor, executor.submit(timed).result()

def main():
    homefree.install()
    import numpy
    living = [begun()]
    before, split = sizes(), kinds()
    living += [begun() for _ in range({COUNT})]
    grown = [(now - then) / {COUNT} for now, then in zip(sizes(), before)]
    split = {{kind: (now - split.get(kind, 0)) / {COUNT} for kind, now in kinds().items()}}
    print(json.dumps([[spent for _, spent in living[1:]], *grown, split]), flush=True)
    os._exit(0)

if __name__ == "__main__":
    main()
"""
)
USE = """
def use():
    import numpy
    assert numpy.linalg.inv(numpy.eye(3) * 2)[0, 0] == 0.5
    return float(numpy.random.default_rng(1).standard_normal(1000).sum())
"""
SWAPS = (
    USE
    + """
import json, os, sys, tempfile, time
from homefree.interpreters import Executor

def begin(path):
    use()
    with open(path, "a") as file:
        file.write(".")

def use_until(path, count):
    while os.path.getsize(path) < count:
        time.sleep(0.001)

def main(count):
    with tempfile.TemporaryDirectory() as directory:
        path, spent = os.path.join(directory, "begun"), []
        with Executor(1, initializer=begin, initargs=(path,), max_tasks_per_child=2) as executor:
            for number in range(count + 3):
                start = time.perf_counter()
                executor.submit(use).result()
                spent.append(time.perf_counter() - start)
                executor.submit(use_until, path, number + 2).result()
        print(json.dumps(spent[3:]))

if __name__ == "__main__":
    main(int(sys.argv[1]))
"""
)
CYCLES = (
    SIZES
    + USE
    + """
import sys, time
import homefree
from homefree.interpreters import Executor

def cycle():
    begin = time.perf_counter()
    with Executor(1) as executor:
        executor.submit(use).result()
        return time.perf_counter() - begin

def main(cycles):
    homefree.install()
    cycle(), cycle()
    homefree.trim()
    before = sizes()[0]
    spent = [cycle() for _ in range(cycles)]
    homefree.trim()
    print([spent, (sizes()[0] - before) / cycles])

if __name__ == "__main__":
    main(int(sys.argv[1]))
"""
)
STARTED = USE + "use()"


def in_file(python, package, code, *arguments):
    """What a program prints that other interpreters import."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "program.py"
        path.write_text(code)
        return run(python, package, str(path), *arguments)


def environment_of(package):
    """Without homefree's own bytecode, each interpreter would compile its modules."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "LD_"))}
    return plain | {"PYTHONPATH": package}


def run(python, package, *arguments):
    done = subprocess.run(
        [python, "-s", "-W", "ignore", *arguments],
        env=environment_of(package),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=800,
        check=True,
    )
    return json.loads(done.stdout or "null")


def processes(python, package):
    """Two, one after the other: what the second one prints while the first one lives."""
    with subprocess.Popen(
        [python, "-s", "-W", "ignore", "-c", PROCESS],
        env=environment_of(package),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as first:
        first.stdout.readline()
        return run(python, package, "-c", PROCESS)


def row(what, one, other, unit, wanted=None):
    ratio = one / other
    said = "" if wanted is None else f"≤ {wanted}" + ("" if ratio <= wanted else ", missed")
    print(f"| {what} | {ratio:.2f} ({one:.1f} {unit} / {other:.1f} {unit}) | {said} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--package", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--split", action="store_true")
    options = parser.parse_args()
    python, package = options.python, os.path.abspath(options.package)
    plain, copied, starts = [], [], []
    try:
        for number in range(options.rounds + 1):
            samples = (
                processes(python, package),
                in_file(python, package, INTERPRETERS),
            )
            begin = time.perf_counter()
            run(python, package, "-c", STARTED)
            spent = time.perf_counter() - begin
            if number:  # the first round reads the files
                plain.append(samples[0])
                copied.append(samples[1])
                starts.append(spent)
        swaps = in_file(python, package, SWAPS, "20")
        cycles, grown = in_file(python, package, CYCLES, str(options.cycles))
    except subprocess.CalledProcessError as error:
        print(f"interpreter_bench.py: exit status {error.returncode}", file=sys.stderr)
        return 1
    median = statistics.median
    imports, resident, _, alone = (median(values) for values in zip(*plain))
    spent = median(one for sample in copied for one in sample[0])
    added = median(sample[2] for sample in copied) / 1024
    start = median(starts) * 1e3
    print("| what | | wanted |\n|---|---|---|")
    row("import / first plain import", spent * 1e3, imports * 1e3, "ms", 2)
    row("memory / all of a process", added, resident / 1024, "MiB", 0.35)
    row("memory / what a second process adds", added, alone / 1024, "MiB")
    row("time to a warm one / to a process", median(swaps) * 1e3, start, "ms", 0.1)
    row("time to a new Executor / to a process", median(cycles) * 1e3, start, "ms")
    said = "" if grown <= 100 else ", missed"
    print(f"| left of each of {options.cycles} Executors | {grown:.1f} KiB | ≤ 100 KiB{said} |")
    if options.split:
        print()
        for kind in sorted(copied[0][-1]):
            size = median(sample[-1].get(kind, 0) for sample in copied)
            print(f"{size:9.0f} KiB  {kind}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
