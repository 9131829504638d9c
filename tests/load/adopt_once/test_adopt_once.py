"""A file is examined for an allocator inside once, in one process and by all of a user's.

tensorflow's library of 788 MB was, in each process and for each of the 94 modules that need it:
27 seconds. The files here have 4 MB of names, and the kernel says how much a process reads.

Usage: test_adopt_once.py RUNNER LARGE REFUSED ADOPTED USER [unittest arguments]
  LARGE    has no allocator; REFUSED has one that cannot be adopted
  USER     needs LARGE, which it finds in the directory above its own
"""

import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import adopting  # noqa: E402

RUNNER, LARGE, REFUSED, ADOPTED, USER = (os.path.abspath(sys.argv.pop(1)) for _ in range(5))
ENOTSUP = -95


class Once(adopting.Case):
    def setUp(self):
        super().setUp()
        self.list = self.cache / "homefree/adopted/nothing-inside"

    def take(self, path, to=None):
        target = self.directory / (to or Path(path).name)
        target.parent.mkdir(exist_ok=True)
        shutil.copy2(path, target)
        return target

    def adopt(self, *files, **environment):
        """For each file the result, whether its names were read, and the text."""
        given = {**os.environ, "XDG_CACHE_HOME": str(self.cache), **environment}
        result = subprocess.run(
            [RUNNER, *map(str, files)],
            capture_output=True,
            text=True,
            timeout=60,
            env={name: value for name, value in given.items() if value is not None},
        )
        if result.returncode == 77:
            self.skipTest("the kernel does not count what a process reads")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        lines = [line.split(" ", 2) for line in result.stdout.splitlines()]
        return [(int(line[0]), int(line[1]) > 0, line[2]) for line in lines]

    def reads(self, *files, **environment):
        return [line[1] for line in self.adopt(*files, **environment)]

    def test_nothing_inside(self):
        large = self.take(LARGE)
        (self.directory / "link").symlink_to(".")
        paths = (large, large, self.directory / "link" / large.name)
        self.assertEqual(self.adopt(large), [(0, True, str(large))])
        self.assertEqual(self.adopt(*paths), [(0, False, str(path)) for path in paths])
        os.utime(large)
        self.assertEqual(self.reads(*paths), [True, False, False])

    def test_needed_by_many(self):
        self.take(LARGE)
        users = [self.take(USER, f"user{i}/user.so") for i in range(20)]
        self.assertEqual(self.reads(*users), [True] + 19 * [False])
        self.assertEqual(self.reads(*users), 20 * [False])

    def test_without_a_cache(self):
        large = self.take(LARGE)
        for _ in range(2):
            self.assertEqual(
                self.reads(large, large, XDG_CACHE_HOME=None, HOME=None), [True, False]
            )

    def test_refused(self):
        """The reason is kept, too."""
        refused = self.take(REFUSED)
        ((result, read, why),) = self.adopt(refused)
        self.assertEqual((result, read), (ENOTSUP, True))
        self.assertIn("_mi_page", why)
        (self.directory / "link").symlink_to(".")
        for path in (refused, self.directory / "link" / refused.name):
            self.assertEqual(self.adopt(path), [(ENOTSUP, False, why)])

    def test_adopted(self):
        adopted = self.take(ADOPTED)
        self.assertEqual([line[:2] for line in self.adopt(adopted)], [(1, True)])
        self.assertEqual([line[:2] for line in self.adopt(adopted)], [(1, False)])

    def test_debug_file_comes(self):
        """It may have the names that a stripped file has not."""
        adopted, debug = self.take(ADOPTED), self.directory / "names"
        for command in (("objcopy", "--only-keep-debug", adopted, debug), ("strip", adopted)):
            if shutil.which(command[0]) is None:
                self.skipTest("binutils are missing")
            subprocess.run(command, check=True)
        for _ in range(2):
            ((result, _, _),) = self.adopt(adopted)
            self.assertLessEqual(result, 0)
        debug.rename(f"{adopted}.debug")
        for _ in range(2):
            ((result, _, _),) = self.adopt(adopted)
            self.assertEqual(result, 1)

    def test_list_is_not_ours(self):
        large = self.take(LARGE)
        self.assertEqual(self.reads(large), [True])
        self.list.chmod(0o666)
        self.assertEqual(self.reads(large), [True])
        self.list.chmod(0o600)
        self.assertEqual(self.reads(large), [False])
        for make in (
            self.list.mkdir,
            lambda: os.mkfifo(self.list),
            lambda: self.list.symlink_to("x"),
        ):
            if self.list.exists():
                self.list.unlink() if self.list.is_file() else None
            make()
            self.assertEqual(self.reads(large), [True])
            self.list.rmdir() if self.list.is_dir() else self.list.unlink()

    def test_list_is_damaged(self):
        """What was cut short, and what is full, begins anew."""
        large = self.take(LARGE)
        for content in (b"x", b"\0" * 17, bytes(1 << 20), b"\xff" * ((1 << 20) + 1)):
            self.list.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.list.write_bytes(content)
            self.list.chmod(0o600)
            self.assertEqual(self.reads(large), [True])
            self.assertEqual(self.list.stat().st_size, 16)
            self.assertEqual(self.reads(large), [False])


if __name__ == "__main__":
    unittest.main()
