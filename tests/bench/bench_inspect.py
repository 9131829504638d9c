#!/usr/bin/env python3
"""How long `homefree inspect --json` takes for a large library, beside tools that read less of it.

Usage: bench_inspect.py HOMEFREE [--rounds N] [--json] [FILE]

The programs take turns, each run is a process of its own, and the file is in the page cache. The
figure is the median of the whole run, process start included. FILE is Debian's libtorch_cpu
(120 MB) when it is there. Wanted: 50 ms or less. A missed figure is a verdict, not a failure.
"""

import argparse
import glob
import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

WANTED_MS = 50


def measure(command):
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    elapsed = (time.perf_counter() - start) * 1000
    if done.returncode not in (0, 1):
        sys.exit(f"bench_inspect.py: {command[0]} ended with {done.returncode}")
    return elapsed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("homefree")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("file", nargs="?")
    options = parser.parse_args()

    found = sorted(glob.glob("/usr/lib/*-linux-gnu/libtorch_cpu.so.*"))
    file = options.file or (found[0] if found else None)
    if file is None:
        print("inspect: no large library to inspect: name one, or install libtorch1.13")
        return 77
    rivals = {"homefree inspect": [options.homefree, "inspect", "--json", file]}
    for name, arguments in {"nm -D": ["nm", "-D"], "readelf -sW": ["readelf", "-sW"]}.items():
        if shutil.which(arguments[0]):
            rivals[name] = [*arguments, file]
    samples = {name: [] for name in rivals}
    for turn in range(options.rounds + 1):
        order = list(rivals) if turn % 2 == 0 else list(reversed(rivals))
        for name in order:
            elapsed = measure(rivals[name])
            if turn > 0:  # the first turn fills the page cache
                samples[name].append(elapsed)
    if options.json:
        print(json.dumps({"format": 1, "file": file, "milliseconds": samples}, indent=2))
        return 0
    size = Path(file).stat().st_size / 1e6
    print(f"{file} ({size:.0f} MB), {options.rounds} rounds, median (least to most)")
    for name, values in samples.items():
        middle = statistics.median(values)
        verdict = ""
        if name == "homefree inspect":
            verdict = f"wanted <= {WANTED_MS} ms: {'ok' if middle <= WANTED_MS else 'missed'}"
        print(f"  {name:18} {middle:7.1f} ms ({min(values):.1f} to {max(values):.1f})  {verdict}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
