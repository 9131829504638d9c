"""3*x - y on a CUDA device: the modules that setup.py, CMake and homefree.extension make of the
same kernels, each checked against NumPy or torch.
"""

import importlib
import importlib.util
import os
import sys

import numpy

HERE = os.path.dirname(os.path.abspath(__file__))


def installed():
    """What setup.py made: ("plain" or "torch", the module)."""
    if importlib.util.find_spec("cuda_op_torch"):
        import torch  # noqa: F401, before the module, which needs its libraries

        return "torch", importlib.import_module("cuda_op_torch")
    return "plain", importlib.import_module("cuda_op_plain")


def built(directory="build"):
    """What CMake made."""
    sys.path.insert(0, os.path.abspath(directory))
    try:
        return "plain", importlib.import_module("cuda_op_cmake")
    finally:
        del sys.path[0]


def loaded():
    """Compiled now, or taken from the cache."""
    import pybind11
    from homefree.extension import load

    module = load(
        "cuda_op_loaded",
        ["plain.cc", "combine.cu"],
        extra_include_paths=[pybind11.get_include()],
        extra_cuda_cflags=["-arch=all-major"],
    )
    return "plain", module


def check_plain(module):
    """Against NumPy, in both types, and on a gradient."""
    for dtype in ("float32", "float64"):
        x, y = numpy.random.default_rng(1).standard_normal((2, 1000, 3)).astype(dtype)
        on_device = module.to_device(x), module.to_device(y)
        numpy.testing.assert_allclose(
            module.forward(*on_device).to_host(), 3 * x - y, rtol=1e-5, atol=1e-6
        )
        of_x, of_y = module.backward(on_device[0])
        numpy.testing.assert_allclose(of_x.to_host(), 3 * x, rtol=1e-6)
        numpy.testing.assert_array_equal(of_y.to_host(), -x)


def check_torch(module):
    """By gradcheck, and against torch on the CPU."""
    import torch

    class Combination(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.shapes = x.shape, y.shape
            return module.forward(x, y)

        @staticmethod
        def backward(ctx, gradient):
            gradients = module.backward(gradient)
            return tuple(g.sum_to_size(shape) for g, shape in zip(gradients, ctx.shapes))

    x = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    y = torch.randn(5, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(Combination.apply(x.cuda(), y.cuda()).cpu(), 3 * x - y)
    assert torch.autograd.gradcheck(
        Combination.apply, (x.detach().cuda().requires_grad_(), y.cuda())
    )


CHECKS = {"plain": check_plain, "torch": check_torch}


def devices():
    return loaded()[1].devices()


if __name__ == "__main__":
    for make in (installed, built, loaded):
        kind, module = make()
        if devices() == 0:
            print(f"{module.__name__}: built; skipped: no CUDA device")
            continue
        CHECKS[kind](module)
        print(f"{module.__name__}: right")
