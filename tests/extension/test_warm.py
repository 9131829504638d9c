"""What decides whether a module is taken unread: directories, files and compilers that have
changed, indexes that nobody wrote, and which requests are the same. Nothing is compiled here."""

import os
import pathlib
import random
import signal
import sys
import tempfile
import unittest
from unittest import mock

from homefree.extension import _files, _index, _request

TEXT = "('fast', ['/a/fast.c'], …)"
SECONDS = 120


def too_long(*_):
    raise AssertionError(f"it hangs: {SECONDS} seconds have passed")


class Warm(unittest.TestCase):
    def setUp(self):
        signal.signal(signal.SIGALRM, too_long)
        signal.alarm(SECONDS)
        self.addCleanup(signal.alarm, 0)
        temporary = tempfile.TemporaryDirectory(prefix="homefree-warm-")
        self.addCleanup(temporary.cleanup)
        self.work = pathlib.Path(temporary.name)
        self.root = self.work / "cache"
        self.directory = self.root / "fast"
        self.module = self.file("cache/fast/0123/fast.so")
        self.source = self.file("fast.c")
        self.header = self.file("value.h")
        self.compiler = self.program("bin/cc")
        self.path = f"{self.work}/early:{self.work}/bin"
        os.chmod(self.root, 0o700)
        os.chmod(self.directory, 0o700)
        self.write(self.index())

    def file(self, name):
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        return path

    def program(self, name):
        path = self.file(name)
        path.chmod(0o755)
        return path

    def lines(self):
        """The lines of a block as _index.py writes them."""
        lines = ["0123", "fast.so", _files.identity(self.module), "3"]
        lines += ["cc", str(self.compiler), _files.identity(self.compiler)]
        for path in (self.source, self.header):
            lines += [str(path), _files.identity(path)]
        return lines

    def block(self, lines, text=TEXT):
        return "\n".join(["\t" + text, *lines]) + "\n\n"

    def index(self, *blocks):
        return _index.FIRST + "".join(blocks or (self.block(self.lines()),))

    def write(self, text):
        index = self.directory / "index"
        # Some file systems flush a file that is truncated and rewritten.
        index.unlink(missing_ok=True)
        index.write_bytes(text if isinstance(text, bytes) else os.fsencode(text))

    def find(self, text=TEXT, **keywords):
        with mock.patch.dict(os.environ, {"PATH": keywords.get("path", self.path)}):
            return _index.find(str(self.root), str(self.directory), text)

    def assert_found(self, **keywords):
        self.assertEqual(self.find(**keywords), str(self.module))

    def assert_none(self, **keywords):
        self.assertIsNone(self.find(**keywords))


class Fresh(Warm):
    def test_nothing_has_changed(self):
        self.assert_found()

    def test_request_in_a_later_block(self):
        other = self.block(["4567", *self.lines()[1:]], "another")
        self.write(self.index(other, self.block(self.lines())))
        self.assert_found()

    def test_request_that_is_longer_or_shorter(self):
        self.assert_none(text=TEXT + ")")
        self.assert_none(text=TEXT[:-1])
        self.assert_none(text="")

    def test_request_that_is_a_line_of_another_block(self):
        self.assert_none(text="fast.so")

    def test_request_that_no_file_can_hold(self):
        self.assert_none(text="\ud800")
        self.assert_none(text=TEXT + "\0")

    def test_index_that_does_not_fit_on_the_stack(self):
        many = [self.block(["4567", *self.lines()[1:]], f"another {i}") for i in range(1000)]
        self.write(self.index(*many, self.block(self.lines())))
        self.assertGreater((self.directory / "index").stat().st_size, 100000)
        self.assert_found()

    def test_paths_that_are_not_utf8(self):
        odd = pathlib.Path(os.fsdecode(os.fsencode(self.work) + b"/\xff.h"))
        odd.write_text("")
        self.write(self.index(self.block([*self.lines(), str(odd), _files.identity(odd)])))
        self.assert_found()

    def test_file_that_is_still_absent(self):
        absent = self.work / "early.h"
        self.write(self.index(self.block([*self.lines(), str(absent), _files.identity(absent)])))
        self.assert_found()
        absent.mkdir()
        self.assert_none()
        absent.rmdir()
        self.assert_found()
        absent.write_text("")
        self.assert_none()

    def test_times_of_any_year(self):
        for seconds in (0, 1, -1, 2**31, 2**32, -(2**31), 2**34 - 1):
            for part in (0, 1, 999999999):
                with self.subTest(seconds=seconds, part=part):
                    time = seconds * 10**9 + part
                    os.utime(self.source, ns=(time, time))
                    self.write(self.index())
                    self.assert_found()


