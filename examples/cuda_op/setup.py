"""For torch where it is built for CUDA, and otherwise for DLPack and __cuda_array_interface__."""

import importlib.util
import os
import shutil

import homefree
from setuptools import setup
from setuptools.command.build_ext import build_ext

if importlib.util.find_spec("torch"):
    from torch.utils import cpp_extension
else:
    cpp_extension = None
nvcc = os.environ.get("CUDACXX") or shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
home = os.environ.get("CUDA_HOME") or os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))


class BuildCuda(build_ext):
    """Compiles the .cu files with nvcc, for all major architectures that it knows."""

    def build_extension(self, extension):
        for source in [name for name in extension.sources if name.endswith(".cu")]:
            extension.sources.remove(source)
            made = os.path.join(self.build_temp, source + ".o")
            self.mkpath(os.path.dirname(made))
            hidden = ["-Xcompiler", "-fPIC,-fvisibility=hidden"]
            self.spawn([nvcc, "-O2", "-arch=all-major", *hidden, "-c", source, "-o", made])
            extension.extra_objects.append(made)
        super().build_extension(extension)


if cpp_extension and cpp_extension.CUDA_HOME and cpp_extension.torch.version.cuda:
    modules = [
        cpp_extension.CUDAExtension(
            "cuda_op_torch", ["with_torch.cc", "combine.cu"], **homefree.torch_extension_args()
        )
    ]
    command = cpp_extension.BuildExtension
else:
    import pybind11
    from homefree.setuptools import Extension

    modules = [
        Extension(
            "cuda_op_plain",
            ["plain.cc", "combine.cu"],
            depends=["combine.h"],
            include_dirs=[pybind11.get_include(), os.path.join(home, "include")],
            library_dirs=[os.path.join(home, "lib64")],
            runtime_library_dirs=[os.path.join(home, "lib64")],
            libraries=["cudart"],
            extra_compile_args=["-std=c++17"],
        )
    ]
    command = BuildCuda

setup(ext_modules=modules, py_modules=["cuda_op"], cmdclass={"build_ext": command})
