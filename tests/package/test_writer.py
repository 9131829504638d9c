"""Writer: what becomes of what is needed, and what is on the disk when it worked and when it did
not."""

import json
import os
import random
import signal
import subprocess
import sys
import zipfile

import support
from homefree import package


class Rules(support.TestCase):
    def members(self):
        return sorted(self.reader().file_structure().children)

    def test_imports_are_followed(self):
        self.source("one", "import two.three\nfrom four import five, six\n")
        self.source("two/", "")
        self.source("two/three", "from . import more, VALUE\nfrom .. import nothing\n")
        self.source("two/more", "def late():\n    import importlib\n    __import__('seven')\n")
        self.source("four/", "six = 6\n")
        self.source("four/five", "import importlib\nimportlib.import_module('.eight', 'four')\n")
        self.source("four/eight", "")
        self.source("seven", "")
        self.source("unused", "")
        with self.writer() as writer:
            writer.intern("**")
            writer.add_module("one")
        self.assertEqual(
            self.reader().modules(),
            ["four", "four.eight", "four.five", "one", "seven", "two", "two.more", "two.three"],
        )

    def test_unresolved_names_the_importers(self):
        self.source("one", "import two\nimport outside.more\n")
        self.source("two", "from outside import thing\nimport nowhere\n")
        with (
            self.refused(
                package.UnresolvedImports,
                "nowhere: no rule covers it; needed by two",
                "outside: no rule covers it; needed by two",
                "outside.more: no rule covers it; needed by one",
            ) as caught,
            self.writer() as writer,
        ):
            writer.intern("two")
            writer.add_module("one")
        self.assertEqual(sorted(caught.exception.modules), ["nowhere", "outside", "outside.more"])
        self.nothing_but()

    def test_denied(self):
        self.source("one", "import two\n")
        with self.unwritten(
            package.UnresolvedImports, "two: it is denied; needed by one"
        ) as writer:
            writer.deny("two")
            writer.intern("**")
            writer.add_module("one")

    def test_the_first_rule_counts(self):
        self.source("one", "import two.a, two.b\n")
        with self.writer() as writer:
            writer.mock("two.a")
            writer.extern("two.**", exclude="two.c")
            writer.deny("**")
            writer.add_module("one")
        self.assertEqual(self.reader().extern_modules(), ["two.b"])

    def test_interned_and_missing(self):
        self.source("one", "import two\n")
        with self.unwritten(
            package.UnresolvedImports, "two: there is no such module; needed by one"
        ) as writer:
            writer.intern("**")
            writer.add_module("one")

    def test_optional_imports(self):
        self.source(
            "one",
            """
            try:
                import not_there
            except ModuleNotFoundError:
                import json as not_there
            try:
                import unwanted
            except (KeyError, ImportError):
                unwanted = None
            """,
        )
        self.source("unwanted", "")
        with self.writer() as writer:
            writer.deny("unwanted")
            writer.add_module("one")
        self.assertEqual(self.reader().modules(), ["one"])

    def test_optional_for_one_and_needed_by_another(self):
        self.source("one", "try:\n    import nowhere\nexcept ImportError: pass\nimport two\n")
        self.source("two", "import three\n")
        self.source("three", "import nowhere\n")
        with self.unwritten(
            package.UnresolvedImports, "nowhere: no rule covers it; needed by one, three"
        ) as writer:
            writer.intern("t*")
            writer.add_module("one")

    def test_half_of_a_package_cannot_be_extern(self):
        self.source("app/", "")
        self.source("app/a", "import app.b\n")
        self.source("app/b", "")
        with self.unwritten(
            package.UnresolvedImports, "app.b: it is extern, and its package"
        ) as writer:
            writer.extern("**")
            writer.add_module("app.a")

    def test_a_whole_package(self):
        self.source("app/", "")
        self.source("app/below/", "")
        self.source("app/below/deep", "import app.other\n")
        self.source("app/other", "")
        (self.sources / "app/data").mkdir()
        (self.sources / "app/data/words.json").write_text("[]")
        (self.sources / "app/data/words.txt").write_text("")
        (self.sources / "app/__pycache__").mkdir()
        with self.writer() as writer:
            writer.add_package("app", data="**/*.json")
        reader = self.reader()
        self.assertEqual(reader.modules(), ["app", "app.below", "app.below.deep", "app.other"])
        self.assertEqual(reader.load_text("app", "data/words.json"), "[]")
        self.assertFalse(reader.has("app", "data/words.txt"))

    def test_namespace_packages(self):
        self.source("space/app", "import space.other\n")
        self.source("space/other", "VALUE = 3\n")
        with self.writer() as writer:
            writer.intern("space.**")
            writer.add_module("space.app")
        self.assertEqual(self.reader().import_module("space.app").space.other.VALUE, 3)

    def test_without_importing(self):
        self.source("one", "import two\nraise SystemExit('it was run')\n")
        self.source("two", "raise SystemExit('it was run')\n")
        with self.writer() as writer:
            writer.intern("**")
            writer.add_module("one")
        self.assertEqual(self.reader().modules(), ["one", "two"])

    def test_what_has_no_source(self):
        with self.unwritten(package.PackageError, "sys has neither a source") as writer:
            writer.add_module("sys")
        with self.unwritten(package.PackageError, "no module not_there") as writer:
            writer.add_module("not_there")

    def test_a_source_in_no_encoding(self):
        (self.sources / "one.py").write_bytes(b"# \xff\n")
        (self.sources / "two.py").write_bytes("# coding: latin-1\nX = 'ä'\n".encode("latin-1"))
        with self.unwritten(package.PackageError, "one has neither a source") as writer:
            writer.add_module("one")
        with self.writer() as writer:
            writer.add_module("two")
        self.assertEqual(self.reader().import_module("two").X, "ä")

    def test_wrong_arguments(self):
        with self.writer() as writer:
            for pattern in ("a..b", "", "a***", "a/b", "a.**b", "a b", 5):
                with self.assertRaises((ValueError, TypeError)):
                    writer.extern(pattern)
            self.assertRaises(ValueError, writer.add_source, "a-b", "")
            self.assertRaises(ValueError, writer.add_bytes, "a/b", "c", b"")
            self.assertRaises(TypeError, writer.add_bytes, "a", 5, b"")
            for name in ("../a", "/a", "a//b", ".", "a\nb", "a\\b", "", "x" * 300, "\ud800"):
                with self.refused(package.PackageError):
                    writer.add_bytes("a", name, b"")
            with self.refused(package.PackageError, "manifest"):
                writer.add_bytes("", "homefree_package.json", b"")
            writer.add_bytes("a", "b", b"")
            for name in ("b", "b/c"):
                with self.refused(package.PackageError, "has it already"):
                    writer.add_bytes("a", name, b"")
            with self.refused(package.PackageError, "no Python source"):
                writer.add_source("m", "def")


