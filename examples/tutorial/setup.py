from setuptools import Extension, setup

setup(name="words", version="1.0", ext_modules=[Extension("words", ["words.c"])], py_modules=[])
