"""What docs/clusters.md says of Ray: actors with an Executor inside, on a real cluster of processes
on this machine. Run by ../clusters.py in an environment that has ray.

Usage: checks.py [unittest arguments]
"""

import os
import signal
import sys
import tempfile
import unittest
from pathlib import Path

import numpy
import ray
import work
from homefree.interpreters import Executor

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
import guide  # noqa: E402

PATIENCE = 120


@ray.remote(max_restarts=-1, max_task_retries=-1, max_concurrency=4)
class Actor:
    def __init__(self, count):
        self.executor = Executor(count)

    def process(self):
        return os.getpid()

    def where(self, array, times):
        """The place of the array here, and what interpreters say."""
        return array.ctypes.data, list(self.executor.map(work.where, [array] * times))

    def call(self, function, *arguments):
        return self.executor.submit(function, *arguments).result()

    def map(self, function, values):
        return list(self.executor.map(function, values))


def get(reference):
    return ray.get(reference, timeout=PATIENCE)


class Actors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        cls.addClassCleanup(ray.shutdown)

    def test_calls_run_in_interpreters(self):
        actor = Actor.remote(2)
        self.assertEqual(get(actor.map.remote(work.spin, [10, 100])), [285, 328350])
        _, found = get(actor.where.remote(numpy.ones(3), 20))
        self.assertTrue(all(number > 0 for number, _, _ in found), found)

    def test_arrays_of_the_object_store_are_not_copied(self):
        actor = Actor.remote(2)
        place, found = get(actor.where.remote(ray.put(numpy.ones(500_000)), 20))
        self.assertEqual({(where, total) for _, where, total in found}, {(place, 500_000.0)})

    def test_results_are_objects_of_the_store(self):
        actor = Actor.remote(1)
        made = actor.call.remote(numpy.full, 500_000, 2.0)
        self.assertEqual(get(actor.where.remote(made, 1))[1][0][2], 1e6)

    def test_exceptions(self):
        with self.assertRaisesRegex(LookupError, "odd 3"):
            get(Actor.remote(1).call.remote(work.fail, 3))

    def test_two_actors_pass_results_on(self):
        one, two = Actor.remote(1), Actor.remote(1)
        self.assertEqual(get(two.call.remote(work.spin, one.call.remote(work.spin, 4))), 819)

    def test_a_killed_actor_is_restarted_and_its_calls_are_done_again(self):
        actor = Actor.remote(2)
        before = get(actor.process.remote())
        with tempfile.TemporaryDirectory() as directory:
            begun, path = (os.path.join(directory, name) for name in ("begun", "path"))
            os.mkfifo(begun)
            os.mkfifo(path)
            waiting = actor.call.remote(work.wait, begun, path)
            sums = actor.map.remote(work.spin, [100_000] * 50)
            with open(begun):
                pass
            os.unlink(path)
            os.kill(before, signal.SIGKILL)
            self.assertEqual(get(waiting), "again")
        self.assertEqual(set(get(sums)), {work.spin(100_000)})
        self.assertNotEqual(get(actor.process.remote()), before)
        self.assertTrue(
            all(number > 0 for number, _, _ in get(actor.where.remote(numpy.ones(3), 4))[1])
        )

    def test_actors_end(self):
        for _ in range(5):
            actor = Actor.remote(2)
            self.assertEqual(get(actor.call.remote(work.spin, 4)), 14)
            del actor


class Guide(unittest.TestCase):
    def test_its_program(self):
        self.assertEqual(guide.said(guide.RAY), guide.said(guide.ONE))


if __name__ == "__main__":
    unittest.main(verbosity=2)
