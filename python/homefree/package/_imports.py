# SPDX-License-Identifier: BSD-2-Clause
"""What a module imports, and the files of modules, both found without running anything: imports are
read from the source, and modules found by the finders on sys.meta_path, with the directories that
each parent tells. Nothing here keeps state.

Found are import statements anywhere in the source, and calls of __import__() and import_module()
with a name that stands there. Not found are names that are computed. Left out is what stands below
`if TYPE_CHECKING`; what a handler of ImportError goes without is optional."""

import ast
import os
import pkgutil
import sys

_HANDLED = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}


def _last(node):
    """`b` of `a.b`, and `b` of `b`."""
    return getattr(node, "attr", None) or getattr(node, "id", None)


def _catches(handler):
    kinds = getattr(handler.type, "elts", [handler.type])
    return handler.type is None or any(_last(kind) in _HANDLED for kind in kinds)


def _named(node):
    """What a node imports: [(dots in front, module or None, names that are taken from it)]."""
    if isinstance(node, ast.Import):
        return [(0, alias.name, []) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        names = [alias.name for alias in node.names if alias.name != "*"]
        return [(node.level, node.module, names)]
    if isinstance(node, ast.Call) and _last(node.func) in ("__import__", "import_module"):
        name = getattr(node.args[0], "value", None) if node.args else None
        if isinstance(name, str):
            module = name.lstrip(".")
            return [(len(name) - len(module), module, [])]
    return []


def imports(source, package):
    """A list of (module, names, optional): what is needed, what is taken from it, which may be
    modules below it, and whether the source works without. package: the name of the package that
    relative imports start from. Raises SyntaxError, or ValueError."""
    found = []
    above = package.split(".") if package else []
    # Without recursion: a source may nest deeper than Python may call.
    waiting = [(ast.parse(source), False)]
    while waiting:
        node, optional = waiting.pop()
        for level, module, names in _named(node):
            if level <= len(above):
                base = above[: len(above) - level + 1] if level else []
                module = ".".join([*base, *([module] if module else [])])
                if module:
                    found.append((module, names, optional))
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.If) and _last(node.test) == "TYPE_CHECKING":
            children = node.orelse
        tried = []
        if isinstance(node, ast.Try) and any(map(_catches, node.handlers)):
            tried = node.body
        waiting += [(child, optional or child in tried) for child in children]
    return found


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
    finders = (one for one in sys.meta_path if hasattr(one, "find_spec"))
    return next(filter(None, (one.find_spec(name, path) for one in finders)), None)


def source_of(name, spec):
    """A module's source; None if there is none, it is gone, or in no encoding that it tells."""
    try:
        return spec.loader.get_source(name)
    except (AttributeError, ImportError, OSError, SyntaxError):
        return None


def below(directories, name):
    """The full names of the modules directly in a package's directories, sorted."""
    found = {one.name for one in pkgutil.iter_modules(directories)}
    for directory in filter(os.path.isdir, directories):
        with os.scandir(directory) as entries:
            # A directory with Python files in it is a package, one with other files is not.
            inner = [one for one in entries if one.is_dir() and one.name.isidentifier()]
        found |= {one.name for one in inner if any(pkgutil.iter_modules([one.path]))}
    return sorted(f"{name}.{one}" for one in found if one.isidentifier())
