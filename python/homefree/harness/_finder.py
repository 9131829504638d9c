# SPDX-License-Identifier: BSD-2-Clause
"""Importing in hosts: homefree, and the tested module, also from a file and in any interpreter."""

import importlib
import importlib.util
import sys


class _FileFinder:
    """Finds one module in one file."""

    def __init__(self, module, path):
        self.module, self.path = module, path

    def find_spec(self, name, path=None, target=None):
        if name != self.module:
            return None
        return importlib.util.spec_from_file_location(name, self.path)


def find_file(module, path):
    """Makes `import module` load a file; nothing if the path is None."""
    if path is not None:
        sys.meta_path.insert(0, _FileFinder(module, path))


def load_homefree(install=True):
    """Loads homefree into this process, as a user of it does."""
    homefree = importlib.import_module("homefree")
    if install:
        homefree.install()