class Changed(Warm):
    def test_file_with_another_time(self):
        for path in (self.module, self.source, self.header):
            with self.subTest(path=path.name):
                self.write(self.index())
                status = path.stat()
                os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
                self.assert_none()

    def test_file_with_the_same_time_that_was_written_again(self):
        time = self.source.stat().st_mtime_ns
        self.source.write_text("x" * self.source.stat().st_size)
        os.utime(self.source, ns=(time, time))
        self.assert_none()

    def test_file_of_another_size(self):
        was = _files.identity(self.header).split(" ")
        was[1] += "0"
        self.write(self.index(self.block([*self.lines()[:-1], " ".join(was)])))
        self.assert_none()

    def test_another_file_in_its_place(self):
        was = _files.identity(self.header).split(" ")
        was[0] = str(int(was[0]) + 1)
        self.write(self.index(self.block([*self.lines()[:-1], " ".join(was)])))
        self.assert_none()

    def test_file_that_went(self):
        for path in (self.header, self.module):
            with self.subTest(path=path.name):
                path.rename(path.with_suffix(".gone"))
                self.assert_none()
                path.with_suffix(".gone").rename(path)
                self.write(self.index())

    def test_directory_that_others_may_write_to(self):
        for directory in (self.root, self.directory):
            for mode in (0o770, 0o702):
                with self.subTest(directory=directory.name, mode=mode):
                    directory.chmod(mode)
                    self.assert_none()
                    directory.chmod(0o755)
                    self.assert_found()

    @unittest.skipIf(os.geteuid() != 0, "only root gives files away")
    def test_directory_of_another_user(self):
        for directory in (self.root, self.directory):
            with self.subTest(directory=directory.name):
                os.chown(directory, 12345, -1)
                self.assert_none()
                os.chown(directory, os.geteuid(), -1)


class Compiler(Warm):
    def test_that_was_replaced(self):
        self.compiler.write_text("another")
        self.assert_none()

    def test_that_was_replaced_behind_a_link(self):
        behind = self.program("elsewhere/gcc-1")
        self.compiler.unlink()
        self.compiler.symlink_to(behind)
        self.write(self.index())
        self.assert_found()
        another = self.program("elsewhere/new")
        another.rename(behind)
        self.assert_none()

    def test_link_that_leads_elsewhere(self):
        for name in ("gcc-1", "gcc-2"):
            self.program("elsewhere/" + name)
        self.compiler.unlink()
        self.compiler.symlink_to("../elsewhere/gcc-1")
        self.write(self.index())
        self.assert_found()
        self.compiler.unlink()
        self.compiler.symlink_to("../elsewhere/gcc-2")
        self.assert_none()

    def test_that_can_no_longer_be_run(self):
        self.compiler.chmod(0o644)
        later = self.program("later/cc")
        self.assert_none(path=f"{self.path}:{later.parent}")

    def test_that_comes_earlier(self):
        self.program("early/cc")
        self.assert_none()

    def test_link_that_comes_earlier(self):
        early = self.work / "early/cc"
        early.parent.mkdir()
        early.symlink_to(self.program("elsewhere/gcc"))
        self.assert_none()

    def test_that_comes_earlier_with_the_same_file(self):
        early = self.work / "early/cc"
        early.parent.mkdir()
        os.link(self.compiler, early)
        self.write(self.index())
        self.assert_none()

    def test_that_is_not_there_is_no_change(self):
        self.compiler.unlink()
        self.assert_found()
        self.assert_found(path="")

    def test_what_cannot_be_run_is_none(self):
        if os.geteuid() == 0 and os.access(self.source, os.X_OK):
            self.skipTest("every file can be executed here")
        self.file("early/cc").chmod(0o644)
        self.assert_found()

    def test_directory_of_that_name_is_none(self):
        (self.work / "early/cc").mkdir(parents=True)
        self.assert_found()

    def test_parts_of_path_that_are_too_long_are_passed_over(self):
        self.assert_found(path="/" + "x" * 5000 + ":" + self.path)
        self.program("early/cc")
        self.assert_none(path="/" + "x" * 5000 + ":" + self.path)

    def test_empty_part_of_path_is_the_current_directory(self):
        here = os.getcwd()
        self.addCleanup(os.chdir, here)
        os.chdir(self.work / "bin")
        self.assert_none(path="")
        self.assert_none(path=":" + self.path)
        self.assert_none(path="/nowhere::" + self.path)
        lines = self.lines()
        lines[5] = "./cc"
        self.write(self.index(self.block(lines)))
        self.assert_found(path="/nowhere:")

    def test_with_a_directory_in_its_name(self):
        lines = self.lines()
        lines[4] = lines[5]
        self.write(self.index(self.block(lines)))
        self.assert_found(path="/nowhere")
        lines[5] = str(self.header)
        self.write(self.index(self.block(lines)))
        self.assert_none(path="/nowhere")
        lines[5] = lines[4]
        self.write(self.index(self.block(lines)))
        self.compiler.write_text("another")
        self.assert_none(path="/nowhere")

    def test_second_one_counts(self):
        other = self.program("bin/c++")
        lines = self.lines()
        lines[3] = "6"
        lines[7:7] = ["c++", str(other), _files.identity(other)]
        self.write(self.index(self.block(lines)))
        self.assert_found()
        other.write_text("another")
        self.assert_none()


