"""The same source, compiled by setup.py and compiled now; both checked by gradcheck."""

import torch  # before the kernels: they need its libraries
import torch_op_kernels as installed
from homefree.extension import load
from torch.autograd import gradcheck
from torch_op import Combine

loaded = load("torch_op_loaded", ["kernels.cc"], torch=True)

if __name__ == "__main__":
    x = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    y = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    for kernels in (installed, loaded):
        print(kernels.__name__, "gradcheck:", gradcheck(Combine(kernels), (x, y)))
