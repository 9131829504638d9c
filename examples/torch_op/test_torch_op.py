"""The operator is right, torch lets go of its results, and it frees what libtorch made for it."""

import threading

import both
import pytest
import torch
from homefree import check
from torch_op import Combine


@pytest.fixture(params=[both.installed, both.loaded], ids=["setup.py", "load"])
def kernels(request):
    return request.param


def inputs(dtype=torch.float64, **options):
    return torch.randn(3, 7, dtype=dtype, **options), torch.randn(3, 7, dtype=dtype, **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_forward_is_three_x_minus_y(kernels, dtype):
    x, y = inputs(dtype)
    assert torch.allclose(Combine(kernels)(x, y), 3 * x - y)


def test_gradcheck_in_float64(kernels):
    x, _ = inputs(requires_grad=True)
    y = torch.randn(7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(Combine(kernels), (x, y))


def test_strided_inputs(kernels):
    x, y = inputs()
    assert torch.allclose(Combine(kernels)(x[:, ::2], y[:, ::2]), (3 * x - y)[:, ::2])


def test_the_result_is_the_heaps_and_torch_frees_it_once(kernels):
    result = Combine(kernels)(*inputs())
    check.assert_owner(result.data_ptr(), "heap")
    with check.assert_freed_once(result.data_ptr()):
        del result


def test_a_gradient_is_freed_once_by_another_thread(kernels):
    x, y = inputs(requires_grad=True)
    Combine(kernels)(x, y).sum().backward()
    held = [x.grad]
    with check.assert_freed_once(x.grad.data_ptr()):
        del x
        thread = threading.Thread(target=held.clear)
        thread.start()
        thread.join()


def test_a_vector_that_libtorch_had_from_libc_is_freed_by_the_module(kernels):
    x, y = inputs()
    with check.watch() as seen:
        kernels.forward(x, y)
    assert seen.crossed(allocated_by="libc.so", freed_by=kernels.__name__) > 0


def test_inputs_are_broadcast(kernels):
    x, y = torch.randn(3, 1, dtype=torch.float64), torch.randn(7, dtype=torch.float64)
    assert torch.allclose(Combine(kernels)(x, y), 3 * x - y)


def test_shapes_that_do_not_fit_are_an_error(kernels):
    with pytest.raises(RuntimeError, match="must match"):
        kernels.forward(torch.zeros(2), torch.zeros(3))


def test_inputs_of_two_types_are_an_error(kernels):
    with pytest.raises(ValueError, match="one type"):
        kernels.forward(torch.zeros(2), torch.zeros(2, dtype=torch.float64))


def test_inputs_of_another_type_are_an_error(kernels):
    x, y = inputs(torch.complex128)
    with pytest.raises(ValueError, match="not CPUComplexDoubleType"):
        kernels.forward(x, y)
