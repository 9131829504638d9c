"""How long a graph of small tasks with arrays takes, whose work needs the GIL: one worker with two
threads, Dask's own and interpreters, in turns; beside two workers with one thread each.

usage: graph.py [TASKS [ROUNDS [COUNT]]]     10000 3 20000

COUNT is how many numbers a task adds in Python; 20000 take about a millisecond. The scheduler gives
a worker as many tasks as there are: with Dask's own setting, three at a time of those that make
arrays, every form waits for the scheduler.

Prints a line for each, and the ratios of the best times.
"""

import sys
import time

import dask
import numpy
from dask.distributed import Client, LocalCluster

FORMS = {
    "threads": {"n_workers": 1, "threads_per_worker": 2},
    "interpreters": {"n_workers": 1, "threads_per_worker": 2, "preload": "homefree.dask"},
    "processes": {"n_workers": 2, "threads_per_worker": 1},
}


def make(number):
    return numpy.full(131_072, number, "f8")  # 1 MiB


def work(left, right, count):
    """Python, and a look at the arrays."""
    total = 0
    for number in range(count):
        total += number * number
    left = left.copy()
    left[0] += right[0] + total % 2
    return left


def graph(tasks, count):
    """Pairs of arrays become one, until one is left."""
    level = [dask.delayed(make)(number) for number in range(tasks // 2)]
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2])
        level = [dask.delayed(work)(*pair, count) for pair in pairs] + level[len(level) & ~1 :]
    return level[0]


def measure(form, tasks, count):
    with (
        LocalCluster(dashboard_address=None, memory_limit=0, **FORMS[form]) as cluster,
        Client(cluster) as client,
    ):
        client.gather(client.map(work, [make(1)] * 4, [make(2)] * 4, [1] * 4, pure=False))
        start = time.monotonic()
        result = client.compute(graph(tasks, count)).result()
        took = time.monotonic() - start
    expected = sum(range(tasks // 2))
    assert result[0] == expected, (result[0], expected)
    return took


def main():
    given = list(map(int, sys.argv[1:]))
    tasks, rounds, count = given + [10_000, 3, 20_000][len(given) :]
    dask.config.set({"distributed.scheduler.worker-saturation": "inf"})
    best = dict.fromkeys(FORMS, float("inf"))
    for _ in range(rounds):
        for form in FORMS:
            best[form] = min(best[form], measure(form, tasks, count))
    for form, took in best.items():
        print(f"{form:13} {took:6.2f} s")
    ratios = [f"{best['interpreters'] / best[form]:.2f} of {form}" for form in FORMS]
    print(f"{tasks} tasks of {count} additions: {ratios[0]}, {ratios[2]}")


if __name__ == "__main__":
    main()
