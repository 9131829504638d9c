"""The import hook: what import loads is checked, adopted or copied as load() does it, for the names
that it is limited to, until it is removed; other modules are imported as before.

usage: test_hook.py MODULES-DIRECTORY
"""

import importlib.util
import sys

import pieces

PRELUDE = """
import os, sys, warnings
import homefree
def kinds(module):
    return {homefree.owner_of(block).kind for block in module.allocate().values()}
"""


class Hook(pieces.TestCase):
    def setUp(self):
        super().setUp()
        self.take("inner", "pack/inner.so")
        (self.directory / "pack/__init__.py").write_text("from . import inner\n")
        (self.directory / "pack/pure.py").write_text("answer = 42\n")
        self.take("multi")
        self.take("single")

    def run_code(self, code, **environment):
        self.fine(
            f"sys.path.insert(0, {str(self.directory)!r})\n" + code, prelude=PRELUDE, **environment
        )

    def test_package_is_adopted(self):
        self.run_code("""
hook = homefree.import_hook(adopt=True)
import pack, pack.pure, multi, single
assert pack.pure.answer == 42
assert kinds(pack.inner) == kinds(multi) == kinds(single) == {"heap"}
assert pack.inner.__file__.endswith("pack/inner.so")
import importlib
importlib.reload(multi)
""")

    def test_names(self):
        self.run_code("""
with homefree.import_hook(["pack"], adopt=True) as hook:
    assert hook.covers("pack.inner") and hook.covers("pack") and not hook.covers("package")
    import pack, multi
assert kinds(pack.inner) == {"heap"}
assert "heap" not in kinds(multi)
try:
    homefree.import_hook("pack")
except TypeError:
    pass
else:
    raise AssertionError
""")

    def distribution(self, name, *files, requires=()):
        """Installs the metadata of a distribution."""
        directory = self.directory / f"{name.replace('-', '_')}-1.0.dist-info"
        directory.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0"]
        lines += [f"Requires-Dist: {needed}" for needed in requires]
        (directory / "METADATA").write_text("\n".join(lines) + "\n")
        (directory / "RECORD").write_text("".join(f"{file},,\n" for file in files))

    def test_names_of_distributions(self):
        """As polars has its module in polars-runtime-32, and duckdb in _duckdb."""
        (self.directory / "front.py").write_text("import multi\n")
        needed = ("front-runtime-32==1.0", "other>=1; python_version>'3'", 'front-x; extra == "x"')
        self.distribution("front", "front.py", requires=needed)
        self.distribution("front-runtime-32", "multi.so")
        self.distribution("front-x", "pack/inner.so")
        self.distribution("other", "single.so")
        self.run_code("""
hook = homefree.import_hook(["front"], adopt=True)
import front, single, pack
assert kinds(front.multi) == {"heap"}
assert "heap" not in kinds(single) and "heap" not in kinds(pack.inner)
assert homefree.import_hook(["Front_Runtime.32"]).covers("multi")
""")

    def test_a_name_that_nothing_has(self):
        self.distribution("some-distribution", "multi.so")
        self.run_code("""
for name, near in {"pakc": "pack", "mult": "multi", "single.": "", "some-distributoin":
                   "some-distribution", "packinner": "pack", "none.such": "", "": ""}.items():
    for options in ({"adopt": True}, {"private": True}, {}):
        try:
            homefree.import_hook([name], **options)
        except ModuleNotFoundError as error:
            assert error.name == name and near in str(error), error
        else:
            assert name == "single."
import multi
assert "heap" not in kinds(multi)
""")

    def test_a_name_that_matched_nothing(self):
        """At the end of a with statement it is known."""
        self.run_code("""
def imports(names, code):
    with homefree.import_hook(names, adopt=True):
        exec(code)
for name, code in (("pack.pure", "import pack.pure, multi"), ("json", "import json.tool"),
                   ("pack.iner", "import pack")):
    sys.modules.pop("pack", None)
    try:
        imports([name], code)
    except ImportError as error:
        assert repr(name) in str(error), error
        assert name != "pack.iner" or "pack.inner" in str(error), error
    else:
        assert name == "json"  # it was imported before
imports(["pack", "json"], "import pack")
imports(["single"], "import single")
imports(["single"], "import single")
try:
    imports(["multi"], "raise KeyError(1)")
except KeyError:
    pass
""")

    def test_for_interpreters(self):
        """In the main interpreter, all modules are Python's; see tests/interpreter_modules."""
        self.run_code("""
with homefree.import_hook(private="interpreter") as hook:
    import multi, single
    assert hook.loaded == {"multi": "native", "single": "native"}, hook.loaded
for options in ({"private": "interpreter", "adopt": True}, {"private": "mine"}):
    try:
        homefree.import_hook(**options)
    except ValueError as error:
        assert "private" in str(error)
    else:
        raise AssertionError
""")

    def test_removed(self):
        self.run_code("""
from importlib.machinery import ExtensionFileLoader
before = ExtensionFileLoader.create_module
hook = homefree.import_hook(adopt=True)
other = homefree.import_hook(["pack"])
import multi
hook.remove()
hook.remove()
import single
assert kinds(multi) == {"heap"} and "heap" not in kinds(single)
assert ExtensionFileLoader.create_module is not before
other.remove()
assert ExtensionFileLoader.create_module is before
""")

    def test_last_one_first(self):
        self.run_code("""
homefree.import_hook(adopt=True)
homefree.import_hook(["multi"])
import multi, single
assert "heap" not in kinds(multi) and kinds(single) == {"heap"}
""")

    def test_private(self):
        self.run_code("""
homefree.import_hook(private=True)
import multi, single, pack
assert sys.modules["multi"] is multi and sys.modules["single"] is single
assert single.__file__.endswith("/single.so") and "/.homefree-" not in single.__file__
assert homefree.load(single.__file__, private=True).count() == 1
assert single.count() == 1 == pack.inner.count()
""")
        self.assertEqual(self.left(), [])

    def test_refuses(self):
        (self.directory / "broken.so").write_bytes(b"\x7fELF")
        self.take("newer")
        self.run_code("""
homefree.import_hook()
for name in ("broken", "newer"):
    try:
        __import__(name)
    except ImportError as error:
        assert "homefree refuses" in str(error) and error.name == name, error
    else:
        raise AssertionError(name)
    assert name not in sys.modules
import json, sqlite3, decimal  # Python's own modules pass
""")

    def test_does_not_refuse(self):
        self.take("hoarder")
        self.run_code("""
homefree.import_hook(adopt=True, refuse=False)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    import hoarder
assert hoarder.count() == 1
assert ["allocator of its own" in str(w.message) for w in said] == [True], said
assert said[0].category is RuntimeWarning
""")

    def test_what_cannot_be_adopted(self):
        """As chdb, duckdb and deltalake cannot: without names they are imported as they are."""
        self.take("hoarder")
        self.take("hoarder", "pack/hoarder.so")
        self.run_code("""
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    homefree.import_hook(adopt=True)
    import hoarder, pack.hoarder, multi
assert hoarder.count() == 1 and kinds(multi) == {"heap"}
assert [w.category for w in said] == 2 * [RuntimeWarning], said
assert "allocator of its own" in str(said[0].message) and "hoarder.so" in str(said[0].message)
assert [w.filename for w in said] == 2 * ["<string>"], said
del sys.modules["hoarder"]
for names, adopt in ((["hoarder"], True), (None, "strict"), (["hoarder"], "strict")):
    with homefree.import_hook(["multi"]), homefree.import_hook(names, adopt=adopt):
        try:
            import hoarder
        except ImportError as error:
            assert "allocator of its own" in str(error), error
        else:
            raise AssertionError(names)
        import multi
for options in ({"adopt": "strictly"}, {"adopt": "strict", "refuse": False}):
    try:
        homefree.import_hook(**options)
    except ValueError as error:
        assert "strict" in str(error)
    else:
        raise AssertionError(options)
""")

    def test_everything_of_python(self):
        """Each extension module of the standard library is loaded, adopted and used."""
        self.run_code("""
homefree.import_hook(adopt=True)
import asyncio, bz2, csv, ctypes, datetime, decimal, hashlib, json, lzma, pickle, random, select
import socket, sqlite3, ssl, struct, unicodedata, xml.etree.ElementTree as tree, zlib
data = os.urandom(10000)
assert zlib.decompress(zlib.compress(data)) == data
assert bz2.decompress(bz2.compress(data)) == data
assert lzma.decompress(lzma.compress(data)) == data
assert pickle.loads(pickle.dumps(data)) == data
assert sqlite3.connect(":memory:").execute("select sum(1)").fetchone() == (1,)
assert decimal.Decimal("1.1") ** 50 > 117
assert tree.fromstring("<a><b/></a>")[0].tag == "b"
assert asyncio.run(asyncio.sleep(0, 42)) == 42
""")

    def numpy(self):
        if importlib.util.find_spec("numpy") is None:
            self.skipTest("no NumPy")

    def test_numpy_is_adopted(self):
        self.numpy()
        self.run_code("""
homefree.import_hook(adopt=True)
import numpy
for _ in range(20):
    matrix = numpy.random.rand(60, 60) + 60 * numpy.eye(60)
    assert numpy.allclose(numpy.linalg.inv(matrix) @ matrix, numpy.eye(60))
    assert numpy.sort(matrix.ravel())[0] == matrix.min()
adopted = {e.object for e in homefree.route_report().entries
           if e.function == "malloc" and e.state == "changed"}
assert [path for path in adopted if "/numpy/" in path], adopted
""")

    def test_numpy_in_interpreters(self):
        """NumPy's modules keep state in globals and support only one interpreter."""
        self.numpy()
        self.run_code(f"""
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
new = sys.version_info >= (3, 13)
code = '''
import sys, warnings
sys.path[:] = {sys.path!r}
warnings.simplefilter("ignore")
import homefree
homefree.import_hook(["numpy"], private=True)
import numpy
assert numpy.arange(12).reshape(3, 4).T.tolist()[1] == [1, 5, 9]
assert abs(numpy.linalg.det(numpy.eye(50) * 2) / 2**50 - 1) < 1e-9
numpy.set_printoptions(precision=3)
assert str(numpy.array([1 / 3])) == "[0.333]"
'''
for _ in range(3):
    interpreter = interpreters.create("legacy") if new else interpreters.create(isolated=False)
    failed = interpreters.run_string(interpreter, code)
    assert failed is None, failed
    interpreters.destroy(interpreter)
import numpy
assert str(numpy.array([1 / 3])) == "[0.33333333]"
""")


if __name__ == "__main__":
    pieces.support.main()
