"""Bytes of zips, manifests and pickles that hypothesis makes up and changes: each is loaded, or is
one PackageError; nothing else is raised, takes for ever, or runs what it must not."""

import hashlib
import io
import json
import os
import pickle
import pickletools
import sys
import zipfile

import support
from homefree import package
from homefree.package import _manifest, _pickles
from homefree.package._package_errors import Wrong

try:
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st
except ImportError:
    print("skipped: this Python has no hypothesis", file=sys.stderr)
    sys.exit(5)  # as unittest does from 3.12 on if every test was skipped

EXAMPLES = int(os.environ.get("HOMEFREE_EXAMPLES", "300"))
thoroughly = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize="HOMEFREE_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner)
    | st.tuples(inner, inner)
    | st.dictionaries(st.text(), inner)
    | st.builds(lambda one: [one, one, (one,)], inner),
    max_leaves=20,
)
# Opcodes with arguments that fit, in any order: most of the streams go wrong late.
short = st.binary(max_size=6)
opcodes = st.one_of(
    st.sampled_from(
        [bytes([one]) for one in b"().0NGKMJ]}tudesabR\x81\x85\x86\x87\x88\x89\x8f\x90"]
    ),
    st.sampled_from([bytes([one]) for one in b"\x91\x92\x93\x94\x97\x98"]),
    st.sampled_from([b"h\0", b"h\1", b"h\2", b"K\1", b"q\0", b"j\0\0\0\0", b"\x8a\1\5"]),
    st.sampled_from(
        [
            b"\x8c\x03app\x8c\x01A\x93",
            b"\x8c\x02os\x8c\x06system\x93",
            b"\x8c\x08builtins\x8c\x05range\x93",
            b"\x8c\x0bcollections\x8c\x05deque\x93",
            b"\x8c\x08builtins\x8c\x04eval\x93",
        ]
    ),
    short.map(lambda one: b"\x8c" + bytes([len(one)]) + one),
    short,
)
streams = st.builds(
    lambda middle, end: b"\x80\x05" + b"".join(middle) + end,
    st.lists(opcodes, max_size=30),
    st.sampled_from([b".", b"t.", b""]),
)


def dumps(value):
    return pickle.dumps(value, 5)


def changed(data, changes):
    """Bytes of data replaced, taken out, or put in."""
    result = bytearray(data)
    for place, how, new in changes:
        at = place % (len(result) + 1)
        if how == 0 and at < len(result):
            result[at : at + len(new)] = new
        elif how == 1:
            del result[at : at + len(new)]
        else:
            result[at:at] = new
    return bytes(result)


changes = st.lists(
    st.tuples(st.integers(0, 1 << 20), st.integers(0, 2), st.binary(min_size=1, max_size=8)),
    min_size=1,
    max_size=4,
)
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)


class Fuzzed(support.TestCase):
    def setUp(self):
        super().setUp()
        with self.writer() as writer:
            writer.extern("numpy.**")
            writer.add_source("app", "class A: pass\n")
            writer.add_text("app2", "words", "some words " * 5)
            writer.add_pickle("", "a.pkl", {"a": [1, (2, 3)], "b": complex(1, 2)})
        self.original = self.path.read_bytes()
        with zipfile.ZipFile(self.path) as file:
            self.members = {name: file.read(name) for name in file.namelist()}
        # What a pickle must not reach.
        if not hasattr(Fuzzed, "hooked"):
            Fuzzed.hooked = True
            sys.addaudithook(Fuzzed.hear)
        Fuzzed.heard = []

    heard = ()

    @staticmethod
    def hear(event, _):
        if event in ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn"):
            Fuzzed.heard.append(event)

    def use(self, data):
        self.path.write_bytes(data)
        try:
            with package.Reader(self.path) as reader:
                for name in list(reader._manifest.members)[:10]:
                    reader.load_bytes("", name)
                reader.file_structure()
                reader.load_pickle("", "a.pkl")
                return True
        except package.PackageError as error:
            self.assertTrue(str(error).startswith("homefree: "), error)
            self.assertTrue(str(error).isprintable(), ascii(str(error)))
            return False
        finally:
            self.assertEqual(Fuzzed.heard, [])

    def zipped(self, **members):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as made:
            for name, data in {**self.members, **members}.items():
                made.writestr(name, data)
        return file.getvalue()

    def test_zips(self):
        @thoroughly
        @given(changes)
        def check(some):
            self.use(changed(self.original, some))

        check()

    def test_directories_of_zips(self):
        start = self.original.index(b"PK\1\2")

        @thoroughly
        @given(changes)
        def check(some):
            self.use(self.original[:start] + changed(self.original[start:], some))

        check()

    def test_any_bytes(self):
        @thoroughly
        @given(st.binary(max_size=300))
        def check(data):
            self.assertFalse(self.use(data))

        check()

    def test_manifests(self):
        manifest = self.members["homefree_package.json"]

        @thoroughly
        @given(changes)
        def check(some):
            self.use(self.zipped(**{"homefree_package.json": changed(manifest, some)}))

        check()

    def test_documents(self):
        """Valid JSON of any shape, alone and in the place of each part."""
        original = json.loads(self.members["homefree_package.json"])

        def places(value, path=()):
            yield path
            items = value.items() if isinstance(value, dict) else enumerate(value)
            if isinstance(value, (dict, list)):
                for key, inner in items:
                    yield from (
                        places(inner, (*path, key))
                        if isinstance(inner, (dict, list))
                        else [(*path, key)]
                    )

        every = sorted(places(original), key=repr)

        @thoroughly
        @given(st.sampled_from(every), documents)
        def check(path, new):
            document = json.loads(json.dumps(original))
            if path:
                at = document
                for key in path[:-1]:
                    at = at[key]
                at[path[-1]] = new
            else:
                document = new
            data = json.dumps(document).encode()
            try:
                made = _manifest.parse(data)
                _manifest.modules(made.members)
            except Wrong:
                return
            # What is accepted can be written and read again.
            again = _manifest.parse(made.dump())
            self.assertEqual(again.dump(), made.dump())

        check()

    def load(self, data):
        manifest = json.loads(self.members["homefree_package.json"])
        manifest["members"]["a.pkl"].update(size=len(data), sha256=hashlib.sha256(data).hexdigest())
        members = {"a.pkl": data, "homefree_package.json": json.dumps(manifest)}
        return self.use(self.zipped(**members))

    def test_changed_pickles(self):
        @thoroughly
        @given(values, changes)
        def check(value, some):
            self.load(changed(dumps(value), some))

        check()

    def test_streams_of_opcodes(self):
        @thoroughly
        @given(streams)
        def check(data):
            self.load(data)

        check()

    def test_whole_pickles_are_loaded(self):
        @thoroughly
        @given(values)
        def check(value):
            self.assertTrue(self.load(dumps(value)))

        check()

    def test_the_scanner_and_pickletools(self):
        """Where one follows a stream to its end, the other does; the scanner refuses more."""

        @thoroughly
        @given(
            st.one_of(
                streams, st.builds(lambda v, c: changed(pickle.dumps(v, 5), c), values, changes)
            )
        )
        def check(data):
            try:
                scan = _pickles.Scan(data)
            except _pickles.Broken:
                return
            found = [opcode.name for opcode, _, _ in pickletools.genops(data)]
            self.assertEqual(found[-1], "STOP")
            self.assertEqual(scan.buffers, found.count("NEXT_BUFFER"))
            self.assertLessEqual(len(scan.named), found.count("STACK_GLOBAL"))
            self.assertNotIn("GLOBAL", found)

        check()


if __name__ == "__main__":
    support.main()
