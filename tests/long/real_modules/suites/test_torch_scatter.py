"""Every operation against torch's own, with gradients, on threads, and tensors that outlive all."""

import gc
import threading

import pytest
import torch
import torch_scatter

KINDS = ("sum", "mul", "mean", "min", "max")


@pytest.fixture
def data():
    torch.manual_seed(1)
    return torch.rand(1000, 16, dtype=torch.double), torch.randint(0, 50, (1000,)).sort().values


@pytest.mark.parametrize("kind", KINDS)
def test_scatter(data, kind):
    source, index = data
    wanted = {"sum": "sum", "mul": "prod", "mean": "mean", "min": "amin", "max": "amax"}[kind]
    mine = torch_scatter.scatter(source, index, dim=0, dim_size=50, reduce=kind)
    expanded = index.unsqueeze(1).expand_as(source)
    theirs = torch.zeros(50, 16, dtype=torch.double).scatter_reduce(
        0, expanded, source, wanted, include_self=False
    )
    assert torch.allclose(mine, theirs)


@pytest.mark.parametrize("kind", ["sum", "mean", "min", "max"])
def test_segments(data, kind):
    source, index = data
    pointers = torch.cat([torch.zeros(1).long(), torch.bincount(index, minlength=50).cumsum(0)])
    by_index = torch_scatter.segment_coo(source, index, dim_size=50, reduce=kind)
    by_pointer = torch_scatter.segment_csr(source, pointers, reduce=kind)
    by_scatter = torch_scatter.scatter(source, index, dim=0, dim_size=50, reduce=kind)
    assert torch.allclose(by_index, by_scatter)
    assert torch.allclose(by_pointer, by_scatter)


def test_gather(data):
    source, index = data
    rows = torch.rand(50, 16, dtype=torch.double)
    assert torch.equal(torch_scatter.gather_coo(rows, index), rows[index])


@pytest.mark.parametrize("kind", ["sum", "mean", "min", "max"])
def test_gradients(kind):
    source = torch.rand(20, 3, dtype=torch.double, requires_grad=True)
    index = torch.randint(0, 5, (20,))
    assert torch.autograd.gradcheck(
        lambda tensor: torch_scatter.scatter(tensor, index, dim=0, dim_size=5, reduce=kind), source
    )


def test_softmax(data):
    source, index = data
    result = torch_scatter.scatter_softmax(source, index, dim=0)
    sums = torch_scatter.scatter(result, index, dim=0, dim_size=50)
    assert torch.allclose(sums[torch.bincount(index, minlength=50) > 0], torch.ones(1).double())


def test_a_wrong_index_is_an_error(data):
    with pytest.raises(RuntimeError):
        torch_scatter.segment_coo(data[0], torch.zeros(3, 3, 3).long())


def test_results_outlive_their_thread(data):
    results = []

    def work():
        for _ in range(20):
            results.append(torch_scatter.scatter(*data, dim=0, reduce="max"))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert all(torch.equal(result, results[0]) for result in results)


def test_arrays_of_results_outlive_them(data):
    array = torch_scatter.scatter(*data, dim=0).numpy()
    gc.collect()
    assert array.sum() == pytest.approx(data[0].sum().item())
