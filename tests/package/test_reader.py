"""Reader: modules under names of their own, pickles with their classes, resources, rules."""

import importlib
import importlib.resources
import inspect
import os
import pkgutil
import subprocess
import sys
import threading
import traceback
import warnings

import support
from homefree import package


class Pickles(support.TestCase):
    def test_a_pickle_comes_with_its_classes(self):
        model = self.app()
        made = model.make()
        with self.writer() as writer:
            writer.intern("app.**")
            writer.add_pickle("models", "model.pkl", made)
        reader = self.reader()
        loaded = reader.load_pickle("models", "model.pkl")
        self.assertEqual(loaded(1.5), made(1.5))
        self.assertEqual(loaded.config.name, "small")
        self.assertEqual(loaded.part.value, 7)
        # Of a class of its own, which is not the one that is installed.
        self.assertIsNot(type(loaded), model.Model)
        self.assertEqual(type(loaded).__module__.partition(".")[2], "app.model")
        self.assertIs(type(loaded), reader.import_module("app.model").Model)
        self.assertIsNot(reader.load_pickle("models", "model.pkl"), loaded)
        self.assertEqual(reader.modules(), ["app", "app.layers", "app.model"])
        self.assertEqual(reader.extern_modules(), [])

    def test_the_originals_may_be_gone(self):
        made = self.app().make()
        with self.writer() as writer:
            writer.intern("app.**")
            writer.add_pickle("", "model.pkl", made)
        code = f"""
from homefree import package
reader = package.Reader({str(self.path)!r})
assert reader.load_pickle("", "model.pkl")(1.5) == {made(1.5)}
import sys
assert "app" not in sys.modules
"""
        subprocess.run([sys.executable, "-s", "-c", code], check=True, cwd="/")

    def test_objects_of_the_standard_library(self):
        import collections
        import datetime
        import decimal
        import functools
        import pathlib
        import random
        import re
        import uuid

        values = [
            collections.OrderedDict(a=1),
            collections.Counter("abca"),
            collections.defaultdict(list, {1: [2]}),
            collections.deque([1, 2], 3),
            datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc),
            decimal.Decimal("1.50"),
            pathlib.PurePosixPath("a/b"),
            re.compile("a+", re.IGNORECASE),
            uuid.UUID(int=5),
            range(3),
            slice(1, 2),
            complex(1, 2),
            type(None),
            ...,
            NotImplemented,
            {1, 2},
            frozenset([3]),
            bytearray(b"12"),
            KeyError("a"),
            2**100,
            "\ud800",
        ]
        with self.writer() as writer:
            writer.add_pickle("", "values.pkl", values)
            writer.add_pickle("", "random.pkl", random.Random(5))
            writer.add_pickle("", "partial.pkl", functools.partial(sorted, reverse=True))
        reader = self.reader()
        loaded = reader.load_pickle("", "values.pkl")
        self.assertEqual(repr(loaded), repr(values))
        self.assertEqual(reader.load_pickle("", "random.pkl").random(), random.Random(5).random())
        self.assertEqual(reader.load_pickle("", "partial.pkl")([1, 2]), [2, 1])

    def test_what_a_class_raises_is_the_cause(self):
        self.source("app/")
        self.source("app/model", "class A:\n    def __setstate__(self, state): 1 / 0\n")
        import app.model

        one = app.model.A()
        one.x = 1
        with self.writer() as writer:
            writer.intern("app.**")
            writer.add_pickle("", "a.pkl", one)
        with self.refused(package.RefusedPickle, "a.pkl", "ZeroDivisionError") as caught:
            self.reader().load_pickle("", "a.pkl")
        self.assertIsInstance(caught.exception.__cause__, ZeroDivisionError)


