"""Samples are freed once: in the worker that made them, or in the thread that consumed them."""

import homefree
import pipeline
import pytest
import torch
from homefree import check
from torch.utils.data import default_collate
from torch.utils.dlpack import to_dlpack

EXPECTED = [1000.0 * sum(range(first, first + 8)) for first in range(0, 64, 8)]
SPAWN = {"num_workers": 2, "multiprocessing_context": "spawn"}


def collate_and_tell(items):
    """Runs in a worker: the batch, who owns the samples' memory, and how much of it is alive."""
    owners = {homefree.owner_of(item.data_ptr()).kind for item in items}
    return default_collate(items), owners, homefree.stats()["releases_live"]


def test_spawned_workers_make_what_a_thread_of_the_parent_consumes():
    assert pipeline.sums(pipeline.loader(**SPAWN)) == EXPECTED


def test_in_the_worker_samples_are_the_heaps_and_freed_when_the_batch_is_made():
    for _, owners, alive in pipeline.loader(collate_fn=collate_and_tell, **SPAWN):
        assert owners == {"heap"}
        assert alive == 8


def test_the_parents_mapping_of_a_batch_goes_when_the_module_lets_go():
    batches = iter(pipeline.loader(**SPAWN))
    batch = next(batches)
    address = batch.data_ptr()
    assert homefree.owner_of(address).kind == "unknown"
    capsule = to_dlpack(batch)
    del batch
    pipeline.samples.consume(capsule)
    assert homefree.owner_of(address).kind == "unmapped"


def test_within_a_process_the_consumer_thread_frees_what_another_thread_made():
    sample = pipeline.Samples()[3]
    check.assert_owner(sample.data_ptr(), "heap")
    batches = [sample]
    with check.assert_freed_once(sample.data_ptr()):
        del sample
        assert pipeline.sums(batches.pop() for _ in range(1)) == [3000.0]


@pytest.mark.parametrize(
    "tensor",
    [torch.ones(2, dtype=torch.int64), torch.ones(1).expand(1 << 40), torch.ones(4, 4).T],
    ids=["integers", "expanded", "transposed"],
)
def test_a_tensor_that_is_not_row_major_float32_is_an_error(tensor):
    with pytest.raises(TypeError, match="row-major float32"):
        pipeline.samples.consume(to_dlpack(tensor))


def test_what_is_no_capsule_is_an_error():
    with pytest.raises(TypeError, match="not a capsule"):
        pipeline.samples.consume(5)
