"""A pool of torch's with memory of homefree's, page-locked tensors, copies that do not wait."""

import sys
import unittest

try:
    import torch
except ImportError:
    print("skipped: torch is not installed")
    sys.exit(77)
import homefree
from homefree import cuda


class Pool(unittest.TestCase):
    def test_only_what_is_made_in_it_is_homefrees(self):
        pool = cuda.torch_mem_pool()
        before = torch.ones(1 << 20, device="cuda")
        with torch.cuda.use_mem_pool(pool):
            inside = torch.ones(8 << 20, device="cuda")
        after = torch.ones(8 << 20, device="cuda")
        kinds = [homefree.owner_of(each.data_ptr()).kind for each in (before, inside, after)]
        self.assertEqual(kinds, ["cuda", "device", "cuda"])
        self.assertEqual((inside + after).sum().item(), 2 * (8 << 20))
        del inside
        del pool
        torch.cuda.empty_cache()

    def test_a_graph_in_a_pool(self):
        pool = cuda.torch_mem_pool()
        static = torch.zeros(1000, device="cuda")
        with torch.cuda.use_mem_pool(pool):
            warm = static * 2 + 1
        del warm
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = static * 2 + 1
        for number in range(5):
            static.fill_(number)
            graph.replay()
            self.assertEqual(result[0].item(), 2 * number + 1)


class Pinned(unittest.TestCase):
    def test_torch_sees_page_locked_memory(self):
        tensor = cuda.empty_pinned((3, 5), torch.float32)
        self.assertEqual(tensor.shape, (3, 5))
        self.assertTrue(tensor.is_pinned())
        self.assertEqual(homefree.owner_of(tensor.data_ptr()).kind, "pinned")

    def test_copies_that_do_not_wait_are_right(self):
        """A block is let go of while its copy is under way, behind work that takes a while."""
        stream = torch.cuda.Stream()
        busy = torch.randn(2048, 2048, device="cuda")
        targets = [torch.empty(1 << 20, dtype=torch.int64, device="cuda") for _ in range(50)]
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            for number, target in enumerate(targets):
                busy @ busy
                source = cuda.empty_pinned(1 << 20, torch.int64)
                source.fill_(number)
                target.copy_(source, non_blocking=True)
                if number % 2:
                    cuda.record_stream(source, stream)
                del source
        stream.synchronize()
        for number, target in enumerate(targets):
            self.assertTrue(bool((target == number).all()), number)

    def test_a_loaders_batches(self):
        data = torch.utils.data.TensorDataset(torch.arange(1000.0).reshape(100, 10))
        seen = 0
        for (batch,) in torch.utils.data.DataLoader(data, batch_size=7):
            pinned = cuda.pin_memory(batch)
            self.assertTrue(pinned.is_pinned())
            seen += pinned.to("cuda", non_blocking=True).sum().item()
        self.assertEqual(seen, sum(range(1000)))

    def test_the_cpu_and_the_device_agree(self):
        source = cuda.empty_pinned(1 << 20, torch.float32)
        torch.randn(1 << 20, out=source)
        there = source.to("cuda", non_blocking=True)
        torch.testing.assert_close((there * 3).cpu(), source * 3)


class Exchange(unittest.TestCase):
    def test_homefrees_arrays_are_torchs_tensors(self):
        array = cuda.empty((4, 6), "float32")
        tensor = torch.from_dlpack(array)
        tensor.fill_(5)
        self.assertEqual(tensor.data_ptr(), array.ptr)
        del array
        self.assertEqual(tensor.sum().item(), 120)

    def test_torchs_tensors_are_homefrees_arrays(self):
        tensor = torch.arange(12.0, device="cuda").reshape(3, 4)
        array = cuda.from_dlpack(tensor)
        self.assertEqual(array.shape, (3, 4))
        self.assertEqual(array.ptr, tensor.data_ptr())


if __name__ == "__main__":
    if not torch.cuda.is_available():
        print("skipped: no CUDA device for torch")
        sys.exit(77)
    unittest.main()
