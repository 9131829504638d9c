"""torch trains with homefree as its allocator, and finds what it does on the CPU.

torch can be given an allocator once in a process, so this is one program.
"""

import sys
import threading
import unittest

try:
    import torch
except ImportError:
    print("skipped: torch is not installed")
    sys.exit(77)
import homefree
from homefree import cuda


def train(device):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 8))
    model = model.to(device=device, dtype=torch.float64)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    inputs = torch.randn(20, 32, 64, dtype=torch.float64).to(device)
    losses = []
    for each in inputs:
        optimizer.zero_grad(set_to_none=True)
        loss = model(each).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).cpu()


class Allocator(unittest.TestCase):
    def test_tensors_lie_in_the_space(self):
        tensor = torch.ones(1 << 20, device="cuda")
        self.assertEqual(homefree.owner_of(tensor.data_ptr()).kind, "device")
        self.assertEqual(tensor.sum().item(), 1 << 20)

    def test_training_is_right(self):
        torch.testing.assert_close(train("cuda"), train("cpu"), rtol=1e-8, atol=1e-10)

    def test_memory_comes_back(self):
        before = cuda.stats(0)["allocated"]
        tensors = [torch.empty(64 << 20, dtype=torch.uint8, device="cuda") for _ in range(8)]
        self.assertGreaterEqual(cuda.stats(0)["allocated"], before + (512 << 20))
        del tensors
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        self.assertLess(cuda.stats(0)["allocated"], before + (64 << 20))

    def test_streams_and_record_stream(self):
        streams = [torch.cuda.Stream() for _ in range(4)]
        source = torch.arange(1 << 20, device="cuda")
        torch.cuda.synchronize()
        for number in range(100):
            stream, other = streams[number % 4], streams[(number + 1) % 4]
            with torch.cuda.stream(stream):
                made = source + number
            other.wait_stream(stream)
            with torch.cuda.stream(other):
                made.record_stream(other)
                sums = made.sum()
            del made
            with torch.cuda.stream(stream):
                torch.full((1 << 20,), -1, device="cuda")  # would take its memory
            other.synchronize()
            wanted = sum(range(1 << 20)) + number * (1 << 20)
            self.assertEqual(sums.item(), wanted)

    def test_tensors_are_freed_by_other_threads(self):
        def work(tensors):
            for _ in range(50):
                tensors.append(torch.ones(10000, device="cuda"))

        kept = []
        threads = [threading.Thread(target=work, args=(kept,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sum(tensor.sum().item() for tensor in kept), 2000000)
        thread = threading.Thread(target=kept.clear)
        thread.start()
        thread.join()

    def test_too_much_is_an_error_of_torchs(self):
        total = torch.cuda.get_device_properties(0).total_memory
        with self.assertRaises((torch.OutOfMemoryError, RuntimeError)):
            torch.empty(2 * total, dtype=torch.uint8, device="cuda")
        self.assertEqual(torch.ones(10, device="cuda").sum().item(), 10)


if __name__ == "__main__":
    if not torch.cuda.is_available():
        print("skipped: no CUDA device for torch")
        sys.exit(77)
    cuda.use_torch()
    unittest.main()
