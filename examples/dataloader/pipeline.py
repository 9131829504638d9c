"""A DataLoader whose samples a module makes in workers; a thread of the parent consumes them."""

import queue
import threading
from pathlib import Path

from homefree.extension import load
from torch.utils.data import DataLoader, Dataset
from torch.utils.dlpack import from_dlpack, to_dlpack

# Compiled once; a spawned worker imports this file and finds the module in the cache.
samples = load("samples", [Path(__file__).with_name("samples.c")])


class Samples(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return from_dlpack(samples.sample(index, 1000))


def loader(**options):
    return DataLoader(Samples(), batch_size=8, **options)


def sums(batches):
    """The sum of each batch; a thread takes the batches over and frees them."""
    waiting, results = queue.Queue(), []

    def consumer():
        for batch in iter(waiting.get, None):
            capsule = to_dlpack(batch)
            del batch
            results.append(samples.consume(capsule))

    thread = threading.Thread(target=consumer)
    thread.start()
    for batch in batches:
        waiting.put(batch)
        del batch
    waiting.put(None)
    thread.join()
    return results


if __name__ == "__main__":
    print(sums(loader(num_workers=2, multiprocessing_context="spawn")))
