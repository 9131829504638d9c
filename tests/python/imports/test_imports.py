"""Modules of the package import one way only: a circle means that none of its modules can be read,
tested or moved without the others, and that importing works in one order and fails in another.

Reads the package's files, not the running interpreter, so that imports inside functions count as
well, and what a package's _LAZY table imports when it is first asked for.

usage: test_imports.py PACKAGE-DIRECTORY [unittest's arguments]
"""

import ast
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from circles import circles  # noqa: E402

DIRECTORY = pathlib.Path()


def modules_of(directory):
    """{full name: file} of the modules in a package's directory. The file is None for compiled
    modules, which only have a stub, and for generated ones, which only have a template."""
    found = {}
    for path in [*directory.rglob("*.pyi"), *directory.rglob("*.py.in"), *directory.rglob("*.py")]:
        parts = [
            directory.name,
            *path.parent.relative_to(directory).parts,
            path.name.partition(".")[0],
        ]
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = path if path.suffix == ".py" else None
    return found


def ancestors(name):
    """The packages that contain a module, the outermost first."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def lazy(tree):
    """The modules in a table `_LAZY = {module: names}` of a package, relative to it."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(one) for one in node.targets] == ["_LAZY"]:
            return set(ast.literal_eval(node.value))
    return set()


class _Executed(ast.NodeTransformer):
    """Leaves out what only type checkers read."""

    def visit_If(self, node):
        self.generic_visit(node)
        return node.orelse if ast.unparse(node.test) == "TYPE_CHECKING" else node


def imports(name, file, modules):
    """The modules of the package whose code or names a module needs, wherever it imports them.
    Importing `a.b.c` executes `a` and `a.b` first. Packages that contain the importing module
    are being executed already; they count only if one of their names is imported."""
    tree = _Executed().visit(ast.parse(file.read_text(encoding="utf-8")))
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    found = {f"{package}.{module}" for module in lazy(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            outer = package.split(".")
            outer = outer[: len(outer) - node.level + 1] if node.level else []
            base = ".".join([*outer, *([node.module] if node.module else [])])
            for alias in node.names:
                full = f"{base}.{alias.name}"
                found.add(full if full in modules else base)
    for target in list(found):
        found |= set(ancestors(target)) - {name, *ancestors(name)}
    return {target for target in found if target in modules} - {name}


def graph_of(directory):
    """{module: the modules that it imports} of a package."""
    modules = modules_of(directory)
    return {name: imports(name, file, modules) if file else set() for name, file in modules.items()}


class Package(unittest.TestCase):
    def test_no_modules_import_each_other(self):
        graph = graph_of(DIRECTORY)
        self.assertIn("homefree.extension", graph)
        self.assertIn("homefree._homefree", graph["homefree"])
        self.assertEqual(circles(graph), [])

    def test_no_module_needs_a_name_of_the_package_that_it_lies_in(self):
        """Modules that need their package's __init__ only work after it has been executed."""
        for name, targets in graph_of(DIRECTORY).items():
            with self.subTest(module=name):
                self.assertEqual(targets & set(ancestors(name)), set())


MODULES = ("__init__", "one", "two", "inner/__init__", "inner/deep")
# What the modules contain, and the circle that they make.
CIRCLES = {
    "inside functions": (
        {
            "one": "def f():\n    from . import two\n",
            "two": "class C:\n    def f(self):\n        from .one import x\n",
        },
        ["pack.one", "pack.two"],
    ),
    "where type checkers do not look": (
        {
            "one": "from . import two\n",
            "two": "if TYPE_CHECKING:\n    x: int\nelse:\n    from .one import x\n",
        },
        ["pack.one", "pack.two"],
    ),
    "by full names": (
        {"one": "import pack.two as other\n", "two": "from pack.one import x\n"},
        ["pack.one", "pack.two"],
    ),
    "name of the package": (
        {"__init__": "from . import one\n", "one": "from . import __version__\n"},
        ["pack", "pack.one"],
    ),
    "table of what is imported later": (
        {
            "__init__": "_LAZY = {'one': 'x', 'inner': 'y'}\n",
            "inner/deep": "from .. import VERSION\n",
            "inner/__init__": "from . import deep\n",
        },
        ["pack", "pack.inner", "pack.inner.deep"],
    ),
    "package of what is imported": (
        {"one": "from .inner import deep\n", "inner/__init__": "from .. import one\n"},
        ["pack.inner", "pack.one"],
    ),
    "three in a row": (
        {
            "one": "from . import two\n",
            "two": "from .inner import deep\n",
            "inner/deep": "from .. import one\n",
        },
        ["pack.inner.deep", "pack.one", "pack.two"],
    ),
}


class Reading(unittest.TestCase):
    """Each kind of import is recognised, in a package that the test makes."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="homefree-imports-")
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name) / "pack"
        (self.directory / "inner").mkdir(parents=True)
        for name in MODULES:
            self.write(name, "")

    def write(self, name, text):
        (self.directory / f"{name}.py").write_text(text, encoding="utf-8")

    def test_none(self):
        self.write("__init__", "from . import one\nfrom .one import x\nimport os, pack.two\n")
        self.write("one", "from . import two\nfrom .inner import deep\n")
        self.write("inner/deep", "from .. import two\nfrom ..two import x\n")
        self.write("two", "if TYPE_CHECKING:\n    from . import one\n")
        self.assertEqual(circles(graph_of(self.directory)), [])

    def test_circles(self):
        for title, (texts, circle) in CIRCLES.items():
            with self.subTest(title):
                for name in MODULES:
                    self.write(name, texts.get(name, ""))
                self.assertEqual(circles(graph_of(self.directory)), [sorted(circle)])


if __name__ == "__main__":
    DIRECTORY = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=0)
