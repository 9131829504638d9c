"""What a module imports, read from its source without running it. Nothing here keeps state.

Found are import statements anywhere in the source, and calls of __import__() and import_module()
with a name that stands there. Not found are names that are computed. Left out is what stands below
`if TYPE_CHECKING`; what a handler of ImportError goes without is optional."""

import ast

_HANDLED = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}


class Import:
    """module: what is needed. names: what is taken from it, which may be modules below it.
    optional: whether the module works without."""

    __slots__ = ("module", "names", "optional")

    def __init__(self, module, names=(), optional=False):
        self.module, self.names, self.optional = module, names, optional


def _last(node):
    """`b` of `a.b`, and `b` of `b`."""
    return getattr(node, "attr", None) or getattr(node, "id", None)


def _catches(handler):
    kinds = handler.type
    if kinds is None:
        return True
    kinds = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
    return any(_last(kind) in _HANDLED for kind in kinds)


class _Finder:
    def __init__(self, package):
        self._package = package
        self.found = []

    def _base(self, level, module):
        """The full name of what a relative import names, or None if that lies outside."""
        if not level:
            return module
        parts = self._package.split(".") if self._package else []
        if level > len(parts):
            return None
        parts = parts[: len(parts) - level + 1]
        return ".".join([*parts, *([module] if module else [])])

    def _add(self, module, names, optional):
        if module:
            self.found.append(Import(module, tuple(names), optional))

    def visit(self, root):
        # Without recursion: a source may nest deeper than Python may call.
        waiting = [(root, False)]
        while waiting:
            node, optional = waiting.pop()
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self._add(alias.name, (), optional)
            elif isinstance(node, ast.ImportFrom):
                names = [alias.name for alias in node.names if alias.name != "*"]
                self._add(self._base(node.level, node.module), names, optional)
            elif isinstance(node, ast.Call):
                self._call(node, optional)
            if isinstance(node, ast.If) and _last(node.test) == "TYPE_CHECKING":
                waiting += [(child, optional) for child in node.orelse]
                continue
            if isinstance(node, ast.Try) and any(map(_catches, node.handlers)):
                waiting += [(child, True) for child in node.body]
                others = [*node.handlers, *node.orelse, *node.finalbody]
                waiting += [(child, optional) for child in others]
                continue
            waiting += [(child, optional) for child in ast.iter_child_nodes(node)]

    def _call(self, node, optional):
        if _last(node.func) not in ("__import__", "import_module") or not node.args:
            return
        name = node.args[0]
        if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
            return
        dots = len(name.value) - len(name.value.lstrip("."))
        self._add(self._base(dots, name.value[dots:]), (), optional)


def imports(source, package):
    """A list of Import. package: the name of the package that relative imports start from. Raises
    SyntaxError, or ValueError."""
    finder = _Finder(package)
    finder.visit(ast.parse(source))
    return finder.found
