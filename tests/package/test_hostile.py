"""Packages that somebody has damaged, or made to do harm: one clear exception, and none of their
code has run."""

import hashlib
import json
import os
import pathlib
import pickle
import stat
import struct
import subprocess
import sys
import threading
import time
import zipfile

import support
from homefree import package
from homefree.package import _pickles

MANIFEST = "homefree_package.json"


def entry(kind, data, **more):
    return {"kind": kind, "size": len(data), "sha256": hashlib.sha256(data).hexdigest(), **more}


class Hostile(support.TestCase):
    def setUp(self):
        super().setUp()
        # Whatever runs of a package writes here.
        self.ran = self.directory / "ran"
        self.run_code = f"open({str(self.ran)!r}, 'w').close()\n"

    def make(self, members=None, manifest=None, change=None, zipped=None):
        """A zip with these members ({name: (kind, bytes)}) and a manifest that fits. `manifest` in
        its place, or change(document); `zipped`: what the zip has in place of the members."""
        members = members or {"app.py": ("source", b"")}
        document = {
            "homefree_package": 1,
            "rules": [],
            "extern": [],
            "mocked": [],
            "members": {name: entry(kind, data) for name, (kind, data) in members.items()},
        }
        if change is not None:
            change(document)
        if manifest is None:
            manifest = json.dumps(document).encode()
        with zipfile.ZipFile(self.path, "w") as file:
            file.writestr(MANIFEST, manifest)
            for name, data in zipped or [(name, data) for name, (_, data) in members.items()]:
                file.writestr(name, data)

    def damaged(self, *texts, use=None, **options):
        with self.refused(package.DamagedPackage, str(self.path), *texts):
            reader = self.reader(**options)
            use(reader)
        self.assertFalse(self.ran.exists())


