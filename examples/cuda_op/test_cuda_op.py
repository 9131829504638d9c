"""The operator is right on a device, and its memory goes home; without one, it says so."""

import importlib.util

import cuda_op
import numpy
import pytest
from homefree import check

MAKERS = {"setup.py": cuda_op.installed, "cmake": cuda_op.built, "load": cuda_op.loaded}
needs_device = pytest.mark.skipif(cuda_op.devices() == 0, reason="skipped: no CUDA device")


@pytest.fixture(params=MAKERS)
def made(request):
    return MAKERS[request.param]()


@pytest.fixture(params=["cmake", "load"])
def plain(request):
    return MAKERS[request.param]()[1]


@needs_device
def test_forward_and_backward_are_right(made):
    kind, module = made
    cuda_op.CHECKS[kind](module)


@needs_device
def test_the_result_lies_in_homefrees_memory_of_the_device(plain):
    x = plain.to_device(numpy.ones((3, 5), "float32"))
    result = plain.forward(x, x)
    check.assert_owner(result.__cuda_array_interface__["data"][0], "device")


@needs_device
def test_a_strided_array_is_an_error(plain):
    class Strided:
        __cuda_array_interface__ = {
            "shape": (2,),
            "typestr": "<f4",
            "data": (0, False),
            "strides": (8,),
            "version": 3,
        }

    with pytest.raises(ValueError, match="not strided"):
        plain.forward(Strided(), Strided())


@needs_device
def test_shapes_that_differ_are_an_error(plain):
    x, y = plain.to_device(numpy.ones(2)), plain.to_device(numpy.ones(3))
    with pytest.raises(ValueError, match="one shape"):
        plain.forward(x, y)


@needs_device
@pytest.mark.skipif(not importlib.util.find_spec("cupy"), reason="CuPy is not installed")
def test_cupy_arrays_go_in_and_come_out(plain):
    import cupy

    x, y = cupy.random.rand(100), cupy.random.rand(100)
    assert cupy.allclose(cupy.from_dlpack(plain.forward(x, y)), 3 * x - y)


def test_an_array_of_the_hosts_is_an_error(plain):
    with pytest.raises(ValueError, match="not in the host's"):
        plain.forward(numpy.ones(2), numpy.ones(2))


def test_what_is_no_array_is_an_error(plain):
    with pytest.raises(TypeError, match="__dlpack__"):
        plain.forward([1.0], [2.0])


@pytest.mark.skipif(cuda_op.devices() != 0, reason="there is a CUDA device")
def test_without_a_device_the_error_says_why(plain):
    with pytest.raises(RuntimeError, match=".{10,}"):
        plain.to_device(numpy.ones(2))
