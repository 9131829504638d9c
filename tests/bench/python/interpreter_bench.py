#!/usr/bin/env python3
"""What NumPy costs in one more interpreter with a GIL of its own, against one more process.

Each sample is a process of its own, and the two kinds take turns. In one kind the process imports
NumPy for the first time. In the other, interpreters are made one after the other and import it as
private copies; each import is a sample, and memory is what the process grew by, for each of them.
Times are the importing thread's processor time, because the machine may be busy. Memory is resident
memory (smaps_rollup); for the process, all of it, because one more worker costs all of it.

Then what is left of an Executor that imports NumPy, uses it and ends, and how long one takes until
it has used it, beside a process. The first two cycles do not count, nor does what homefree.trim()
gives back. These are wall times.

The exit status is 0 also when a figure is missed, and 1 only when something could not be measured.

    interpreter_bench.py --package DIR --python FILE [--rounds N] [--cycles N]
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

GUESTS = Path(__file__).resolve().parents[2] / "interpreter_modules"
COUNT = 4  # interpreters of one process
TIMED = """
import time
begin = time.thread_time()
import numpy
spent = time.thread_time() - begin
"""
RESIDENT = """
def resident():
    with open("/proc/self/smaps_rollup") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("Rss:"))
"""
PROCESS = (
    "import homefree\nhomefree.install()\n"
    + TIMED
    + RESIDENT
    + "import json\nprint(json.dumps([[spent], resident()]))"
)
INTERPRETERS = (
    RESIDENT
    + f"""
import json, os, sys
sys.path.insert(1, {str(GUESTS)!r})
import guest, homefree
homefree.install()
import numpy
before = resident()
readable, writable = os.pipe()
for _ in range({COUNT}):
    code = guest.BEFORE.format(path=sys.path) + {TIMED!r}
    code += f"import os; os.write({{writable}}, b'%r\\\\n' % spent)\\n"
    guest.run(guest.create(), code)
assert not guest.failed, guest.failed
after = resident()
os.close(writable)
with os.fdopen(readable) as lines:
    spent = [float(line) for line in lines]
print(json.dumps([spent, (after - before) / {COUNT}]), flush=True)
os._exit(0)
"""
)
CYCLES = (
    RESIDENT
    + """
import sys, time
import homefree
from homefree.interpreters import Executor

def use():
    import numpy
    assert numpy.linalg.inv(numpy.eye(3) * 2)[0, 0] == 0.5
    return float(numpy.random.default_rng(1).standard_normal(1000).sum())

def cycle():
    begin = time.perf_counter()
    with Executor(1) as executor:
        executor.submit(use).result()
        return time.perf_counter() - begin

def main(cycles):
    homefree.install()
    cycle(), cycle()
    homefree.trim()
    before = resident()
    spent = [cycle() for _ in range(cycles)]
    homefree.trim()
    print([spent, (resident() - before) / cycles])

if __name__ == "__main__":
    main(int(sys.argv[1]))
"""
)
STARTED = "import numpy; numpy.random.default_rng(1).standard_normal(1000).sum()"


def in_file(python, package, code, *arguments):
    """What a program prints that other interpreters import."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "program.py"
        path.write_text(code)
        return run(python, package, str(path), *arguments)


def sample(python, package, code):
    return run(python, package, "-c", code)


def run(python, package, *arguments):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "LD_"))}
    done = subprocess.run(
        [python, "-s", "-W", "ignore", *arguments],
        env=environment | {"PYTHONPATH": package},
        stdout=subprocess.PIPE,
        text=True,
        timeout=800,
        check=True,
    )
    return json.loads(done.stdout or "null")


def verdict(what, one, other, unit, wanted):
    ratio = one / other
    said = "ok" if ratio <= wanted else "missed"
    print(f"{what}: {ratio:.2f} ({one:.1f} {unit} / {other:.1f} {unit}), at most {wanted}: {said}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--package", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cycles", type=int, default=200)
    options = parser.parse_args()
    package = os.path.abspath(options.package)
    kinds = {PROCESS: ([], []), INTERPRETERS: ([], [])}
    try:
        for number in range(options.rounds + 1):
            for code, (times, sizes) in list(kinds.items())[:: -1 if number % 2 else 1]:
                spent, size = sample(options.python, package, code)
                if number:  # the first round reads the files
                    times += spent
                    sizes.append(size)
        spent, grown = in_file(options.python, package, CYCLES, str(options.cycles))
        starts = []
        for _ in range(options.rounds):
            begin = time.perf_counter()
            run(options.python, package, "-c", STARTED)
            starts.append(time.perf_counter() - begin)
    except subprocess.CalledProcessError as error:
        print(f"interpreter_bench.py: exit status {error.returncode}", file=sys.stderr)
        return 1
    (plain, process), (copied, interpreter) = kinds.values()
    median = statistics.median
    verdict(
        "import of private NumPy / first plain import",
        median(copied) * 1e3,
        median(plain) * 1e3,
        "ms",
        2,
    )
    verdict(
        "memory of an interpreter with NumPy / of a process",
        median(interpreter) / 1024,
        median(process) / 1024,
        "MiB",
        0.6,
    )
    said = "ok" if grown <= 100 else "missed"
    print(f"left of each of {options.cycles} Executors: {grown:.1f} KiB, at most 100: {said}")
    first, process = median(spent) * 1e3, median(starts) * 1e3
    print(f"until NumPy was used: {first:.0f} ms in a new Executor, {process:.0f} ms in a process")
    return 0


if __name__ == "__main__":
    sys.exit(main())