class Modules(support.TestCase):
    def write(self, **sources):
        with self.writer() as writer:
            for name, text in sources.items():
                writer.add_source(name.replace("__", "."), text)

    def test_two_packages_with_the_same_names(self):
        readers = []
        for number in (1, 2):
            with package.Writer(self.directory / f"{number}.hfp") as writer:
                writer.add_source("app", "", package=True)
                writer.add_source("app.value", f"VALUE = {number}\nclass A: number = {number}\n")
                writer.add_source("app.user", "import app.value\nfrom .value import A\n")
            readers.append(package.Reader(self.directory / f"{number}.hfp"))
            self.addCleanup(readers[-1].close)
        users = [reader.import_module("app.user") for reader in readers]
        self.assertEqual([one.app.value.VALUE for one in users], [1, 2])
        self.assertEqual([one.A.number for one in users], [1, 2])
        self.assertNotIn("app", sys.modules)
        self.assertRaises(ImportError, importlib.import_module, "app")

    def test_every_form_of_import(self):
        self.write(
            a="import b.c\nimport b.c as c\nfrom b import c as d\nfrom b.c import X\n"
            "import importlib\nimport os.path as p\n"
            "def late():\n    from b import late\n    import b.late as again\n    return late\n"
            "def run():\n    exec('import b.c as e', globals())\n    return e\n",
            b__c="X = 5\nfrom . import late\n",
            b__late="from . import c\nY = 6\n",
        )
        a = self.reader().import_module("a")
        self.assertEqual(a.b.c.X, 5)
        self.assertIs(a.c, a.b.c)
        self.assertIs(a.d, a.b.c)
        self.assertEqual((a.X, a.late().Y), (5, 6))
        self.assertIs(a.run(), a.c)
        self.assertIs(a.p, os.path)

    def test_its_modules_come_before_those_that_are_installed(self):
        self.source("shared", "VALUE = 'installed'")
        import shared

        self.write(shared="VALUE = 'packaged'", user="import shared\nimport json as j\n")
        user = self.reader().import_module("user")
        self.assertEqual((user.shared.VALUE, shared.VALUE), ("packaged", "installed"))
        self.assertIs(user.j, importlib.import_module("json"))

    def test_undeclared_modules_are_refused(self):
        self.source("outside", "VALUE = 1")
        with self.writer() as writer:
            writer.extern("outside")
            writer.add_source("user", "def use(name):\n    return __import__(name)\n")
        self.source("other", "VALUE = 1")
        user = self.reader().import_module("user")
        self.assertEqual(user.use("outside").VALUE, 1)
        for name in ("other", "homefree", "__main__", "user.more", "outsider"):
            with self.refused(package.RefusedImport, name) as caught:
                user.use(name)
            self.assertEqual(caught.exception.name.rpartition(">.")[2], name)

    def test_undeclared_submodules_of_extern_packages(self):
        self.source("outside/", "")
        self.source("outside/more", "")
        with self.writer() as writer:
            writer.extern("outside")
            writer.add_source("user", "def use(name):\n    return __import__(name)\n")
        with self.refused(package.RefusedImport, "outside.more"):
            self.reader().import_module("user").use("outside.more")

    def test_extern_that_is_not_installed(self):
        with self.writer() as writer:
            writer.extern("not_there.**")
            writer.add_source("user", "import not_there.below\n")
        reader = self.reader()
        self.assertEqual(reader.extern_modules(), ["not_there.below"])
        with self.refused(package.RefusedImport, "not_there", "install it"):
            reader.import_module("user")

    def test_the_reader_can_narrow_extern(self):
        self.source("outside", "")
        with self.writer() as writer:
            writer.extern("**")
            writer.add_source("user", "import outside\n")
        with self.refused(package.PackageError, "outside"):
            self.reader(extern=["numpy.**"])
        self.reader(extern="outside").import_module("user")

    def test_denied_and_optional(self):
        self.source("heavy", "")
        with self.writer() as writer:
            writer.deny("heavy")
            writer.add_source(
                "user", "try:\n    import heavy\nexcept ImportError:\n    heavy = None\n"
            )
        self.assertIsNone(self.reader().import_module("user").heavy)

    def test_mocks(self):
        with self.writer() as writer:
            writer.mock("board.**")
            writer.add_source(
                "user",
                "import board.summary\nfrom board.summary import Write\nimport board as b\n"
                "def use():\n    return Write('x')\n"
                "def derive():\n    class A(b.summary.Other): pass\n",
            )
        user = self.reader().import_module("user")
        for use in (user.use, user.derive):
            with self.refused(package.MockUsed, "board.summary."):
                use()
        self.assertNotIn("board", sys.modules)

    def test_install(self):
        with self.writer() as writer:
            writer.intern("app.**")
            writer.extern("outside")
            writer.add_pickle("models", "model.pkl", self.app().make())
        code = f"""
import sys
from homefree import package
reader = package.Reader({str(self.path)!r}).install()
assert reader.install() is reader
import app.model as model
loaded = reader.load_pickle("models", "model.pkl")
assert type(loaded) is model.Model and model.__name__ == "app.model"
assert sys.modules["app.model"] is model and reader.import_module("app.model") is model
try:
    import app.missing
except package.RefusedImport as error:
    assert "app.missing" in str(error)
else:
    assert False
try:
    import nothing_of_this_name
except ModuleNotFoundError as error:
    assert type(error) is ModuleNotFoundError
import json
"""
        subprocess.run([sys.executable, "-s", "-c", code], check=True, cwd=self.sources)

    def test_install_beside_a_module_of_that_name(self):
        self.write(json="")
        import json  # noqa: F401

        with self.refused(package.PackageError, "'json'"):
            self.reader().install()

    def test_install_after_an_import(self):
        self.write(user="")
        reader = self.reader()
        reader.import_module("user")
        with self.refused(package.PackageError, "private names"):
            reader.install()

    def test_a_closed_reader(self):
        self.write(user="def later():\n    import other\n", other="")
        reader = self.reader()
        user = reader.import_module("user")
        reader.close()
        reader.close()
        self.assertRaises(ImportError, user.later)
        with self.refused(package.PackageError, "closed"):
            reader.load_bytes("", "user.py")

    def test_threads_import_once(self):
        self.write(
            user="import counter\ncounter.add()\nimport time\n",
            counter="n = []\nadd = lambda: n.append(1)\n",
        )
        reader = self.reader()
        start = threading.Barrier(4)

        def load():
            start.wait()
            reader.import_module("user")

        threads = [threading.Thread(target=load) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.assertEqual(len(reader.import_module("counter").n), 1)

    def test_tracebacks_and_sources(self):
        self.write(user="def fail():\n    raise KeyError('here')  # the line\n")
        user = self.reader().import_module("user")
        try:
            user.fail()
        except KeyError:
            text = traceback.format_exc()
        self.assertIn("# the line", text)
        self.assertIn(f"{self.path}/user.py", text)
        self.assertIn("# the line", inspect.getsource(user.fail))
        self.assertEqual(user.__file__, f"{self.path}/user.py")

    def test_a_module_that_raises_can_be_tried_again(self):
        self.write(
            user="import state\nif not state.ready:\n    raise KeyError(1)\n", state="ready = 0"
        )
        reader = self.reader()
        self.assertRaises(KeyError, reader.import_module, "user")
        reader.import_module("state").ready = 1
        reader.import_module("user")


class Resources(support.TestCase):
    def test_resources(self):
        with self.writer() as writer:
            writer.add_source("app", "", package=True)
            writer.add_text("app", "data/words.txt", "häuser")
            writer.add_bytes("", "raw", b"\0\1")
        reader = self.reader()
        self.assertEqual(reader.load_text("app", "data/words.txt"), "häuser")
        self.assertEqual(reader.load_bytes("", "raw"), b"\0\1")
        self.assertEqual(reader.open("", "raw").read(1), b"\0")
        self.assertTrue(reader.has("app", "data/words.txt"))
        self.assertFalse(reader.has("app", "data"))
        for name in ("nothing", "../raw", "/raw", "data", ""):
            with self.refused(package.MissingMember):
                reader.load_bytes("app", name)
        with self.refused(package.PackageError, "raw", "kind resource"):
            reader.load_pickle("", "raw")

    def test_importlib_resources(self):
        with self.writer() as writer:
            writer.add_source("app", "", package=True)
            writer.add_text("app", "words.txt", "häuser")
            writer.add_text("app", "data/more.txt", "more")
        app = self.reader().import_module("app")
        self.assertEqual(pkgutil.get_data(app.__name__, "words.txt").decode(), "häuser")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self.assertEqual(importlib.resources.read_text(app, "words.txt"), "häuser")
        if sys.version_info >= (3, 10):
            files = importlib.resources.files(app)
            self.assertEqual((files / "data" / "more.txt").read_text(encoding="utf-8"), "more")
            self.assertEqual(
                {one.name for one in files.iterdir()}, {"__init__.py", "data", "words.txt"}
            )
            with importlib.resources.as_file(files / "words.txt") as file:
                self.assertEqual(file.read_text(encoding="utf-8"), "häuser")

    def test_file_structure(self):
        with self.writer() as writer:
            writer.add_source("app", "", package=True)
            writer.add_source("app.model", "")
            writer.add_text("app", "a.json", "")
        tree = self.reader().file_structure()
        self.assertTrue(tree.has_file("app/model.py"))
        self.assertFalse(tree.has_file("app"))
        self.assertEqual(
            str(tree), "model.hfp\n└── app\n    ├── __init__.py\n    ├── a.json\n    └── model.py\n"
        )
        tree = self.reader().file_structure("**/*.json")
        self.assertEqual(str(tree), "model.hfp\n└── app\n    └── a.json\n")

    def test_the_command(self):
        with self.writer() as writer:
            writer.extern("numpy.**")
            writer.add_source("user", "import numpy\n")

        def run(*words):
            return subprocess.run(
                [sys.executable, "-s", "-m", "homefree.package", *words],
                capture_output=True,
                text=True,
                check=False,
            )

        shown = run("show", str(self.path))
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("user.py", shown.stdout)
        self.assertIn("needs: numpy", shown.stdout)
        self.assertEqual(run("verify", str(self.path)).returncode, 0)
        self.assertEqual(run("show", str(self.directory / "none")).returncode, 3)
        data = bytearray(self.path.read_bytes())
        data[data.index(b"import numpy")] ^= 1
        self.path.write_bytes(data)
        self.assertEqual(run("show", str(self.path)).returncode, 0)
        broken = run("verify", str(self.path))
        self.assertEqual(broken.returncode, 1)
        self.assertIn("user.py", broken.stderr)


if __name__ == "__main__":
    support.main()
