# SPDX-License-Identifier: BSD-2-Clause
"""Setting up a NumPy that is imported after install(), as soon as its core has been executed.

Runs under the import lock of NumPy's core. Threads: any.

State: what else is to be called then, in this interpreter.
"""

import sys

from . import _homefree

after = []  # called with NumPy's core; homefree.interpreters.prepare() adds to it


class _Loader:
    """Wraps the core's own loader, and calls install() again after it."""

    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        spec = module.__spec__
        spec.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        # "off": install() has set up CPython already.
        _homefree.install("off", True)
        for call in after:
            call(module)


def spec(finder, name, path, target):
    """The spec that the other finders find, with our loader; None if they find none."""
    for other in list(sys.meta_path):
        find = getattr(other, "find_spec", None)
        if other is finder or find is None:
            continue
        found = find(name, path, target)
        if found is not None:
            if hasattr(found.loader, "exec_module"):
                found.loader = _Loader(found.loader)
            finder.remove()
            return found
    return None
