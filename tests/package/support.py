"""For the tests of homefree.package: modules to package, in a directory that is on sys.path, and
what must be in every exception."""

import contextlib
import pathlib
import shutil
import sys
import tempfile
import textwrap
import unittest

from homefree import package

MODEL = """
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import layers
from .layers import Layer

if TYPE_CHECKING:
    import nothing_of_this_name


@dataclass
class Config:
    width: int
    name: str = "small"


class Model:
    class Part:
        def __init__(self, value):
            self.value = value

    def __init__(self, config, layers):
        self.config, self.layers = config, layers
        self.part = Model.Part(7)

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return math.floor(x)


def make():
    return Model(Config(3), [Layer(2), Layer(5)])
"""

LAYERS = """
SCALE = 10
class Layer:
    def __init__(self, factor):
        self.factor = factor
    def __call__(self, x):
        return x * self.factor * SCALE
"""


class TestCase(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="homefree-test-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.sources = self.directory / "sources"
        self.sources.mkdir()
        self.path = self.directory / "model.hfp"
        sys.path.insert(0, str(self.sources))
        self.addCleanup(sys.path.remove, str(self.sources))
        self.before = set(sys.modules)
        self.addCleanup(self.forget)
        self.addCleanup(sys.meta_path.__setitem__, slice(None), list(sys.meta_path))

    def forget(self):
        """Forget what the test imported from its directories."""
        for name in set(sys.modules) - self.before:
            file = getattr(sys.modules[name], "__file__", None) or ""
            directories = [str(one) for one in getattr(sys.modules[name], "__path__", ())]
            if name.startswith("<package ") or any(
                one.startswith(str(self.directory)) for one in (file, *directories)
            ):
                del sys.modules[name]
        sys.path_importer_cache.clear()

    def source(self, name, text=""):
        """A module that can be imported; a name with a slash at the end is a package."""
        path = self.sources / (name + "__init__.py" if name.endswith("/") else name + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        sys.path_importer_cache.clear()

    def app(self):
        """The package `app`, with a model."""
        self.source("app/")
        self.source("app/model", MODEL)
        self.source("app/layers", LAYERS)
        import app.model

        return app.model

    def writer(self, **options):
        return package.Writer(self.path, **options)

    def reader(self, **options):
        reader = package.Reader(self.path, **options)
        self.addCleanup(reader.close)
        return reader

    @contextlib.contextmanager
    def refused(self, kind, *texts):
        """The block raises exactly this kind, whose text names the package, has these texts, and
        ends with a remedy."""
        with self.assertRaises(kind) as caught:
            yield caught
        error = caught.exception
        self.assertIs(type(error), kind, error)
        text = str(error)
        self.assertTrue(text.startswith("homefree: "), text)
        for one in (*texts, "; "):
            self.assertIn(one, text)
        self.assertTrue(text.isprintable() or "\n  " in text, ascii(text))

    @contextlib.contextmanager
    def unwritten(self, kind, *texts):
        """A writer whose with statement is refused so."""
        with self.refused(kind, *texts), self.writer() as writer:
            yield writer

    def nothing_but(self, *names):
        """The test's directory holds these files: nothing that was begun is left."""
        found = sorted(one.name for one in self.directory.iterdir() if one.name != "sources")
        self.assertEqual(found, sorted(names))


def main():
    unittest.main(verbosity=0)
