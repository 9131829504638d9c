"""Finding the files of modules through the import system, without importing what is found: the
finders on sys.meta_path are asked, with the folders that each parent tells. Nothing here keeps
state."""

import importlib.machinery
import os
import sys


class Found:
    """kind: "source", "extension", "namespace" (a package without a file), or "other". text: of a
    source. file: of an extension module. folders: of a package, else None."""

    __slots__ = ("file", "folders", "kind", "text")

    def __init__(self, kind, folders, text=None, file=None):
        self.kind, self.folders, self.text, self.file = kind, folders, text, file


def find_spec(name):
    """The spec of a module, imported or not, or None."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    if spec is not None:
        return spec
    parent = name.rpartition(".")[0]
    path = None
    if parent:
        above = find_spec(parent)
        path = above and above.submodule_search_locations
        if path is None:
            return None
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = find(name, path) if find is not None else None
        if spec is not None:
            return spec
    return None


def find(name):
    """A Found, or None if there is no such module."""
    spec = find_spec(name)
    if spec is None:
        return None
    folders = spec.submodule_search_locations
    if isinstance(spec.loader, importlib.machinery.ExtensionFileLoader):
        return Found("extension", None, file=spec.origin)
    if folders is not None and (spec.loader is None or spec.origin is None):
        return Found("namespace", list(folders))
    get_source = getattr(spec.loader, "get_source", None)
    try:
        text = get_source(name) if get_source is not None else None
    except (ImportError, OSError, SyntaxError):  # it is gone, or in no encoding that it tells
        text = None
    if text is None:
        return Found("other", None)
    return Found("source", None if folders is None else list(folders), text=text)


def below(folders, name):
    """The full names of the modules directly in a package's folders, sorted."""
    ends = importlib.machinery.SOURCE_SUFFIXES + importlib.machinery.EXTENSION_SUFFIXES
    found = set()
    for folder in folders:
        if not os.path.isdir(folder):
            continue
        for entry in _entries(folder):
            if entry.is_dir():
                # A folder with Python files in it is a package, one with other files is not.
                if entry.name.isidentifier() and _has_modules(entry.path, ends):
                    found.add(f"{name}.{entry.name}")
                continue
            for end in ends:
                base = entry.name[: -len(end)]
                if entry.name.endswith(end) and base.isidentifier() and base != "__init__":
                    found.add(f"{name}.{base}")
    return sorted(found)


def _has_modules(folder, ends):
    return any(entry.name.endswith(tuple(ends)) for entry in _entries(folder))


def _entries(folder):
    with os.scandir(folder) as entries:
        return list(entries)
