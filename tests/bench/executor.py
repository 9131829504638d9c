#!/usr/bin/env python3
"""Measures homefree.interpreters.Executor beside the executors of the standard library.

    executor.py [--rounds N] [--json]        PYTHONPATH must lead to the package

Run it by a CPython from 3.12 on. Rivals take turns, and a ratio is one of medians.
What is measured:

    throughput   tasks a second that return their argument, submitted together
    processors   the same CPU-bound call on one interpreter and on two
    crossing     an array of 100 MB on both sides of a crossing, beside pickling it
    passing      the same in a call to a worker that is idle, beyond passing a number

InterpreterPoolExecutor's workers cannot import NumPy by themselves. Where an array is passed, they
are prepare()d: "interpreters" gets it in a list, which CPython pickles, "prepared" as it is.
"""

import argparse
import concurrent.futures
import functools
import json
import pickle
import statistics
import sys
import time
import timeit

import homefree
from homefree.interpreters import Executor, prepare

TASKS = 5000
ARRAY = 100_000_000


# ---- what the workers call ----


def nothing(number):
    return number


def spin(count):
    total = 0
    for number in range(count):
        total += number * number
    return total


def first(array):
    return float(array[0])


def first_in(arrays):
    return first(arrays[0])


# ---- rivals ----


def rivals():
    """By name: how to make an executor of so many workers. ProcessPoolExecutor starts its processes
    afresh, as interpreters do."""
    import multiprocessing

    found = {
        "homefree": Executor,
        "processes": lambda count: concurrent.futures.ProcessPoolExecutor(
            count, multiprocessing.get_context("spawn")
        ),
    }
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        found["threads"] = concurrent.futures.ThreadPoolExecutor  # NumPy refuses interpreters there
    elif hasattr(concurrent.futures, "InterpreterPoolExecutor"):
        found["interpreters"] = concurrent.futures.InterpreterPoolExecutor
    return found


def passers():
    """By name: how to make a worker, a function for it, and what that takes of an array."""
    found = {name: (make, first, lambda array: array) for name, make in rivals().items()}
    if "interpreters" in found:
        make = functools.partial(concurrent.futures.InterpreterPoolExecutor, initializer=prepare)
        found["interpreters"] = make, first_in, lambda array: [array]
        found["prepared"] = make, first, lambda array: array
    return found


def throughput(make):
    with make(2) as executor:
        list(executor.map(nothing, range(200)))
        start = time.perf_counter()
        for future in [executor.submit(nothing, number) for number in range(TASKS)]:
            future.result()
        return TASKS / (time.perf_counter() - start)


def processors(make):
    """How many times as fast two workers are as one."""
    with make(1) as one, make(2) as two:
        times = []
        for executor in (one, two):
            list(executor.map(spin, [1000] * 8))
            start = time.perf_counter()
            list(executor.map(spin, [3_000_000] * 8))
            times.append(time.perf_counter() - start)
        return times[0] / times[1]


def passing(how, rounds=20):
    """Seconds to pass an array and get its first element, beyond passing a number."""
    import numpy

    make, take, given = how
    array = numpy.ones(ARRAY // 8)
    with make(1) as executor:
        values = []
        for function, value in ((nothing, 1), (take, given(array))):
            executor.submit(function, value).result()
            samples = []
            for _ in range(rounds):
                start = time.perf_counter()
                executor.submit(function, value).result()
                samples.append(time.perf_counter() - start)
            values.append(statistics.median(samples))
        return max(values[1] - values[0], 0.0)


def crossing(make):
    """Seconds that an array takes on both sides of a crossing, beyond what a number takes; for
    rivals, its pickle."""
    import numpy

    array = numpy.ones(ARRAY // 8)
    if make is Executor:
        from homefree import _homefree
        from homefree.interpreters._crossing import pack, unpack

        def cross(value):
            message = _homefree.message_pack(*pack(value))
            return unpack(*_homefree.message_open(_homefree.message_send(message)))

    else:

        def cross(value):
            return pickle.loads(pickle.dumps(value, 5))

    times = []
    for value, number in ((1, 200), (array, 200 if make is Executor else 1)):
        samples = timeit.repeat(functools.partial(cross, value), number=number, repeat=9)
        times.append(min(samples) / number)
    return times[1] - times[0]


MEASURES = {
    "throughput": (throughput, rivals, "tasks a second", 1),
    "processors": (processors, rivals, "two workers / one", 1),
    "crossing": (crossing, rivals, "100 MB across, µs", 1e6),
    "passing": (passing, passers, "passing 100 MB, µs", 1e6),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(MEASURES))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    homefree.install()
    try:
        import numpy  # noqa: F401

        names = options.only.split(",")
    except ImportError:
        names = [name for name in options.only.split(",") if name in ("throughput", "processors")]
    prepare()
    samples = {name: {rival: [] for rival in MEASURES[name][1]()} for name in names}
    for turn in range(options.rounds):
        for name in names:
            measure, found = MEASURES[name][0], MEASURES[name][1]()
            for rival in list(found) if turn % 2 == 0 else list(reversed(found)):
                samples[name][rival].append(measure(found[rival]))
    result = {}
    for name, by_rival in samples.items():
        _, _, what, scale = MEASURES[name]
        medians = {rival: statistics.median(values) * scale for rival, values in by_rival.items()}
        result[name] = medians
        if not options.json:
            values = "  ".join(f"{rival} {value:,.2f}" for rival, value in medians.items())
            print(f"{what:28} {values}")
    if options.json:
        json.dump({"python": sys.version.split()[0], "medians": result}, sys.stdout, indent=1)
        print()


if __name__ == "__main__":
    main()
