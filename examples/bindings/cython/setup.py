import numpy
from Cython.Build import cythonize
from homefree.setuptools import Extension
from setuptools import setup

module = Extension(
    "words_cython",
    ["words_cython.pyx", "library/words.cc"],
    include_dirs=[numpy.get_include()],
    extra_compile_args=["-std=c++20"],
    define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
    language="c++",
)

setup(
    name="words-cython",
    version="1.0",
    install_requires=["homefree", "numpy"],
    ext_modules=cythonize([module], language_level=3),
    py_modules=[],
)
