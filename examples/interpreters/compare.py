"""Measures ways to use several processors, with the model of this example.

usage: compare.py [--workers N] [--requests N] [--rounds N] [--free-threaded PYTHON]

Each way runs in a process of its own, in turn, round after round: requests a second (the median of
the rounds), and what its workers add to the memory of the process and its children (a shared page
counts in proportion), once each has answered.

Threads and homefree's Executor also run in a free-threaded CPython that has NumPy and homefree: the
one that --free-threaded names, else a python3.14t or python3.13t of PATH.
"""

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

import numpy
from homefree.interpreters import Executor
from serve import load, predict

SPAWN = multiprocessing.get_context("spawn")  # fork() copies the parent's threads' locks
WAYS = {
    "threads": concurrent.futures.ThreadPoolExecutor,
    "processes": lambda *args, **named: concurrent.futures.ProcessPoolExecutor(
        *args, SPAWN, **named
    ),
    "homefree": Executor,
}
PACKAGE = "model.hfp"
BIG = 4096  # rows of the large request: 512 KiB


def first(rows):
    """Next to no work: what passing an array takes."""
    return float(rows[0, 0])


def memory():
    """MB of this process and its children."""
    children = pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    total = 0
    for process in ["self", *children]:
        lines = pathlib.Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def rate(executor, function, inputs):
    start = time.perf_counter()
    for _ in executor.map(function, inputs):
        pass
    return len(inputs) / (time.perf_counter() - start)


def measure(way, workers, requests):
    """[requests a second, the same for large arrays and no work, MB] of one way."""
    random = numpy.random.default_rng(2)
    inputs = random.random((requests, 8, 32), numpy.float32)
    large = [random.random((BIG, 32), numpy.float32)] * requests
    load(PACKAGE)  # what the program itself has of it is not the workers'
    before = memory()
    with WAYS[way](workers, initializer=load, initargs=(PACKAGE,)) as executor:
        list(executor.map(predict, inputs[: 100 * workers]))
        used = memory() - before
        return [rate(executor, predict, inputs), rate(executor, first, large), used]


def without_gil(named):
    """The free-threaded CPython to use, or None: what is named must do."""
    code = "import numpy, homefree.interpreters, sys; assert not sys._is_gil_enabled()"
    if named:
        subprocess.run([named, "-c", code], check=True)
        return named
    for name in ("python3.14t", "python3.13t"):
        python = shutil.which(name)
        if python and subprocess.run([python, "-c", code], capture_output=True).returncode == 0:
            return python
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--free-threaded", metavar="PYTHON", help="a CPython without a GIL")
    parser.add_argument("--way", choices=WAYS, help="measure this one alone, once; for this script")
    options = parser.parse_args()
    if options.way:
        print(json.dumps(measure(options.way, options.workers, options.requests)))
        return
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    found = {(way, sys.executable): [] for way in WAYS}
    free = without_gil(options.free_threaded) if gil else None
    if free:
        found |= {(way, free): [] for way in ("threads", "homefree")}
    for _ in range(options.rounds):
        for (way, python), samples in found.items():
            command = [python, __file__, "--way", way]
            command += ["--workers", str(options.workers), "--requests", str(options.requests)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
            samples.append(json.loads(done.stdout))
    print(f"CPython {sys.version.split()[0]}, {'one GIL' if gil else 'free-threaded'};", end=" ")
    print(f"{options.workers} workers on {os.cpu_count()} processors")
    print(f"{'':16} requests/s   {BIG // 8} KiB arrays/s   MB")
    for (way, python), samples in found.items():
        name = f"{way}, no GIL" if python == free else way
        speed, large, used = map(statistics.median, zip(*samples, strict=True))
        print(f"{name:16} {speed:10.0f} {large:18.0f} {used:6.1f}")


if __name__ == "__main__":
    main()
