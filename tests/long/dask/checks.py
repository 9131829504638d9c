"""What Dask promises, on workers whose tasks run in interpreters (homefree.dask): real clusters of
processes on this machine. Run by ../clusters.py in an environment that has distributed.

Usage: checks.py [unittest arguments]
"""

import os
import signal
import sys
import tempfile
import threading
import time
import unittest
import urllib.request
from pathlib import Path

import dask
import numpy
from dask.distributed import Client, Event, LocalCluster, get_worker, wait

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
import guide  # noqa: E402

PATIENCE = 120


class Odd(Exception):
    """Of the program's main module, so it crosses by value."""


class Pair:
    def __init__(self, left, right):
        self.left, self.right = left, right


def where():
    import homefree

    return os.getpid(), homefree._homefree.interpreter_current()


def spin(count):
    total = 0
    for number in range(count):
        total += number * number
    return total


def place(array):
    return array.ctypes.data


def fail(number):
    raise Odd(f"odd {number}")


def fail_once(path):
    if not os.path.exists(path):
        open(path, "w").close()
        raise Odd("the first time")
    return "the second time"


def add_later(number):
    time.sleep(0.05)
    return number + 1


class Cluster(unittest.TestCase):
    """One worker with two interpreters, unless `workers` says otherwise."""

    workers, threads, options = 1, 2, {}

    @classmethod
    def setUpClass(cls):
        cls.cluster = LocalCluster(
            n_workers=cls.workers,
            threads_per_worker=cls.threads,
            preload="homefree.dask",
            dashboard_address=":0",
            **cls.options,
        )
        cls.addClassCleanup(cls.cluster.close)
        cls.client = Client(cls.cluster)
        cls.addClassCleanup(cls.client.close)

    def result(self, future):
        return future.result(timeout=PATIENCE)


class Tasks(Cluster):
    def test_they_run_in_interpreters(self):
        found = self.client.gather([self.client.submit(where, pure=False) for _ in range(40)])
        self.assertEqual(len({pid for pid, _ in found}), 1)
        self.assertTrue(all(number > 0 for _, number in found), found)

    def test_functions_without_names_and_what_they_close_over(self):
        more = 7
        self.assertEqual(self.result(self.client.submit(lambda x: x + more, 4)), 11)

    def test_objects_of_the_programs_classes(self):
        pair = self.result(self.client.submit(Pair, 1, "two"))
        self.assertIs(type(pair), Pair)
        swapped = self.client.submit(lambda pair: Pair(pair.right, pair.left), pair)
        self.assertEqual(self.result(swapped).left, "two")

    def test_functions_as_results(self):
        made = self.client.submit(lambda by: lambda x: x * by, 3)
        self.assertEqual(self.result(self.client.submit(lambda f: f(5), made)), 15)

    def test_exceptions(self):
        with self.assertRaisesRegex(Odd, "odd 3"):
            self.result(self.client.submit(fail, 3))
        with self.assertRaises(ZeroDivisionError):
            self.result(self.client.submit(lambda: 1 / 0))

    def test_what_cannot_cross_is_an_error(self):
        with self.assertRaisesRegex(TypeError, "generator"):
            self.result(self.client.submit(lambda: (x for x in ())))
        self.assertEqual(self.result(self.client.submit(spin, 3)), 5)

    def test_retries(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "once")
            future = self.client.submit(fail_once, path, retries=2, pure=False)
            self.assertEqual(self.result(future), "the second time")

    def test_arrays_stay_where_they_are(self):
        array = self.client.submit(numpy.ones, 500_000)
        first = self.client.submit(place, array, pure=False)
        second = self.client.submit(place, array, pure=False)
        self.assertEqual(self.result(first), self.result(second))
        held = self.client.run(lambda dask_worker: [
            value.ctypes.data for value in dask_worker.data.values() if hasattr(value, "ctypes")
        ])  # fmt: skip
        self.assertIn(self.result(first), next(iter(held.values())))
        self.assertEqual(self.result(self.client.submit(numpy.sum, array)), 500_000)

    def test_graphs(self):
        squares = [dask.delayed(spin)(n) for n in range(200)]
        self.assertEqual(dask.delayed(sum)(squares).compute(), sum(map(spin, range(200))))

    def test_threads_where_they_are_asked_for(self):
        with dask.annotate(executor="threads"):
            name = self.client.submit(lambda: get_worker().name, pure=False)
            number = self.client.submit(where, pure=False)
        self.assertIsNotNone(self.result(name))
        self.assertEqual(self.result(number)[1], 0)

    def test_cancelled_tasks_do_not_run(self):
        futures = self.client.map(add_later, range(60), pure=False)
        self.client.cancel(futures[20:])
        self.assertEqual(self.client.gather(futures[:20]), list(range(1, 21)))
        self.assertTrue(all(future.cancelled() for future in futures[20:]))
        self.assertEqual(self.result(self.client.submit(spin, 4)), 14)

    def test_events_of_the_cluster(self):
        """A client of the cluster works inside of an interpreter, as in another process."""
        address = self.cluster.scheduler_address

        def tell():
            from dask.distributed import Client as Inner
            from dask.distributed import Event as InnerEvent

            with Inner(address) as client:
                InnerEvent("told", client=client).set()

        with dask.annotate(executor="threads"):
            self.client.submit(tell, pure=False).result(timeout=PATIENCE)
        self.assertTrue(Event("told", client=self.client).wait(timeout=PATIENCE))

    def test_the_dashboard(self):
        with urllib.request.urlopen(self.client.dashboard_link, timeout=PATIENCE) as page:
            self.assertEqual(page.status, 200)


