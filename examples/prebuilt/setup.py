from pathlib import Path

from homefree import extension
from setuptools import Distribution, setup
from setuptools.command.build_py import build_py


class BuildPy(build_py):
    """Puts the compiled module beside the Python files."""

    def run(self):
        super().run()
        extension.build("words._words", ["words/words.c"], Path(self.build_lib, "words"))


class Binary(Distribution):
    """Its wheel is for one Python and one machine."""

    def has_ext_modules(self):
        return True


setup(
    name="words",
    version="1.0",
    packages=["words"],
    install_requires=["homefree"],
    cmdclass={"build_py": BuildPy},
    distclass=Binary,
)