class Pickles(support.TestCase):
    def refuses(self, value, *texts):
        with self.refused(package.RefusedPickle, *texts), self.writer() as writer:
            writer.add_pickle("", "a.pkl", value)
        self.nothing_but()

    def test_dangerous_names(self):
        class Calls:
            def __init__(self, *reduced):
                self.reduced = reduced

            def __reduce__(self):
                return self.reduced

        self.refuses(Calls(os.system, ("true",)), "system", 'extern("posix")')
        self.refuses(Calls(eval, ("1",)), "builtins.eval")
        self.refuses(Calls(getattr, (1, "real")), "bound method")
        self.refuses([].append, "bound method")
        self.refuses(Calls(exec, ("1",)), "builtins.exec")
        self.refuses(Calls(bytes, (5,)), "calls builtins.bytes")
        import collections

        self.refuses(Calls(collections.deque, (range(5),)), "with a range")

    def test_explicit_extern_opens_the_standard_library(self):
        class Calls:
            def __reduce__(self):
                return os.getpid, ()

        with self.writer() as writer:
            writer.extern("posix")
            writer.add_pickle("", "a.pkl", Calls())
        self.assertEqual(self.reader().load_pickle("", "a.pkl"), os.getpid())
        with self.refused(package.RefusedPickle, "posix.getpid"):
            self.reader(extern=[]).load_pickle("", "a.pkl")
        # A pattern that covers everything means no module of the standard library.
        with self.refused(package.RefusedPickle, "posix.getpid"), self.writer() as writer:
            writer.extern("**")
            writer.add_pickle("", "a.pkl", Calls())

    def test_main(self):
        import __main__

        __main__.OfMain = type("OfMain", (), {"__module__": "__main__"})
        self.addCleanup(delattr, __main__, "OfMain")
        self.refuses(__main__.OfMain(), "OfMain is defined in __main__", "move it into a module")

    def test_objects_of_a_loaded_package(self):
        with self.writer() as writer:
            writer.add_source("app", "class A: pass\n")
        value = self.reader().import_module("app").A()
        with self.unwritten(package.RefusedPickle, "A is defined in a package that a Re") as writer:
            writer.add_pickle("", "a.pkl", value)

    def test_what_cannot_be_pickled(self):
        with self.unwritten(package.PackageError, "a.pkl", "cannot be pickled") as writer:
            writer.add_pickle("", "a.pkl", [lambda: 1])
        deep = []
        for _ in range(100000):
            deep = [deep]
        with self.refused(package.PackageError, "nested too deeply"), self.writer() as writer:
            writer.add_pickle("", "a.pkl", deep)
        while deep:
            deep = deep.pop()

    def test_later_changes_do_not_reach_it(self):
        value = [1]
        with self.writer() as writer:
            writer.add_pickle("", "a.pkl", value)
            value.append(2)
        self.assertEqual(self.reader().load_pickle("", "a.pkl"), [1])