class Damaged(Warm):
    def test_index_cut_at_each_byte(self):
        whole = os.fsencode(self.index() + self.block(["4567"], "another"))
        end = whole.index(b"\n\n", whole.index(b"\t")) + 2
        for size in range(len(whole) + 1):
            self.write(whole[:size])
            self.assertEqual(self.find(), str(self.module) if size >= end else None, size)

    def test_index_with_a_line_less(self):
        lines = self.lines()
        for number in range(len(lines)):
            with self.subTest(without=lines[number]):
                self.write(self.index(self.block(lines[:number] + lines[number + 1 :])))
                self.assert_none()

    def test_index_with_an_empty_line(self):
        lines = self.lines()
        for number in range(len(lines)):
            with self.subTest(before=lines[number]):
                self.write(self.index(self.block([*lines[:number], "", *lines[number:]])))
                self.assert_none()

    def test_index_with_other_bytes(self):
        whole = os.fsencode(self.index())
        changed = random.Random(5)
        found = 0
        for number in range(2000):
            noisy = bytearray(whole)
            for _ in range(changed.randint(1, 5)):
                noisy[changed.randrange(len(noisy))] = changed.choice(b"\n\t\0/9 :\xffa")
            self.write(bytes(noisy))
            path = self.find()
            self.assertIn(path, (None, str(self.module)), number)
            found += path is not None
        # No more than the changes that hit the first line or wrote the same byte again.
        self.assertLess(found, 1000)

    def test_index_of_nothing_but_random_bytes(self):
        changed = random.Random(6)
        start = b"\t" + os.fsencode(TEXT) + b"\n"
        for _ in range(500):
            noise = bytes(changed.choices(b"\n\n\n\t\0/39 a", k=changed.randint(0, 300)))
            for content in (noise, start + noise, start + noise + b"\n\n"):
                self.write(content)
                self.assertIsNone(self.find(), content)

    def test_numbers_that_are_none(self):
        lines = self.lines()
        for number in ("", "-3", "+3", " 3", "3 ", "0", "1", "2", "4", "6", "9", "3x", "0x3", "³"):
            self.check_number(lines, number)
        for number in (2**31 + 1, 2**32 + 3, 2**63 + 1, 2**64 + 3, 10**99):
            self.check_number(lines, str(number))

    def check_number(self, lines, number):
        with self.subTest(number=number[:30]):
            self.write(self.index(self.block([*lines[:3], number, *lines[4:]])))
            self.assert_none()

    def test_identities_that_are_none(self):
        lines = self.lines()
        for was in (
            "",
            "0",
            "1 2 3",
            lines[-1] + " ",
            lines[-1] + " 1",
            " " + lines[-1],
            "9" * 5000,
        ):
            with self.subTest(was=was[:30]):
                self.write(self.index(self.block([*lines[:-1], was])))
                self.assert_none()

    def test_nul_ends_no_path(self):
        for number, line in enumerate(self.lines()):
            with self.subTest(line=line):
                lines = self.lines()
                lines[number] += "\0"
                self.write(self.index(self.block(lines)))
                self.assert_none()

    def test_module_in_another_directory(self):
        lines = self.lines()
        for entry, file in (("../fast/0123", "fast.so"), ("0123", "../0123/fast.so")):
            with self.subTest(entry=entry, file=file):
                self.write(self.index(self.block([entry, file, *lines[2:]])))
                self.assert_none()

    def test_lines_that_are_too_long(self):
        long = "x" * 5000
        for number in range(len(self.lines())):
            with self.subTest(line=number):
                lines = self.lines()
                lines[number] = long
                self.write(self.index(self.block(lines)))
                # A compiler that does not exist counts as unchanged.
                self.assertEqual(self.find(), str(self.module) if number == 4 else None)

    def test_directories_that_are_too_long(self):
        long = str(self.root) + "/." * 3000
        self.assertIsNone(_index.find(long, str(self.directory), TEXT))
        self.assertIsNone(_index.find(str(self.root), long, TEXT))
        # The path of the directory just fits, those of its files do not.
        for length in range(4070, 4100):
            directory = str(self.directory)
            directory += "/" * (length - len(directory))
            found = _index.find(str(self.root), directory, TEXT)
            self.assertIn(found, (None, directory + "/0123/fast.so"))

    def test_index_of_gigabytes(self):
        with open(self.directory / "index", "r+b") as file:
            file.truncate(5 << 30)
        self.assert_none()

    def test_index_that_is_empty(self):
        self.write("")
        self.assert_none()

    def test_index_that_is_no_file(self):
        index = self.directory / "index"
        index.unlink()
        self.assert_none()
        index.mkdir()
        self.assert_none()
        index.rmdir()
        # Nobody writes to the pipe, so opening it for reading would wait.
        os.mkfifo(index)
        self.assert_none()