class Zips(Hostile):
    def write(self):
        with self.writer() as writer:
            writer.add_source("app", self.run_code)
            writer.add_text("", "words", "text" * 50)
            writer.add_pickle("", "a.pkl", [1, 2])

    def everything(self, reader):
        """What a user does, so that each byte of the file counts."""
        reader.verify()
        reader.load_pickle("", "a.pkl")
        reader.load_text("", "words")

    def test_every_length(self):
        self.write()
        data = self.path.read_bytes()
        for length in range(len(data)):
            self.path.write_bytes(data[:length])
            self.damaged(use=self.everything)
        self.path.write_bytes(data)
        self.everything(self.reader())

    def test_every_byte(self):
        """A changed byte is noticed, or makes no difference: dates, attributes, versions."""
        self.write()
        data = self.path.read_bytes()
        noticed = 0
        for at in range(len(data)):
            changed = bytearray(data)
            changed[at] ^= 0xFF
            self.path.write_bytes(changed)
            try:
                with package.Reader(self.path) as reader:
                    self.everything(reader)
            except package.DamagedPackage as error:
                self.assertIn(str(self.path), str(error))
                noticed += 1
        self.assertGreater(noticed, len(data) * 0.7)

    def test_bytes_behind_and_before(self):
        self.write()
        data = self.path.read_bytes()
        for changed in (data + b"\0", b"\0" + data, data * 2):
            self.path.write_bytes(changed)
            self.damaged()

    def test_names_that_lead_out(self):
        for name in (
            "../evil.py",
            "a/../../evil.py",
            "/evil.py",
            "a//b",
            "./a",
            "a\\b",
            "c:\\a",
            "a/.",
        ):
            self.make(zipped=[("app.py", b""), (name, b"evil")])
            self.damaged("cannot be")
            # The same name in the manifest.
            self.make({"app.py": ("source", b""), name: ("resource", b"evil")})
            self.damaged("cannot be")

    def test_links(self):
        with zipfile.ZipFile(self.path, "w") as file:
            for kind in (stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO):
                info = zipfile.ZipInfo(f"evil{kind}")
                info.create_system, info.external_attr = 3, (kind | 0o777) << 16
                file.writestr(info, "/etc/passwd")
        self.damaged("evil", "link")

    def test_doubles(self):
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.make(zipped=[("app.py", b""), ("app.py", b"evil")])
        self.damaged("app.py", "twice")

    def test_not_in_the_manifest(self):
        self.make(zipped=[("app.py", b""), ("other.py", b"")])
        self.damaged("other.py", "the manifest does not have it")
        self.make({"app.py": ("source", b""), "b.py": ("source", b"")}, zipped=[("app.py", b"")])
        self.damaged("b.py", "missing")
        self.make(zipped=[("app.py", b"x")])
        self.damaged("app.py", "has 1 bytes")

    def test_bombs(self):
        with zipfile.ZipFile(self.path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("zeros", bytes(80 << 20))
        self.damaged("zeros", "compressed", "write it again without")
        # A directory that tells less than is there, and one that tells more.
        for told, what in ((1000, "zeros"), (3000, "overlaps")):
            with zipfile.ZipFile(self.path, "w") as file:
                file.writestr("zeros", bytes(2000))
                members = {"zeros": {"kind": "resource", "size": told, "sha256": "0" * 64}}
                document = {"homefree_package": 1, "rules": [], "extern": [], "mocked": []}
                file.writestr(MANIFEST, json.dumps({**document, "members": members}))
            data = self.path.read_bytes()
            self.path.write_bytes(data.replace(struct.pack("<L", 2000), struct.pack("<L", told)))
            self.damaged(what, use=lambda reader: reader.load_bytes("", "zeros"))

    def test_a_directory_of_lies(self):
        """Sizes and places that the directory could tell."""
        self.write()
        data = self.path.read_bytes()
        end = data.rindex(b"PK\5\6")
        count, size, offset = struct.unpack_from("<HLL", data, end + 10)
        for changed in (
            (count + 1, size, offset),
            (count - 1, size, offset),
            (0, size, offset),
            (0xFFFF, size, offset),
            (count, 0xFFFFFFFF, offset),
            (count, size, 0xFFFFFFFF),
            (count, size - 1, offset + 1),
            (count, size, 0),
        ):
            lying = bytearray(data)
            struct.pack_into("<H", lying, end + 8, changed[0])
            struct.pack_into("<HLL", lying, end + 10, *changed)
            self.path.write_bytes(lying)
            self.damaged()

    def test_members_that_overlap(self):
        self.write()
        data = bytearray(self.path.read_bytes())
        first = data.index(b"PK\1\2")
        second = data.index(b"PK\1\2", first + 4)
        data[second + 42 : second + 46] = data[first + 42 : first + 46]
        self.path.write_bytes(data)
        self.damaged("overlaps")

    def test_other_files(self):
        for content in (b"", b"PK", b"\x7fELF" * 100, b"{}", bytes(100000)):
            self.path.write_bytes(content)
            self.damaged("no zip")
        self.path.unlink()
        with self.assertRaises(FileNotFoundError):
            self.reader()
        os.mkfifo(self.path)
        self.damaged("neither a file nor a directory")

    def test_changed_while_it_is_open(self):
        self.write()
        reader = self.reader()
        os.truncate(self.path, 100)
        with self.refused(package.DamagedPackage, "cut short"):
            reader.load_text("", "words")

    def test_replaced_while_it_is_open(self):
        self.write()
        reader = self.reader()
        with self.writer() as writer:
            writer.add_text("", "words", "other")
        self.assertEqual(reader.load_text("", "words"), "text" * 50)


class Directories(Hostile):
    def write(self):
        with self.writer(directory=True) as writer:
            writer.add_source("app", "", package=True)
            writer.add_text("app", "words", "text")

    def test_links(self):
        for name in ("app/words", "app"):
            self.write()
            path = self.path / name
            other = self.directory / "other"
            path.rename(other)
            path.symlink_to(other)
            self.damaged(name, "link")
            # Put there after it was opened.
            path.unlink()
            other.rename(path)
            reader = self.reader()
            path.rename(other)
            path.symlink_to(other)
            with self.refused(package.DamagedPackage, "app/words", "link"):
                reader.load_text("app", "words")
            subprocess.run(["rm", "-r", self.path, other], check=True)

    def test_pipes_and_other_files(self):
        self.write()
        os.mkfifo(self.path / "pipe")
        self.damaged("pipe", "link or a device")
        (self.path / "pipe").unlink()
        (self.path / "more").write_text("")
        self.damaged("more", "the manifest does not have it")
        (self.path / "more").unlink()
        (self.path / "app/words").write_text("tex")
        self.damaged("app/words", "3 bytes")
        (self.path / "app/words").write_text("TEXT")
        self.damaged("app/words", "hash", verify=True)
        (self.path / "app/words").unlink()
        self.damaged("app/words", "missing")

    def test_deep_directories(self):
        self.write()
        deep = self.path.joinpath(*["d"] * 40)
        deep.mkdir(parents=True)
        self.damaged("more than 32 parts")


class Manifests(Hostile):
    def test_wrong_documents(self):
        for manifest in (
            b"",
            b"\xff",
            b"null",
            b"[]",
            b"5",
            b'{"homefree_package": 1',
            b"[" * 100000,
            b'{"a":' * 100000,
            b'{"homefree_package": ' + b"9" * 1000000 + b"}",
            b'{"homefree_package": 1, "rules": [], "extern": [], "mocked": [], "members": {}, '
            b'"members": {}}',
            b'{"homefree_package": NaN}',
            b'{"homefree_package": 1.0}',
            b'{"homefree_package": true}',
            b'{"homefree_package": "1"}',
            b"{}",
            b"\xef\xbb\xbf{}",
        ):
            self.make(manifest=manifest)
            self.damaged(MANIFEST)
        self.make(manifest=b'{"homefree_package": 1, "homefree_package": 1}')
        self.damaged("a key stands twice")
        # int() takes quadratic time where Python sets no limit.
        self.make(manifest=b'{"homefree_package": ' + b"9" * 21 + b"}")
        self.damaged("more than 20 digits")

    def test_a_newer_version(self):
        self.make(change=lambda document: document.update(homefree_package=2))
        self.damaged("its version is 2", "install a newer homefree")

    def test_what_is_not_known_is_passed_over(self):
        self.make(change=lambda document: document.update(new={"a": [1]}))
        self.reader()

    def test_a_huge_manifest(self):
        self.make(manifest=b" " * (17 << 20))
        self.damaged(MANIFEST, "too many")

    def test_wrong_types(self):
        for key in ("rules", "extern", "mocked", "members"):
            for value in (None, 5, "text", True, [5], [None], {"a": 5}, [[]], {"": {}}):
                self.make(change=lambda document: document.update({key: value}))  # noqa: B023
                self.damaged(MANIFEST)

    def test_wrong_rules(self):
        for rule in (
            {"action": "run", "include": []},
            {"action": ["extern"], "include": []},
            {"action": "extern", "include": "numpy"},
            {"action": "extern", "include": [5]},
            {"action": "extern", "include": ["a..b"]},
            {"action": "extern", "include": ["***"]},
            {"action": "extern", "include": ["a"], "exclude": 5},
            {"action": "extern"},
        ):
            self.make(change=lambda document: document.update(rules=[rule]))  # noqa: B023
            self.damaged(MANIFEST)

    def test_wrong_members(self):
        good = entry("source", b"")
        for change in (
            {"kind": "program"},
            {"kind": []},
            {"kind": "extension"},
            {"kind": "buffers", "buffers": [[0, 1]]},
            {"size": -1},
            {"size": 1 << 70},
            {"size": 0.5},
            {"size": "0"},
            {"size": True},
            {"sha256": "0"},
            {"sha256": "g" * 64},
            {"sha256": "A" * 64},
            {"sha256": None},
            {"buffers": [[0, 1]]},
            {"kind": "pickle", "buffers": [[0, 1]]},
            {"kind": "pickle", "buffers": [[0]]},
            {"kind": "pickle", "buffers": [0]},
            {"kind": "pickle", "buffers": [[1, 1]]},
            {"kind": "pickle", "buffers": [[0, 65], [64, 1]]},
            {"kind": "pickle", "buffers": [[0, -1]]},
        ):
            member = {**good, **change}
            self.make(change=lambda document: document["members"].update({"app.py": member}))  # noqa: B023
            self.damaged("app.py" if "size" not in change else "")

    def test_buffers_outside_of_their_member(self):
        self.make(
            {"a": ("pickle", b""), "a.buffers": ("buffers", bytes(64))},
            change=lambda document: document["members"]["a"].update(buffers=[[0, 65]]),
        )
        self.damaged("a", "buffers are not in the package")

    def test_a_file_that_is_a_directory(self):
        self.make({"a.so": ("extension", b""), "a.so/b/c": ("resource", b"")})
        self.damaged("a.so", "directory of another")

    def test_modules_that_contradict(self):
        self.make({"app.py": ("source", b""), "app/__init__.py": ("source", b"")})
        self.damaged("it is the module app")
        self.make({"app.py": ("source", b""), "app/below.py": ("source", b"")})
        self.damaged("app.py", "app.below lies in it")
        self.make({"a-b.py": ("source", b"")})
        self.damaged("no module's")

    def test_patterns_take_no_time(self):
        pattern = ".".join(["**"] * 300)
        stars = "*a" * 300
        rules = [{"action": "deny", "include": [pattern + ".x", stars] * 50, "exclude": []}]
        source = b"def use(name):\n    return __import__(name)\n"
        self.make(
            {"app.py": ("source", source)}, change=lambda document: document.update(rules=rules)
        )
        app = self.reader().import_module("app")
        start = time.process_time()
        with self.refused(package.RefusedImport):
            app.use(".".join(["a" * 30] * 30))
        self.assertLess(time.process_time() - start, 5)

    def test_text_cannot_control_a_terminal(self):
        name = "\x1b[31mevil\u202e"
        self.make({name: ("resource", b"")})
        self.damaged()
        self.make(change=lambda document: document.update(extern=[name]))
        self.damaged()
        named = b"".join(
            b"\x8c" + bytes([len(one.encode())]) + one.encode() for one in (name, name)
        )
        raises = f"class A:\n    def __setstate__(self, state): raise ValueError({name!r})\n"
        made = b"\x8c\x03app\x8c\x01A\x93)\x81"
        for data in (named + b"\x93.", named + b"\x93K\1a.", made + b"K\1b."):
            data = PROTO + data
            self.make({"app.py": ("source", raises.encode()), "a.pkl": ("pickle", data)})
            with self.refused(package.RefusedPickle):
                self.reader().load_pickle("", "a.pkl")

    def test_many_modules_in_many_directories(self):
        members = {
            f"{'a.' * 30}m{number}.py".replace(".", "/")[:-3] + ".py": None
            for number in range(20000)
        }
        document = {"homefree_package": 1, "rules": [], "extern": [], "mocked": []}
        good = entry("source", b"")
        manifest = json.dumps({**document, "members": dict.fromkeys(members, good)}).encode()
        self.make(manifest=manifest)
        start = time.process_time()
        self.damaged()
        self.assertLess(time.process_time() - start, 10)


PROTO = b"\x80\x05"
CALL = b"\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R."


def text(value):
    return b"\x8c" + bytes([len(value)]) + value.encode()


def name(module, attribute):
    return text(module) + text(attribute) + b"\x93"


class Pickles(Hostile):
    def refuses(self, data, *texts, source=b"", change=None):
        self.make({"app.py": ("source", source), "a.pkl": ("pickle", data)}, change=change)
        with self.refused(package.RefusedPickle, "a.pkl", *texts) as caught:
            self.reader().load_pickle("", "a.pkl")
        self.assertFalse(self.ran.exists())
        return caught.exception

    def test_dangerous_names(self):
        source = f"""
import builtins, os
from os import system, getcwd
from subprocess import run, Popen
from functools import reduce
class A:
    os = os
    class B: pass
    def __getattr__(self, name): {self.run_code.strip()}
a = A()
""".encode()
        for module, attribute in (
            ("os", "system"),
            ("posix", "system"),
            ("builtins", "eval"),
            ("builtins", "exec"),
            ("builtins", "getattr"),
            ("builtins", "setattr"),
            ("builtins", "__import__"),
            ("builtins", "open"),
            ("builtins", "compile"),
            ("builtins", "type.mro"),
            ("builtins", "str.format"),
            ("builtins", "object.__subclasses__"),
            ("operator", "attrgetter"),
            ("operator", "methodcaller"),
            ("functools", "reduce"),
            ("importlib", "import_module"),
            ("copyreg", "_reconstructor"),
            ("fractions", "Fraction"),
            ("pickle", "loads"),
            ("subprocess", "Popen"),
            ("types", "FunctionType"),
            ("types", "CodeType"),
            ("_io", "open"),
            ("io", "FileIO"),
            ("sys", "modules"),
            ("homefree", "load"),
            ("homefree.package", "Reader"),
            ("__main__", "x"),
            ("app", "system"),
            ("app", "getcwd"),
            ("app", "run"),
            ("app", "Popen"),
            ("app", "reduce"),
            ("app", "os"),
            ("app", "os.system"),
            ("app", "builtins.eval"),
            ("app", "A.os"),
            ("app", "A.os.system"),
            ("app", "A.__init__"),
            ("app", "A.__class__"),
            ("app", "A.B.__subclasses__"),
            ("app", "a.B"),
            ("app", "__builtins__"),
            ("app", "__loader__"),
            ("app", "nothing"),
            ("app", ""),
            ("", "A"),
            ("app.", "A"),
            ("..app", "A"),
            ("app/../os", "system"),
        ):
            for data in (
                name(module, attribute) + b".",
                name(module, attribute) + text("true") + b"\x85R.",
                name(module, attribute) + text("true") + b"\x85\x81.",
                name(module, attribute) + text("true") + b"\x85}\x92.",
                b"]" + name(module, attribute) + b"a.",
            ):
                self.refuses(PROTO + data, source=source)
        # What the class is for works.
        self.make(
            {"app.py": ("source", source), "a.pkl": ("pickle", PROTO + name("app", "A.B") + b".")}
        )
        self.assertEqual(self.reader().load_pickle("", "a.pkl").__name__, "B")

    def test_the_list_is_documented(self):
        page = pathlib.Path(__file__).resolve().parents[2] / "docs/packages.md"
        text = page.read_text(encoding="utf-8").partition("## Trust")[2]
        shown = {"_compile", "_array_reconstructor"}
        shown |= {"Path", "PosixPath", "PurePath", "PurePosixPath", "PureWindowsPath"}
        for names in (*_pickles.CALLS.values(), *_pickles.VALUES.values()):
            for one in names - shown - {"Ellipsis"}:
                self.assertIn(f"`{one}`", text)
        for module in {one.partition(".")[0].lstrip("_") for one in _pickles.CALLS}:
            self.assertIn(f"`{module}`", text)

    def test_denied_mocked_and_undeclared(self):
        for action in ("deny", "mock"):
            rules = [{"action": action, "include": ["numpy.**"], "exclude": []}]
            self.refuses(
                PROTO + name("numpy", "ndarray") + b".",
                f"numpy is {'denied' if action == 'deny' else 'mocked'}",
                change=lambda document: document.update(rules=rules),  # noqa: B023
            )
        self.refuses(PROTO + name("numpy", "ndarray") + b".", "neither in the package nor extern")

    def test_missing_modules(self):
        rules = [{"action": "extern", "include": ["not_there.**"], "exclude": []}]
        self.refuses(
            PROTO + name("not_there.__main__", "A") + b".",
            "two underscores",
            change=lambda document: document.update(rules=rules),
        )
        error = self.refuses(
            PROTO + name("not_there", "A") + b".",
            "not_there",
            change=lambda document: document.update(rules=rules),
        )
        self.assertIsInstance(error.__cause__, ModuleNotFoundError)

    def test_calls_of_what_is_not_named(self):
        partial = name("functools", "partial")
        for data in (
            # partial(bytes, 10**12)()
            partial + name("builtins", "bytes") + b"\x8a\x06\0\0\0\0\0\1\x86R)R.",
            # a type that was computed
            name("builtins", "type") + b"N\x85R)R.",
            b"N)R.",
            b"K\1)\x81.",
        ):
            self.refuses(PROTO + data, "calls")

    def test_endless_ranges_and_huge_objects(self):
        endless = name("builtins", "range") + b"\x8a\x07\0\0\0\0\0\0\1\x85R"
        for data in (
            name("collections", "deque") + endless + b"K\1\x86R.",
            name("collections", "deque") + endless + b"\x94K\1\x86R.",
            endless + b"\x940" + name("collections", "Counter") + b"h\0\x85R.",
            name("builtins", "bytes") + b"\x8a\x07\0\0\0\0\0\0\1\x85R.",
            name("builtins", "bytearray") + b"\x8a\x07\0\0\0\0\0\0\1\x85\x81.",
            name("builtins", "list") + endless + b"\x85R.",
            name("builtins", "sum") + endless + b"\x85R.",
        ):
            self.refuses(PROTO + data, "call")

    def test_loggers_with_many_parents(self):
        dots = b"X" + struct.pack("<L", 100000) + b"a." * 50000
        self.refuses(PROTO + name("logging", "getLogger") + dots + b"\x85R.", "no short text")
        self.make(
            {"a.pkl": ("pickle", PROTO + name("logging", "getLogger") + text("a.b") + b"\x85R.")}
        )
        self.assertEqual(self.reader().load_pickle("", "a.pkl").name, "a.b")

    def test_changing_what_is_named(self):
        source = b"class A: pass\n"
        for data in (
            name("app", "A") + b"}" + text("x") + b"K\1sb.",
            name("app", "A") + b"\x94}" + text("x") + b"K\1s0h\0}b.",
            name("app", "A") + text("x") + b"K\1s.",
            name("app", "A") + b"K\1a.",
            name("app", "A") + b"(K\1e.",
            name("app", "A") + b"(K\1\x90.",
        ):
            self.refuses(PROTO + data, "changes app.A", source=source)
        logger = name("logging", "getLogger") + text("homefree") + b"\x85R"
        state = b"}" + text("disabled") + b"K\1sb"
        for data in (logger + state + b".", logger + b"\x940h\0" + state + b"."):
            self.refuses(PROTO + data, "changes a logger")

    def test_nested_tuples(self):
        """Hashing them descends in C, without a limit."""
        self.refuses(PROTO + b"}" + b")" + b"\x85" * 1000000 + b"K\1s.", "nests more than")
        self.refuses(PROTO + b"(" * 100000 + b"t" * 99999 + b"t.", "nests more than")
        # And with few objects it can take for ever.
        doubled = (
            b")"
            + b"\x94h\0\x86"
            + b"".join(b"\x94" + b"h" + bytes([one]) + b"\x86" for one in range(1, 200))
        )
        self.refuses(PROTO + b"}" + doubled + b"K\1s.", "too often")
        listed = b")" + b"".join(b"\x94h" + bytes([one]) + b"\x86" for one in range(28))
        many = b"h\x1b" * 200
        self.refuses(PROTO + listed + b"0](" + many + b"e.", "too often")

    def test_memory_that_the_stream_does_not_pay_for(self):
        for data in (
            b"Nr\xff\xff\xff\x7f.",  # a memo with two thousand million places
            b"X\xff\xff\xff\xff.",
            b"\x8d" + b"\xff" * 8 + b".",
            b"\x8e" + b"\xff" * 7 + b"\x7f.",
            b"\x96" + b"\xff" * 7 + b"\x7f.",
            b"\x95" + b"\xff" * 8 + b".",
            b"\x8b\xff\xff\xff\x7f.",
            b"Nq\1.",
            b"j\xff\xff\xff\xff.",
        ):
            self.refuses(PROTO + data)

    def test_other_opcodes(self):
        for data in (
            b"cos\nsystem\n.",
            b"(S'true'\nios\nsystem\n.",
            b"(cos\nsystem\nS'true'\no.",
            b"P1\n.",
            b"NQ.",
            b"\x82\x01.",
            b"\x83\x01\0.",
            b"\x84\x01\0\0\0.",
            b"I1\n.",
            b"N2.",
        ):
            self.refuses(PROTO + data)
        for data in (b"", b".", b"N.", b"\x80\x02N.", b"\x80\x06N.", b"\x80\x05", b"\x80"):
            self.refuses(data)

    def test_streams_that_are_cut_short(self):
        data = pickle.dumps([1, "a", (2.5, {b"x": None}), {1}, complex(1, 2)] * 3, 5)
        for length in range(len(data)):
            self.refuses(data[:length])
        self.refuses(data + b"N.")

    def test_stacks_that_do_not_fit(self):
        for data in (
            b"0.",
            b"\x94.",
            b"t.",
            b"u.",
            b"(K\1u.",
            b"(a.",
            b"(.",
            b"NN.",
            b"].0",
            b"(\x85.",
        ):
            self.refuses(PROTO + data)

    def test_buffers_that_are_not_there(self):
        self.refuses(PROTO + b"\x97.", "takes 1 buffers")
        self.refuses(PROTO + b"N\x98.")

    def test_the_scanner_agrees_with_pickle(self):
        """On what a pickler writes, the memo and the stack are followed as the unpickler does."""
        import random

        seeded = random.Random(1)

        def value(depth):
            kind = seeded.randrange(12 if depth < 5 else 6)
            if kind < 6:
                return seeded.choice([1, -(2**80), 1.5, "text" * 80, b"x" * 300, None, "a", True])
            made = [value(depth + 1) for _ in range(seeded.randrange(5))]
            if kind == 6:
                return tuple(made)
            if kind == 7:
                return {str(key): one for key, one in enumerate(made)}
            if kind == 8:
                return [made, made, tuple(made)]
            if kind == 9:
                return {1, 2, frozenset("abc")}
            if kind == 10:
                made.append(made)
            return made

        for _ in range(300):
            data = pickle.dumps(value(0), 5)
            self.assertEqual(_pickles.Scan(data).named, {})
            pickle.loads(data)

    def test_a_hostile_pickle_stops_nobody(self):
        """While one thread is refused, others load."""
        good = pickle.dumps({"a": [1, 2]}, 5)
        self.make({"good": ("pickle", good), "bad": ("pickle", PROTO + CALL)})
        reader = self.reader()
        failed = []

        def load(member):
            for _ in range(200):
                try:
                    found = reader.load_pickle("", member)
                    if member == "bad" or found != {"a": [1, 2]}:
                        failed.append(found)
                except package.RefusedPickle as error:
                    if member == "good":
                        failed.append(error)

        threads = [threading.Thread(target=load, args=(one,)) for one in ("good", "bad") * 2]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.assertEqual(failed, [])


class Exceptions(Hostile):
    def test_they_can_be_pickled(self):
        self.make(change=lambda document: document.update(homefree_package=7))
        with self.assertRaises(package.DamagedPackage) as caught:
            self.reader()
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual(str(again), str(caught.exception))
        self.assertEqual((again.package, again.member), (str(self.path), MANIFEST))

    def test_nothing_runs_before_it_is_asked_for(self):
        source = self.run_code.encode()
        self.make({"app/__init__.py": ("source", source), "app/m.py": ("source", source)})
        reader = self.reader(verify=True)
        reader.file_structure()
        reader.load_bytes("app", "m.py")
        subprocess.run(
            [sys.executable, "-s", "-m", "homefree.package", "show", self.path],
            check=True,
            capture_output=True,
        )
        self.assertFalse(self.ran.exists())
        reader.import_module("app")
        self.assertTrue(self.ran.exists())

    def test_a_changed_source_does_not_run(self):
        source = self.run_code.encode() + b"#1"
        self.make({"app.py": ("source", source)})
        self.path.write_bytes(self.path.read_bytes().replace(b"#1", b"#2"))
        self.damaged("app.py", "hash", use=lambda reader: reader.import_module("app"))

    def test_sources_that_are_no_sources(self):
        for source in (b"\xff\xfe", b"def", b"\0", b"(" * 100000):
            self.make({"app.py": ("source", source)})
            with self.assertRaises((package.DamagedPackage, SyntaxError, ValueError, MemoryError)):
                self.reader().import_module("app")


if __name__ == "__main__":
    support.main()
