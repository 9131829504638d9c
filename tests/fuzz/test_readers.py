"""What Python reads of files and channels that others may have damaged: archives, older reports,
baselines, records of processes, records and indexes of the cache, notes beside prebuilt modules,
what a recorded process wrote, and what a host of the harness answers. Whatever is in there, each
reader gives a result of its kind or its error.

Usage: test_readers.py [unittest arguments]. Exits with 77 where hypothesis is not installed.
"""

import io
import json
import os
import re
import signal
import socket
import sys
import tarfile
import tempfile
import types
import unittest
import zipfile
from pathlib import Path

try:
    from hypothesis import HealthCheck, example, given, settings
    from hypothesis import strategies as st
    from hypothesis.configuration import set_hypothesis_home_dir
except ImportError:
    print("hypothesis is not installed (Debian: python3-hypothesis)")
    sys.exit(77)

from homefree.command import (
    doctor,
    doctor_record,
    doctor_text,
    inspect_archive,
    inspect_baseline,
    inspect_image,
    output,
    report_compare,
    report_text,
)
from homefree.command.start import Failure
from homefree.extension import _files, _index, _prebuilt
from homefree.extension._record import Record
from homefree.harness import _hosts, _recording
from homefree.pytest import _findings

HOME = tempfile.TemporaryDirectory(prefix="homefree-hypothesis-")
set_hypothesis_home_dir(HOME.name)
settings.register_profile(
    "readers",
    max_examples=30,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("readers")

RULES = Path(__file__).resolve().parents[2] / "loader/record/process_record.def"
DOCTOR_RULES = re.findall(r'^HF_DOCTOR_RULE\(\w+, "([a-z-]+)"', RULES.read_text(), re.MULTILINE)
DEEP = b"[" * 200000
# A given alphabet, because hypothesis would first make a table of Unicode.
texts = st.text("ab1./ \0\n\t'\"\\\u00e9\u20ac\ud83d", max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def too_long(*_):
    raise TimeoutError("a reader takes too long")


class Readers(unittest.TestCase):
    def setUp(self):
        signal.signal(signal.SIGALRM, too_long)
        signal.alarm(20)
        self.addCleanup(signal.alarm, 0)
        directory = tempfile.TemporaryDirectory(prefix="homefree-readers-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.path = os.path.join(directory.name, "file")

    def write(self, content):
        with open(self.path, "wb") as file:
            file.write(content)

    # ---- pytest --homefree-baseline ----

    def read_baseline(self, content):
        self.write(content)
        try:
            keys = _findings.read_baseline(self.path)
        except ValueError as error:
            self.assertIn("is no baseline of homefree", str(error))
        else:
            self.assertTrue(all(len(key) == 7 for key in keys))

    @given(st.binary())
    @example(DEEP)
    @example(b'{"homefree_baseline": 1, "findings": [{"rule": [], "allocated": {}, "freed": {}}]}')
    def test_baseline_of_bytes(self, content):
        self.read_baseline(content)

    @given(values, values, values)
    def test_baseline_of_values(self, version, findings, place):
        side = {"object": "/a.so", "function": "malloc", "symbol": place}
        finding = {"rule": "foreign-free", "allocated": side, "freed": findings}
        for found in (
            findings,
            [finding],
            [{**finding, "freed": side}],
            [{**finding, "rule": place}],
        ):
            for number in version, 1:
                document = {"homefree_baseline": number, "findings": found}
                self.read_baseline(json.dumps(document).encode())

    # ---- homefree report --compare ----

    def read_older_report(self, content):
        self.write(content)
        empty = {"homefree_report": 1, "findings": []}
        try:
            comparison = report_compare.compare("old", report_compare.read(self.path), empty)
        except Failure as error:
            self.assertIn("cannot compare with ", str(error))
            return
        json.dumps(comparison.document())
        document = dict.fromkeys(("processes", "findings", "rules", "suppressed", "matrix"), [])
        text = report_text.text({**document, "left_out": 0}, comparison).decode()
        self.assertTrue(all(letter == "\n" or letter.isprintable() for letter in text), text)

    @given(st.binary())
    @example(DEEP)
    @example(b"9" * 1000000)
    @example(b'{"homefree_report": 1, "findings": [{"rule": "\x1b[m\\ud83d", "severity": "\xff"}]}')
    def test_older_report_of_bytes(self, content):
        self.read_older_report(content)

    @given(values, values, values, texts)
    def test_older_report_of_values(self, version, side, count, text):
        finding = {"rule": text, "severity": "error", "count": 1, "allocated": side, "freed": side}
        known = {"object": text, "function": text, "symbol": None, "python": [side, side]}
        for findings in (
            side,
            [side],
            [finding, {**finding, "count": count}],
            [{**finding, "freed": known}, {**finding, "allocated": known, "rule": count}],
        ):
            for number in version, 1:
                document = {"homefree_report": number, "findings": findings}
                self.read_older_report(json.dumps(document).encode())

    # ---- homefree doctor ----

    LINES = (
        b"homefree-doctor\t2",
        b"process\t12\texit\t0\t/bin/app\ton",
        b"preload\tlibx.so:/a/lib%c3%a9.so",
        b"heap\t4096\t4096\t2048\t4096",
        b"unseen\tno%20memory",
        b"object\t0\tordinary\tmp\t/bin/app\t-",
        b"object\t0\truntime\t-\t/lib/libc.so.6\tlibc.so.6",
        b"object\t0\thomefree\thl\t/lib/libhomefree.so.1\tlibhomefree.so.1",
        b"object\t0\tordinary\tmsy\t/lib/%c3%a9.so\tlib%20x.so",
        b"object\t0\tordinary\tm\t/lib/libx.so\tlibstdc++.so.6",
        b"object\t7\tordinary\tm\t/lib/%1b[m\t-",
        b"defines\t1\tmalloc",
        b"defines\t1\tfree",
        b"defines\t4\tmalloc",
        b"defines\t4\tfree",
        b"slot\t0\tfree\tcall\trouted\t1\t-",
        b"slot\t0\tmalloc\tdata\tplain\t4\t-",
        b"slot\t3\tfree\tword\trefused\t3\tbecause",
        b"slot\t3\tfree\tcall\trefused\t-\t-",
        b"slot\t3\t_Znwm\tcall\tplain\t-\t-",
        b"slot\t3\t_ZdlPv\tcall\trouted\t1\t-",
        b"reach\t3\tstatic",
        b"foreign\t5\tjemalloc\t4096\thome\t0",
        b"foreign\t5\tmim%ff\t1\tknown\t3",
        b"contains\t5\ttcmalloc",
        b"publishes\t5\tmine",
        b"copy\t0\tvariable\tmalloc\t1",
        b"crash\t5\tfree\t0",
        b"freeing",
    )

    def read_doctors_record(self, data):
        """Result: whether it is one."""
        try:
            record = doctor_record.read(data)
        except doctor_record.Unreadable:
            return False
        rules = {name: {"severity": "note", "remedy": "", "help": None} for name in DOCTOR_RULES}
        process = doctor.process(record, signal.SIGSEGV, 0, rules)
        json.loads(output.document(process))
        document = {"processes": [process]}
        text = doctor_text.text(document, "-", True).decode()
        self.assertTrue(all(letter == "\n" or letter.isprintable() for letter in text), text)
        return True

    def record_of(self, lines):
        return b"\n".join([*lines, b"end\t%d" % len(lines), b""])

    def test_whole_record(self):
        lines = list(self.LINES)
        self.assertTrue(self.read_doctors_record(self.record_of(lines)))
        for moment in b"start", b"signal", b"asked", b"live":
            lines[1] = b"process\t12\t%s\t11\t-\toff" % moment
            self.assertTrue(self.read_doctors_record(self.record_of(lines)))

    @given(st.binary())
    @example(b"homefree-doctor\t2\nend\t1\n")
    def test_record_of_bytes(self, data):
        self.assertFalse(self.read_doctors_record(data))

    @given(st.integers(0, 3000))
    def test_record_cut(self, length):
        whole = self.record_of(self.LINES)
        length %= len(whole)
        self.assertFalse(self.read_doctors_record(whole[:length]))

    @given(
        st.lists(st.tuples(st.integers(0), st.sampled_from(b"\0\t\n%-0179azpm\xff")), max_size=3)
    )
    def test_changed_record(self, changes):
        data = bytearray(self.record_of(self.LINES))
        for at, byte in changes:
            data[at % len(data)] = byte
        self.read_doctors_record(bytes(data))

    @given(st.integers(1, 27), st.integers(1, 27), st.integers(0, 7), values)
    def test_record_of_other_lines(self, left_out, other, place, value):
        lines = list(self.LINES)
        fields = lines[other].split(b"\t")
        fields[place % len(fields)] = str(value).encode("utf-8", "replace").replace(b"\n", b"")
        lines.append(b"\t".join(fields))
        del lines[left_out]
        self.read_doctors_record(self.record_of(lines))

    # ---- homefree inspect ----

    def read_archive(self, content, is_tar):
        self.write(content)
        with open(self.path + ".memory", "w+b") as memory:
            archive = inspect_archive.Archive(memory.fileno())
            archive.read(self.path, is_tar)
            for name, place, at, size in archive.members:
                self.assertEqual((type(name), type(place)), (str, str))
                self.assertEqual(os.pread(memory.fileno(), 4, at), b"\x7fELF")
                self.assertLessEqual(at + size, os.fstat(memory.fileno()).st_size)
        json.dumps(archive.members + archive.problems)

    @given(st.booleans(), texts, st.lists(st.tuples(st.integers(0), st.integers(0, 255))))
    def test_damaged_archive(self, is_tar, name, changes):
        packed = io.BytesIO()
        object = b"\x7fELF" + name.encode("utf-8", "replace")
        if is_tar:
            with tarfile.open(fileobj=packed, mode="w") as archive:
                member = tarfile.TarInfo(name.encode("utf-8", "replace").decode() or "a")
                member.size = len(object)
                archive.addfile(member, io.BytesIO(object))
        else:
            inner = io.BytesIO()
            for file, inside in (inner, object), (packed, None):
                with zipfile.ZipFile(file, "w") as archive:
                    archive.writestr("a.so", object)
                    archive.writestr("b.whl", inside or inner.getvalue())
        content = bytearray(packed.getvalue())
        for at, byte in changes:
            content[at % len(content)] = byte
        self.read_archive(content, is_tar)

    @given(st.booleans(), st.binary())
    def test_archive_of_bytes(self, is_tar, content):
        self.read_archive(content, is_tar)

    # ---- the cache of homefree.extension ----

    IMAGE_KINDS = (
        tarfile.REGTYPE,
        tarfile.DIRTYPE,
        tarfile.SYMTYPE,
        tarfile.LNKTYPE,
        tarfile.CHRTYPE,
        tarfile.GNUTYPE_SPARSE,
    )
    image_names = st.lists(
        st.sampled_from(["a", "b", "..", ".", "", ".wh.a", ".wh..wh..opq", "dev", "c.so"]),
        min_size=1,
        max_size=4,
    ).map("/".join)

    @given(
        st.lists(st.tuples(st.sampled_from(IMAGE_KINDS), image_names, image_names), max_size=12),
        st.booleans(),
        st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=3),
    )
    def test_image(self, members, saved, changes):
        """Whatever an image has, what is written stays below the directory."""
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w") as archive:
            for kind, name, target in members:
                member = tarfile.TarInfo(name)
                member.type, member.linkname, member.size = kind, target, 8
                archive.addfile(member, io.BytesIO(b"\x7fELFmore"))
        image = layer
        if saved:
            image = io.BytesIO()
            with tarfile.open(fileobj=image, mode="w") as archive:
                for name, content in {
                    "1": layer.getvalue(),
                    "manifest.json": b'[{"Layers": ["1", "1"]}]',
                }.items():
                    member = tarfile.TarInfo(name)
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
        content = bytearray(image.getvalue())
        for at, value in changes:
            content[at % len(content)] = value
        self.write(bytes(content))
        with tempfile.TemporaryDirectory() as above:
            os.mkdir(f"{above}/below")
            read = inspect_image.Image(f"{above}/below")
            read.read(self.path, True)
            self.assertEqual(os.listdir(above), ["below"])
            self.assertLessEqual(set(os.listdir(f"{above}/below")), {"root", "files"})
        json.dumps(read.problems)

    @given(
        st.one_of(
            st.binary(),
            st.just(DEEP),
            st.recursive(
                st.one_of(st.none(), st.integers(), texts),
                lambda inner: st.lists(inner)
                | st.dictionaries(
                    st.sampled_from(["homefree_inspect_baseline", "known", "rule", "file", "says"]),
                    inner,
                ),
            ).map(lambda value: json.dumps(value).encode()),
        )
    )
    def test_known_findings(self, content):
        self.write(content)
        try:
            known = inspect_baseline.read(self.path)
        except Failure:
            return
        self.assertTrue(all(len(key) == 3 for key in known))

    def make_record(self):
        here = os.path.realpath(__file__)
        record = Record(
            "m.so",
            "1 2 3 4",
            "0" * 64,
            [("cc", "/usr/bin/cc", "1 2 3 4", "0" * 64)],
            [(here, _files.identity(here), _files.Hashes().of(here))],
        )
        record.write(self.path)
        with open(self.path, "rb") as file:
            return file.read().split(b"\n")

    def read_record(self):
        record = Record.read(self.path)
        if record is None:
            return
        self.assertTrue(all(len(one) == 4 for one in record.compilers))
        self.assertTrue(all(len(one) == 3 for one in record.files))
        refreshed = record.refreshed(self.directory, _files.Hashes())
        self.assertTrue(refreshed is None or isinstance(refreshed, Record))

    @given(
        st.integers(0, 12),
        st.sampled_from([b"-4", b"1000", b"9" * 30, b"m.so\0", b".."]) | st.binary(max_size=40),
    )
    @example(4, b"100")  # more compilers than there are lines
    @example(4, b"9" * 18)
    @example(4, b"-1")
    @example(1, b"m\0.so")
    @example(9, b"/a\0b")
    def test_record_with_another_line(self, number, line):
        lines = self.make_record()
        lines[number % len(lines)] = line
        self.write(b"\n".join(lines))
        self.read_record()

    @given(st.integers(0, 400), st.binary(max_size=8))
    def test_record_cut_short(self, size, more):
        content = b"\n".join(self.make_record())
        self.write(content[:size] + more)
        self.read_record()

    @given(st.binary() | st.lists(st.sampled_from([b"\n", b"\n\n", b"\t", b"r", b"..", b"/"])))
    def test_index(self, content):
        content = content if isinstance(content, bytes) else b"".join(content)
        with open(self.directory + "/index", "wb") as file:
            file.write(content)
        for text, entry, lines in _index.read(self.directory):
            self.assertNotIn("/", entry)
            self.assertIsInstance(text, str)
            self.assertIsInstance(lines, list)

    @given(st.binary())
    @example(_prebuilt.FIRST.encode() + b"\n\xff\xfe m.c\n")
    def test_note_beside_a_prebuilt_module(self, content):
        with open(self.path + ".sources", "wb") as file:
            file.write(content)
        reason = _prebuilt._changed(self.path, [__file__])
        self.assertTrue(reason is None or "is not what it was built from" in reason)

    # ---- the harness ----

    @given(st.lists(st.binary() | values.map(lambda value: json.dumps(value).encode()), max_size=6))
    @example([b'{"call": {"value": "'])
    @example([b'"imported"', b"7", b"\xff", DEEP])
    @example([b'{"call": 7}', b'{"call": {"value": "import os"}}', b'{"static": []}'])
    def test_what_a_recorded_process_wrote(self, lines):
        self.write(b"\n".join(lines))
        recorded = _recording.Recorded(0)
        _recording._read(recorded, self.directory)
        self.assertIsInstance(recorded.calls, list)

    @given(st.lists(st.binary() | values.map(lambda value: json.dumps(value).encode()), max_size=6))
    @example([b"what a module printed", b""])
    @example([b'{"id": []}', b""])
    @example([DEEP, b""])
    def test_what_a_host_answers(self, lines):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.settimeout(5)
            theirs.sendall(b"\n".join(lines)[:100000] + b"\n")
            host = types.SimpleNamespace(channel=ours, unread=b"", waiting={1: 0.0})
            answers = _hosts.Host.answers(host)
            self.assertTrue(answers is None or all("id" in answer for answer in answers))


if __name__ == "__main__":
    unittest.main()
