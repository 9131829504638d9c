# SPDX-License-Identifier: BSD-2-Clause
"""What the names that import_hook() is limited to stand for: a module, a package with its modules,
or a distribution, whose extension modules may have other names (polars: _polars_runtime_32).

Nothing here keeps state. Threads: any.
"""

import importlib.util
import re
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader

__all__ = ["covers", "meaning", "near"]


def covers(modules, name):
    """Whether a module is one of these, or in a package that is."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name != ""


def _key(name):
    """A distribution's name as all its spellings have it."""
    return re.sub("[-_.]+", "-", name).lower()


def _of_distribution(name):
    """The extension modules of a distribution, and of those that it needs and that are called after
    it (polars-runtime-32, chdb-core). None if there is no such distribution."""
    from importlib import metadata

    key = _key(name)
    try:
        found = metadata.distribution(key) if key else None
    except metadata.PackageNotFoundError:
        found = None
    if found is None:
        return None
    modules = set()
    for file in map(str, found.files or ()):
        suffix = next(filter(file.endswith, EXTENSION_SUFFIXES), None)
        if suffix is not None:
            modules.add(file[: -len(suffix)].replace("/", "."))
    for line in found.requires or ():
        needed, _, condition = line.partition(";")
        needed = re.match(r"[\w.-]*", needed).group()
        if "extra" not in condition and _key(needed).startswith(key + "-"):
            modules |= _of_distribution(needed) or set()
    return modules


def _is_module(name):
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def near(name):
    """The end of a message about a name: what is called nearly so."""
    import difflib
    import pkgutil
    from importlib import metadata

    known = {module.name for module in pkgutil.iter_modules()}
    known |= {found.metadata["Name"] or "" for found in metadata.distributions()}
    known |= {
        loaded
        for loaded, module in sys.modules.items()
        if isinstance(getattr(getattr(module, "__spec__", None), "loader", 0), ExtensionFileLoader)
    }
    known.discard(name)
    found = difflib.get_close_matches(name, known, 3)
    found += sorted(one for one in known if name in one and one not in found)[:3]
    return f"; names near it: {', '.join(found)}" if found else ""


def meaning(names):
    """The modules that each name stands for: {name: modules}."""
    meant = {}
    for name in names:
        modules = _of_distribution(name)
        if modules is None and not _is_module(name.partition(".")[0]):
            raise ModuleNotFoundError(
                f"homefree's import hook: no module, package or distribution is called {name!r}"
                + near(name),
                name=name,
            )
        meant[name] = frozenset({name} | (modules or set()))
    return meant
