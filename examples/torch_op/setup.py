import homefree
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

setup(
    ext_modules=[
        CppExtension("torch_op_kernels", ["kernels.cc"], **homefree.torch_extension_args())
    ],
    py_modules=["torch_op"],
    cmdclass={"build_ext": BuildExtension},
)
