# SPDX-License-Identifier: BSD-2-Clause
"""Names of a package that are imported when they are first used.

State: none of its own; what was imported is put into the package. Threads: any.
"""

__all__ = ["attributes"]


def attributes(package, table, namespace):
    """The `__getattr__` and `__dir__` of a package. table: modules, relative to the package, and
    the names that each has, in one text. namespace: the package's globals()."""

    def get(name):
        module = next((one for one, names in table.items() if name in names.split()), None)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        import importlib

        value = getattr(importlib.import_module("." + module, package), name)
        namespace[name] = value
        return value

    def names():
        return sorted({*namespace, *" ".join(table.values()).split()})

    return get, names