class Files(support.TestCase):
    def fill(self, writer, order=None):
        steps = [
            lambda: writer.intern("app.**"),
            lambda: writer.add_pickle("models", "model.pkl", self.app().make()),
            lambda: writer.add_text("app", "words.txt", "häuser"),
            lambda: writer.add_source("other", "import app\n"),
            lambda: writer.add_bytes("", "raw", os.urandom(0)),
        ]
        if order is not None:
            order.shuffle(steps)
        for step in steps:
            step()
        return writer

    def test_the_same_content_is_the_same_file(self):
        found = set()
        for seed in range(5):
            with self.writer() as writer:
                self.fill(writer, random.Random(seed))
            found.add((self.path.read_bytes(), writer.sha256, self.reader().sha256))
        self.assertEqual(len(found), 1)

    def test_a_zip_that_others_read(self):
        with self.writer() as writer:
            self.fill(writer)
        with zipfile.ZipFile(self.path) as other:
            self.assertIsNone(other.testzip())
            names = other.namelist()
            self.assertEqual(names[0], "homefree_package.json")
            self.assertEqual(names[1:], sorted(names[1:]))
            document = json.loads(other.read(names[0]))
            self.assertEqual(document["homefree_package"], 1)
            self.assertEqual(sorted(document["members"]), names[1:])
            self.assertEqual(other.read("app/words.txt").decode(), "häuser")
        self.assertEqual(self.path.stat().st_mode & 0o777, 0o666 & ~_umask())

    def test_a_zip_that_others_wrote(self):
        with self.writer() as writer:
            self.fill(writer)
        with zipfile.ZipFile(self.path) as old:
            path = self.directory / "other.hfp"
            with zipfile.ZipFile(path, "w") as new:
                new.writestr("app/", "")
                for name in reversed(old.namelist()):
                    new.writestr(name, old.read(name))
        with package.Reader(path, verify=True) as reader:
            self.assertEqual(reader.load_pickle("models", "model.pkl")(1), 1000)

    def test_a_directory(self):
        with self.writer(directory=True) as writer:
            self.fill(writer)
        reader = self.reader(verify=True)
        self.assertEqual(reader.load_pickle("models", "model.pkl")(1), 1000)
        self.assertEqual(self.path.stat().st_mode & 0o777, 0o777 & ~_umask())
        self.nothing_but("model.hfp")
        with package.Writer(self.directory / "zip.hfp") as zipped:
            self.fill(zipped)
        self.assertEqual(writer.sha256, zipped.sha256)
        for directory in (False, True):
            with self.refused(package.PackageError, "already"):
                self.writer(directory=directory)

    def test_nothing_is_left_of_a_failure(self):
        with self.writer() as writer:
            writer.add_text("", "a", "old")
        before = self.path.read_bytes()
        with self.assertRaises(KeyError), self.writer() as writer:
            writer.add_text("", "a", "new")
            raise KeyError
        with self.assertRaises(package.UnresolvedImports), self.writer() as writer:
            writer.add_source("a", "import nowhere")
        self.assertEqual(self.path.read_bytes(), before)
        self.nothing_but("model.hfp")
        self.assertIsNone(writer.sha256)
        with self.writer() as writer:
            writer.add_text("", "a", "new")
        self.assertEqual(self.reader().load_text("", "a"), "new")
        self.nothing_but("model.hfp")

    def test_a_full_disk(self):
        """With a limit on files' sizes in place of a full disk: for each size up to the package's
        own, the old file stays, nothing else does, and one OSError says so."""
        with self.writer() as writer:
            writer.add_text("", "a", "old")
        before = self.path.read_bytes()
        code = f"""
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from homefree import package
failed = 0
for limit in [*range(0, 4000, 250), 100000]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        with package.Writer({str(self.path)!r}) as writer:
            writer.add_bytes("", "a", b"new" * 300)
            writer.add_bytes("", "b", b"new" * 300)
    except OSError:
        failed += 1
        assert open({str(self.path)!r}, "rb").read() == {before!r}
print(failed)
"""
        done = subprocess.run(
            [sys.executable, "-s", "-B", "-c", code], capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(int(done.stdout), 5)
        self.nothing_but("model.hfp")
        self.assertEqual(self.reader().load_bytes("", "b"), b"new" * 300)

    def test_a_killed_writer_leaves_the_old_file(self):
        with self.writer() as writer:
            writer.add_text("", "a", "old")
        code = f"""
import os, signal
from homefree import package
writer = package.Writer({str(self.path)!r})
writer.add_text("", "a", "new")
os.kill(os.getpid(), signal.SIGKILL)
"""
        done = subprocess.run([sys.executable, "-s", "-c", code], check=False)
        self.assertEqual(done.returncode, -signal.SIGKILL)
        self.assertEqual(self.reader().load_text("", "a"), "old")

    def test_a_closed_writer(self):
        with self.writer() as writer:
            pass
        writer.close()
        for use in (
            lambda: writer.add_text("", "a", ""),
            lambda: writer.add_source("a", ""),
            lambda: writer.add_pickle("", "a", 1),
        ):
            with self.refused(package.PackageError, "closed"):
                use()

    def test_a_missing_directory(self):
        with self.refused(package.PackageError, "does not exist"):
            package.Writer(self.directory / "none" / "model.hfp")

    def test_the_hash_settles_the_content(self):
        with self.writer() as writer:
            writer.add_text("", "a", "one")
        self.reader(sha256=writer.sha256)
        first = writer.sha256
        with self.writer() as writer:
            writer.add_text("", "a", "two")
        with self.refused(package.DamagedPackage, "another package"):
            self.reader(sha256=first)


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


if __name__ == "__main__":
    support.main()
