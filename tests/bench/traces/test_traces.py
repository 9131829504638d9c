"""Traces are the same for the same seed, free what they allocate, and play; the model of torch's
policies follows the published rules.

usage: test_traces.py REPLAY-TRACE LIBHOMEFREE
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch_model
import traces

MIB = 1 << 20
SMALL = {"training": {"model": "tiny", "batch": 1, "sequence": 64}, "serving": {"model": "tiny"}}


def made(kind, **changes):
    return traces.make(kind, **{**SMALL.get(kind, {}), **changes})


class Traces(unittest.TestCase):
    def test_the_seed_decides(self):
        for kind in traces.KINDS:
            self.assertEqual(made(kind), made(kind))
            self.assertNotEqual(made(kind), made(kind, seed=2))

    def test_each_block_is_freed_once_by_its_stream(self):
        for kind in traces.KINDS:
            live, seen = {}, set()
            for what, block, *rest in made(kind):
                if what == "a":
                    self.assertNotIn(block, seen)
                    self.assertGreater(rest[0], 0)
                    seen.add(block)
                    live[block] = rest[1]
                else:
                    self.assertEqual(live.pop(block), rest[0])
            self.assertEqual(live, {})

    def test_training_keeps_its_parameters_and_moments(self):
        # Parameters, gradients, two moments and Adam's list of roots: five times the parameters.
        size = 4 * sum(traces.parameters(traces.MODELS["tiny"]))
        peak, _ = torch_model.reserved(made("training"), "device")
        self.assertGreaterEqual(peak, 5 * size)

    def test_the_replayer_finds_the_same_peak(self):
        for kind in traces.KINDS:
            operations = made(kind)
            status, figures = replay(operations)
            self.assertEqual(status, 0)
            peak, _ = torch_model.reserved(operations, "device")
            self.assertEqual(figures["trace.requested"], peak)
            self.assertEqual(figures["trace.pairs"], len(operations) / 2)

    def test_the_replayer_refuses_a_trace_that_frees_twice(self):
        broken = [("a", 0, 5, 0), ("f", 0, 0), ("f", 0, 0)]
        for operations in (broken, broken[:1], [("a", 0, 5)], [("x", 0, 0)]):
            self.assertEqual(replay(operations)[0], 1)


def replay(operations):
    with tempfile.TemporaryDirectory() as directory:
        file = pathlib.Path(directory, "trace")
        file.write_text("# a comment\n" + "".join(" ".join(map(str, o)) + "\n" for o in operations))
        command = [REPLAY, "--trace", file, "--how", "heap", "--library", LIBRARY]
        done = subprocess.run([*command, "--repeats", "1"], stdout=subprocess.PIPE, text=True)
    return done.returncode, {
        name: float(value) for name, value in (line.split() for line in done.stdout.splitlines())
    }


class Model(unittest.TestCase):
    def reserved(self, *operations, policy="device"):
        """Operations are sizes to allocate, pairs of a size and a stream, and "f0" to free."""
        trace, count = [], 0
        for each in operations:
            if isinstance(each, str):
                trace.append(("f", int(each[1:]), 0))
                continue
            size, stream = each if isinstance(each, tuple) else (each, 0)
            trace.append(("a", count, size, stream))
            count += 1
        return torch_model.reserved(trace, policy)[1]

    def test_segments(self):
        self.assertEqual(self.reserved(1), 2 * MIB)
        self.assertEqual(self.reserved(MIB), 2 * MIB)
        self.assertEqual(self.reserved(MIB + 1), 20 * MIB)
        self.assertEqual(self.reserved(10 * MIB - 512), 20 * MIB)
        self.assertEqual(self.reserved(10 * MIB), 10 * MIB)
        self.assertEqual(self.reserved(10 * MIB + 1), 12 * MIB)

    def test_small_blocks_share_a_segment(self):
        self.assertEqual(self.reserved(*[512] * 4096), 2 * MIB)
        self.assertEqual(self.reserved(*[512] * 4097), 4 * MIB)
        self.assertEqual(self.reserved(*[513] * 2049), 4 * MIB)

    def test_streams_share_nothing(self):
        self.assertEqual(self.reserved(512, (512, 1)), 4 * MIB)
        self.assertEqual(self.reserved(512, "f0", (512, 1)), 4 * MIB)

    def test_large_blocks_are_split_for_more_than_a_mebibyte(self):
        self.assertEqual(self.reserved(32 * MIB, "f0", 30 * MIB, 2 * MIB), 32 * MIB)
        self.assertEqual(self.reserved(32 * MIB, "f0", 31 * MIB, 2 * MIB), 52 * MIB)

    def test_the_smallest_that_fits_is_taken(self):
        self.assertEqual(
            self.reserved(40 * MIB, 20 * MIB, "f0", "f1", 20 * MIB, 40 * MIB), 60 * MIB
        )

    def test_free_neighbours_are_joined(self):
        third = 10 * MIB
        parts = [30 * MIB, "f0", third, third, third]
        for order in (("f1", "f2", "f3"), ("f1", "f3", "f2"), ("f3", "f2", "f1")):
            self.assertEqual(self.reserved(*parts, *order, 30 * MIB), 30 * MIB)
        self.assertEqual(self.reserved(*parts, "f1", "f3", 20 * MIB), 50 * MIB)

    def test_pinned_blocks_are_powers_of_two_that_serve_their_size_alone(self):
        self.assertEqual(self.reserved(MIB + 1, policy="pinned"), 2 * MIB)
        self.assertEqual(self.reserved(2 * MIB, "f0", MIB + 1, policy="pinned"), 2 * MIB)
        self.assertEqual(self.reserved(2 * MIB, "f0", MIB, policy="pinned"), 3 * MIB)


if __name__ == "__main__":
    REPLAY, LIBRARY = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
