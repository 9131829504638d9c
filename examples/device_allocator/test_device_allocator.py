"""A tensor's memory goes back to its allocator once, from whoever lets go last."""

import subprocess
import sys
import threading

import homefree
import numpy
import pytest
import tensors
from homefree import check

torch = pytest.importorskip("torch")


@pytest.fixture
def host():
    return tensors.Allocator("host")


def test_the_memory_is_the_heaps_and_shared_without_a_copy(host):
    tensor = tensors.Tensor([2, 3], host)
    array = numpy.from_dlpack(tensor)
    view = torch.from_dlpack(tensor)
    view += 1
    assert array.tolist() == [[1, 1, 1], [1, 1, 1]]
    check.assert_owner(view.data_ptr(), "heap")


@pytest.mark.parametrize("last", ["tensor", "array", "view"])
def test_whoever_lets_go_last_frees_once(host, last):
    holders = {"tensor": tensors.Tensor([1000], host)}
    holders["array"] = numpy.from_dlpack(holders["tensor"])
    holders["view"] = torch.from_dlpack(holders["tensor"])[10:]
    for name in sorted(holders, key=last.__eq__):
        assert (host.live, host.returned) == (1, 0)
        del holders[name]
    assert (host.live, host.returned) == (0, 1)


def test_the_block_is_freed_once(host):
    array = numpy.from_dlpack(tensors.Tensor([1000], host))
    with check.assert_freed_once(array.ctypes.data):
        del array


def test_the_allocator_lives_as_long_as_its_tensors():
    array = numpy.from_dlpack(tensors.Tensor([4], tensors.Allocator("host")))
    address = array.ctypes.data
    check.assert_owner(address, "heap")
    del array
    assert homefree.owner_of(address).block is None


def test_another_thread_lets_go_last(host):
    views = [torch.from_dlpack(tensors.Tensor([1000], host))]
    thread = threading.Thread(target=views.clear)
    thread.start()
    thread.join()
    assert (host.live, host.returned) == (0, 1)


def test_a_capsule_that_nobody_takes_gives_the_memory_back(host):
    tensors.Tensor([3], host).__dlpack__()
    assert (host.live, host.returned) == (0, 1)


@pytest.mark.parametrize("consumer", ["numpy", "torch"])
def test_at_interpreter_exit_the_memory_goes_back_once(consumer):
    program = f"""
import {consumer}, tensors
kept = {consumer}.from_dlpack(tensors.Tensor([100], tensors.Allocator("host", trace=True)))
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert ended.stderr == "host: 400 bytes back\n"


def allocator_or_skip(space, **options):
    try:
        return tensors.Allocator(space, **options)
    except RuntimeError as error:
        pytest.skip(f"skipped: no CUDA device ({error})")


def test_a_space_that_this_machine_lacks_is_an_error():
    for space in ("pinned", "device"):
        try:
            assert tensors.Allocator(space).live == 0
        except RuntimeError as error:
            assert f"no '{space}' memory here; use 'host'" in str(error)


def test_page_locked_memory_is_shared_with_numpy():
    pinned = allocator_or_skip("pinned")
    array = numpy.from_dlpack(tensors.Tensor([2, 3], pinned))
    assert array.tolist() == [[0, 0, 0], [0, 0, 0]]
    check.assert_owner(array.ctypes.data, "pinned")
    assert (pinned.live, pinned.returned) == (1, 0)
    del array
    assert (pinned.live, pinned.returned) == (0, 1)


def test_a_devices_memory_says_where_it_lies():
    device = allocator_or_skip("device")
    tensor = tensors.Tensor([1000], device)
    assert tensor.__dlpack_device__() == (2, 0)
    capsule = tensor.__dlpack__(stream=2)
    del tensor
    assert (device.live, device.returned) == (1, 0)
    del capsule
    assert (device.live, device.returned) == (0, 1)


def test_torch_computes_with_a_devices_memory():
    if not torch.cuda.is_available():
        pytest.skip("skipped: no CUDA device for torch")
    device = tensors.Allocator("device")
    with torch.cuda.stream(torch.cuda.Stream()):
        view = torch.from_dlpack(tensors.Tensor([1000], device))
        view.fill_(3)
        assert view.sum().item() == 3000
    check.assert_owner(view.data_ptr(), "device")
    del view
    assert (device.live, device.returned) == (0, 1)


def test_another_word_is_an_error():
    with pytest.raises(ValueError, match="'host', 'pinned' or 'device'"):
        tensors.Allocator("disk")


@pytest.mark.parametrize("shape", [[0], [-1], [2**62, 2**62]])
def test_a_shape_that_cannot_be_is_an_error(host, shape):
    with pytest.raises(ValueError, match="shape"):
        tensors.Tensor(shape, host)
    assert host.live == 0


def test_more_than_there_is_is_a_memory_error(host):
    with pytest.raises(MemoryError):
        tensors.Tensor([2**60], host)
    assert host.live == 0
