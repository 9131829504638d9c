import pybind11
from homefree.setuptools import Extension
from setuptools import setup

setup(
    ext_modules=[
        Extension(
            "tensors",
            ["tensors.cc", "allocator.cc"],
            depends=["allocator.h"],
            include_dirs=[pybind11.get_include()],
            extra_compile_args=["-std=c++17"],
        )
    ],
    py_modules=[],
)
