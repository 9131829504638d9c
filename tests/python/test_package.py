"""The package itself: what importing it costs in modules, its directories, its types, its results,
and what it says when its library is missing or an argument is wrong.
"""

import ast
import ctypes
import importlib.util
import inspect
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import homefree
import homefree.check
import support

DIRECTORY = pathlib.Path(homefree.__file__).resolve().parent
PACKAGES = (
    homefree,
    homefree.cuda,
    homefree.extension,
    homefree.interpreters,
    homefree.package,
)


def functions(thing):
    """A function, or what users call of a class and of its bases, which are homefree's; and how
    many of its parameters they do not pass. What C defines has its types in the stub."""
    if inspect.isfunction(thing):
        yield thing, 0
    for kind in thing.__mro__ if isinstance(thing, type) else ():
        for name, value in vars(kind).items():
            if name.startswith("_") and not name.endswith("__"):
                continue
            function = getattr(value, "fget", None) or getattr(value, "__func__", value)
            if inspect.isfunction(function) and function.__module__.startswith("homefree"):
                yield function, 1


class Package(support.TestCase):
    def test_import_brings_nothing(self):
        self.fine(
            """
            import sys
            before = set(sys.modules)
            import homefree
            homefree.owner_of(homefree)
            more = set(sys.modules) - before
            assert more == {"homefree", "homefree._homefree"}, more
            assert not hasattr(homefree._homefree, "Shared")
            homefree.install()
            more = set(sys.modules) - before
            assert more == {"homefree", "homefree._homefree", "homefree._install"}, more
            """,
            prelude="",
        )

    def test_names(self):
        for name in homefree.__all__:
            with self.subTest(name=name):
                value = getattr(homefree, name)
                self.assertTrue(value.__doc__)
                self.assertIn(name, dir(homefree))
        with self.assertRaises(AttributeError):
            homefree.nothing  # noqa: B018
        self.assertRegex(homefree.__version__, r"^\d+\.\d+\.\d+$")

    def test_type_checkers_see_every_name(self):
        """What is imported when it is first used is imported for type checkers as well."""
        for module in PACKAGES:
            with self.subTest(module=module.__name__):
                tree = ast.parse(pathlib.Path(module.__file__).read_text())
                names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
                checked = {}
                for node in ast.walk(tree):
                    if isinstance(node, ast.ImportFrom):
                        names |= {alias.asname or alias.name for alias in node.names}
                    elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                        for line in node.body:
                            for alias in line.names:
                                checked.setdefault(line.module or alias.name, set()).add(alias.name)
                self.assertLessEqual(set(module.__all__), names)
                if hasattr(module, "_LAZY"):
                    lazy = {one: set(names.split()) for one, names in module._LAZY.items()}
                    self.assertEqual(checked, lazy)

    def test_everything_public_is_annotated(self):
        modules = [*PACKAGES, homefree.check]
        if importlib.util.find_spec("setuptools"):
            modules.append(importlib.import_module("homefree.setuptools"))
        for module in modules:
            for name in module.__all__:
                with self.subTest(module=module.__name__, name=name):
                    for function, own in functions(getattr(module, name)):
                        names = [*inspect.signature(function).parameters, "return"][own:]
                        bare = [one for one in names if one not in function.__annotations__]
                        self.assertEqual(bare, [], function.__qualname__)

    def test_stub_names_the_same(self):
        self.assertTrue(homefree.interpreters)  # adds its part
        # A class that exists only in the stub (the type of a dictionary) begins with an underscore.
        for node in ast.parse((DIRECTORY / "_homefree.pyi").read_text()).body:
            if not getattr(node, "name", "_").startswith("_"):
                self.assertTrue(hasattr(homefree._homefree, node.name), node.name)

    def test_stub_has_the_fields(self):
        tree = ast.parse((DIRECTORY / "_homefree.pyi").read_text())
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and "NamedTuple" in map(ast.unparse, node.bases):
                with self.subTest(name=node.name):
                    fields = [item.target.id for item in node.body]
                    kind = getattr(homefree, node.name)
                    self.assertEqual(kind.n_fields, len(fields))
                    self.assertTrue(all(hasattr(kind, field) for field in fields))

    def test_directories(self):
        include = pathlib.Path(homefree.get_include())
        self.assertTrue((include / "homefree" / "homefree.h").is_file())
        self.assertTrue(list(pathlib.Path(homefree.get_library_dir()).glob("libhomefree.so.1")))
        self.assertTrue(list(pathlib.Path(homefree.get_pkgconfig_dir()).glob("homefree*.pc")))
        try:
            cmake = pathlib.Path(homefree.get_cmake_dir())
        except FileNotFoundError as error:
            self.assertIn("meson install", str(error))
        else:
            self.assertTrue((cmake / "homefree-config.cmake").is_file())

    def test_library_is_missing(self):
        with tempfile.TemporaryDirectory(prefix="homefree-package-") as directory:
            shutil.copytree(DIRECTORY, os.path.join(directory, "homefree"))
            done = subprocess.run(
                [sys.executable, "-s", "-c", "import homefree"],
                env={**os.environ, "PYTHONPATH": directory},
                capture_output=True,
                text=True,
                check=False,
            )
        self.assertEqual(done.returncode, 1)
        self.assertIn("ImportError: homefree: ", done.stderr)
        self.assertIn("install libhomefree.so.1", done.stderr)

    def test_owner_of(self):
        heap = homefree.owner_of(0)
        self.assertEqual(heap[1:4:2], (None, None))
        self.assertEqual(homefree.owner_of(id(int)).kind, "static")
        self.assertIn("homefree.Owner(kind=", repr(heap))
        for value in (None, "text", 1.5, [], object(), homefree, True):
            self.assertIsInstance(homefree.owner_of(value), homefree.Owner)
        for address in (1, 4095, 1 << 47, (1 << 47) - 1, (1 << 64) - 1, 1 << 63):
            owner = homefree.owner_of(address)
            self.assertIn(owner.kind, ("unknown", "unmapped"))
            self.assertEqual(owner[1:], (None,) * (len(owner) - 1))
        for bad in (-1, 1 << 64, -(1 << 200), 1 << 2000):
            with self.assertRaises(ValueError) as caught:
                homefree.owner_of(bad)
            self.assertIn("not an address", str(caught.exception))
        with self.assertRaises(TypeError):
            homefree.owner_of()
        with self.assertRaises(TypeError):
            homefree.owner_of(1, 2)

    def test_every_word_of_the_stack_of_objects(self):
        """owner_of() has an answer for every address: live, freed or never mapped."""
        numbers = [id(i) + d for i in range(300) for d in (-4096, -17, -8, -1, 0, 1, 8, 5000)]
        kinds = {homefree.owner_of(number).kind for number in numbers}
        self.assertTrue(kinds)

    def test_stats(self):
        stats = homefree.stats()
        self.assertGreater(stats["region_reserved"], stats["region_used"])
        self.assertTrue(all(isinstance(value, int) for value in stats.values()))

    def test_stats_count_records(self):
        heap = ctypes.CDLL("libhomefree.so.1")
        heap.hf_malloc.restype = ctypes.c_void_p
        before = homefree.stats()
        record = ctypes.c_void_p()
        memory = ctypes.c_void_p(heap.hf_malloc(ctypes.c_size_t(10)))
        self.assertEqual(heap.hf_release_new(ctypes.byref(record), memory, heap.hf_free, None), 0)
        self.assertEqual(homefree.stats()["releases_live"], before["releases_live"] + 1)
        heap.hf_release_drop(record)
        after = homefree.stats()
        self.assertEqual(after["releases_live"], before["releases_live"])
        self.assertEqual(after["releases_run"], before["releases_run"] + 1)

    def test_route_report(self):
        report = homefree.route_report()
        changed = sum(entry.state == "changed" for entry in report.entries)
        self.assertEqual(changed, report.changed)
        self.assertTrue(all(entry.reason for entry in report.entries if entry.state != "changed"))
        self.assertTrue(any(entry.function == "free" and entry.slot for entry in report.entries))


if __name__ == "__main__":
    sys.exit(support.main())