class Requests(Warm):
    """Which calls are the same request."""

    def setUp(self):
        super().setUp()
        variables = {"PATH": self.path, "HOMEFREE_BUILD_DIR": str(self.root)}
        self.environment = mock.patch.dict(os.environ, variables, clear=True)
        self.environment.start()
        self.addCleanup(self.environment.stop)

    def ask(self, sources=None, lists=(None,) * 5):
        sources = [str(self.source)] if sources is None else sources
        return _request.Request("fast", sources, **dict(zip(_request.LISTS, lists)))

    def answered_by(self, **call):
        """Lets the index answer this request."""
        request = self.ask(**call)
        self.write(self.index(self.block(self.lines(), request.text)))
        self.assertEqual(request.find(), str(self.module))

    def assert_unanswered(self, **call):
        self.assertIsNone(self.ask(**call).find())

    def test_any_change_is_another_request(self):
        base = (["a"], ["b"], [], ["d"], ["/e"])
        self.answered_by(lists=base)
        for lists in (
            (None,) * 5,
            (["a", "b"], [], [], ["d"], ["/e"]),
            ([], ["a", "b"], [], ["d"], ["/e"]),
            (["a"], [], ["b"], ["d"], ["/e"]),
            (["a"], ["b"], [], ["d"], ["/f"]),
            (["a", ""], ["b"], [], ["d"], ["/e"]),
            (["a"], ["b"], [], ["d", "d"], ["/e"]),
        ):
            with self.subTest(lists=lists):
                self.assert_unanswered(lists=lists)
        for sources in (["/a.c"], [str(self.source)] * 2, [str(self.source) + "c.c"]):
            with self.subTest(sources=sources):
                self.assert_unanswered(sources=sources, lists=base)
        for name in ("CC", *_request.FLAGS):
            for value in ("", "x"):
                if (name, value) != ("CC", ""):
                    with self.subTest(name=name), mock.patch.dict(os.environ, {name: value}):
                        self.assert_unanswered(lists=base)
        with mock.patch.dict(os.environ, {"CXX": "x", "CUDACXX": "x", "CUDA_HOME": "/x"}):
            self.assertEqual(self.ask(lists=base).find(), str(self.module))

    def test_random_requests_are_told_apart(self):
        changed = random.Random(7)
        words = ("", "a", "0", "1", "=", "CC=cc", "\t", "\\", "\\t", "\\\\", "\n", "CFLAGS=")

        def choose():
            lists = [changed.choices(words[:-2], k=changed.randrange(3)) for _ in range(4)]
            sources = [f"/{changed.choice('ab')}.c" for _ in range(changed.randrange(1, 4))]
            flags = changed.choice(words)
            return sources, (*lists, []), flags

        for _ in range(200):
            one, another = choose(), choose()
            if changed.random() < 0.7:  # the same, or one word of it is another
                another = one[0], tuple(map(list, one[1])), one[2]
                if any(another[1]) and changed.random() < 0.7:
                    words_of_one = changed.choice([words for words in another[1] if words])
                    words_of_one[0] = changed.choice(words[:-2])
            os.environ["CFLAGS"] = one[2]
            self.answered_by(sources=one[0], lists=one[1])
            os.environ["CFLAGS"] = another[2]
            found = self.ask(sources=another[0], lists=another[1]).find()
            self.assertEqual(found, str(self.module) if one == another else None, (one, another))


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=0))