class Spilling(Cluster):
    options = {"memory_limit": "600 MB"}

    def test_more_than_fits(self):
        arrays = self.client.map(lambda n: numpy.full(2_000_000, n, "f8"), range(60), pure=False)
        sums = self.client.map(lambda a: float(a[0]), arrays)
        self.assertEqual(self.client.gather(sums), [float(n) for n in range(60)])
        spilled = self.client.run(lambda dask_worker: len(dask_worker.data.slow))
        self.assertGreater(sum(spilled.values()), 0)


class Deaths(Cluster):
    workers, threads = 2, 1

    def test_a_worker_is_killed_under_load(self):
        arrays = self.client.map(lambda n: numpy.full(100_000, n, "f8"), range(300), pure=False)
        sums = self.client.map(lambda a: (time.sleep(0.01), float(a.sum()))[1], arrays)
        wait(sums[:20], timeout=PATIENCE)
        victim = next(iter(self.client.run(os.getpid).values()))
        os.kill(victim, signal.SIGKILL)
        self.assertEqual(
            self.client.gather(sums, errors="raise"), [100_000.0 * n for n in range(300)]
        )
        self.client.wait_for_workers(2, timeout=PATIENCE)
        found = self.client.gather([self.client.submit(where, pure=False) for _ in range(20)])
        self.assertTrue(all(number > 0 for _, number in found), found)


class Restarts(Cluster):
    """With workers of its own: Dask loses one that is asked to restart just after it has died."""

    workers, threads = 2, 1

    def test_restart(self):
        self.client.restart(timeout=PATIENCE)
        self.assertGreater(self.result(self.client.submit(where, pure=False))[1], 0)

    def test_threads_of_the_worker_end(self):
        before = self.client.run(threading.active_count)
        self.client.gather(self.client.map(spin, range(50), pure=False))
        after = self.client.run(threading.active_count)
        self.assertEqual({k: after[k] - before[k] > 5 for k in after}, dict.fromkeys(after, False))


class Guide(unittest.TestCase):
    def test_its_program(self):
        self.assertEqual(guide.said(guide.DASK), guide.said(guide.ONE))


if __name__ == "__main__":
    unittest.main(verbosity=2)
