from homefree.setuptools import Extension
from setuptools import setup

setup(packages=["way"], ext_modules=[Extension("way.greet", ["way/greet.c"])])
