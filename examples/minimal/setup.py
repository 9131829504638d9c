import pybind11
from homefree.setuptools import Extension
from setuptools import setup

setup(
    ext_modules=[Extension("greet", ["greet.cc"], include_dirs=[pybind11.get_include()])],
    py_modules=[],
)
