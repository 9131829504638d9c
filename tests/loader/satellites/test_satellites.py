"""Where libhomefree looks for its satellites, which it takes, and what it says without one.

Usage: test_satellites.py ASKER LIBRARY-DIRECTORY [unittest arguments]
"""

import errno
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ASKER, LIBRARIES = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
CORE = "libhomefree.so.1"
SATELLITES = ("adopt", "interpreters")
BUILT = [name for name in SATELLITES if (LIBRARIES / f"libhomefree-{name}.so").exists()]


def of(name):
    return f"libhomefree-{name}.so"


class Satellites(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name).resolve()
        shutil.copy2(LIBRARIES / CORE, self.directory)

    def copy(self, *names, to=""):
        (self.directory / to).mkdir(exist_ok=True)
        for name in names:
            shutil.copy2(LIBRARIES / of(name), self.directory / to)

    def ask(self, core=None, there="/", **environment):
        """What the asker says of each satellite (0: none), and what came on stderr."""
        done = subprocess.run(
            [ASKER, core or self.directory / CORE, there],
            check=True,
            text=True,
            cwd=self.directory,
            env={**os.environ, **environment},
            capture_output=True,
            timeout=60,
        )
        lines = done.stdout.splitlines()
        self.assertEqual(
            [line.partition(":")[0] for line in lines], ["process", "child", "process"]
        )
        self.assertEqual(len({line.partition(":")[2] for line in lines}), 1, lines)
        return lines[0], done.stderr

    def works(self, **how):
        said, errors = self.ask(**how)
        self.assertIn(f"adopt {-errno.ENOENT},", said)
        # There is no CPython in the process.
        self.assertNotIn("libhomefree-interpreters.so", said)
        self.assertNotIn("cannot open", errors)

    def needs_both(self):
        if len(BUILT) < len(SATELLITES):
            self.skipTest("a satellite was left out of this build")

    def test_without_them_the_answer_names_file_and_option(self):
        said, errors = self.ask()
        self.assertIn(f"adopt {-errno.ENOTSUP}, interpreters {-errno.ENOTSUP}: cannot open", said)
        self.assertIn(f"{self.directory}/libhomefree-interpreters.so: No such file", said)
        self.assertIn("-Dinterpreters=disabled", said)
        # Once in each process, and the child is told what its parent was.
        self.assertEqual(errors.count("\n"), 1, errors)
        self.assertIn(
            f"homefree: cannot open {self.directory}/libhomefree-adopt.so: No such", errors
        )
        self.assertIn("-Dadopt=disabled", errors)

    def test_a_profile_without_one(self):
        """Those who begin it get a result, and a line on stderr."""
        begin = f"import ctypes; print(ctypes.CDLL('{self.directory / CORE}').hf_profile_begin(99))"

        def begun():
            return subprocess.run(
                [sys.executable, "-c", begin], check=True, text=True, capture_output=True
            )

        done = begun()
        self.assertEqual(done.stdout, f"{-errno.ENOTSUP}\n")
        self.assertIn(f"{self.directory}/libhomefree-profile.so: No such file", done.stderr)
        self.assertIn("-Dprofile=disabled", done.stderr)
        if (LIBRARIES / of("profile")).exists():
            self.copy("profile")
            self.assertEqual((begun().stdout, begun().stderr), ("0\n", ""))

    def test_next_to_the_library(self):
        self.needs_both()
        self.copy(*SATELLITES)
        self.works()

    def test_opened_by_many_threads_at_a_time(self):
        done = subprocess.run(
            [ASKER, LIBRARIES / CORE],
            env={**os.environ, "AT_ONCE": "200"},
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual((done.stdout, done.returncode), ("0 died\n", 0), done.stderr)

    def test_next_to_a_library_of_another_name(self):
        """As wheels have it after auditwheel."""
        self.needs_both()
        self.copy(*SATELLITES)
        os.rename(self.directory / CORE, self.directory / "libhomefree-0a1b2c3d.so.1")
        self.works(core=self.directory / "libhomefree-0a1b2c3d.so.1")

    def test_in_the_directory_that_distributions_keep(self):
        self.needs_both()
        self.copy(*SATELLITES, to="homefree")
        self.works()

    def test_by_a_relative_path(self):
        self.needs_both()
        self.copy(*SATELLITES)
        self.works(core="./" + CORE)

    def test_next_to_the_file_behind_a_link(self):
        self.needs_both()
        self.copy(*SATELLITES)
        (self.directory / "links").mkdir()
        (self.directory / "links" / CORE).symlink_to(self.directory / CORE)
        self.works(core=self.directory / "links" / CORE)

    def test_by_a_relative_link(self):
        self.needs_both()
        self.copy(*SATELLITES)
        (self.directory / "links").mkdir()
        (self.directory / "links" / CORE).symlink_to(self.directory / CORE)
        self.works(core="links/" + CORE)

    def test_not_in_the_working_directory(self):
        """Where a relative path leads to now."""
        self.copy(*BUILT, to="other")
        (self.directory / "other" / CORE).symlink_to(self.directory / CORE)
        said, _ = self.ask(core="./" + CORE, there=str(self.directory / "other"))
        self.assertIn(f"adopt {-errno.ENOTSUP},", said)

    def test_in_a_directory_that_was_put_in_its_place(self):
        self.needs_both()
        (self.directory / "here").mkdir()
        shutil.copy2(LIBRARIES / CORE, self.directory / "here")
        self.copy(*SATELLITES, to="other")
        said, errors = self.ask(
            core=self.directory / "here" / CORE, BETWEEN="mv here there && mv other here"
        )
        self.assertIn(f"adopt {-errno.ENOTSUP},", said)
        self.assertIn("is not the one that libhomefree was loaded from", errors)

    def test_next_to_what_is_preloaded(self):
        self.needs_both()
        self.copy(*SATELLITES)
        for library in "libhomefree-preload.so", "libhomefree-diagnose.so":
            with self.subTest(library):
                shutil.copy2(LIBRARIES / library, self.directory)
                environment = {"HOMEFREE_REPORT": str(self.directory / "report")}
                self.works(core=CORE, LD_PRELOAD=str(self.directory / library), **environment)

    def test_nowhere_else(self):
        for name in BUILT:
            self.copy(name, to="elsewhere")
        said, _ = self.ask(LD_LIBRARY_PATH=str(self.directory / "elsewhere"))
        self.assertIn(f"adopt {-errno.ENOTSUP},", said)

    def test_of_another_build(self):
        self.needs_both()
        self.copy(*SATELLITES)
        for name in SATELLITES:
            path = self.directory / of(name)
            content = path.read_bytes()
            stamp = re.search(rb"\d+\.\d+\.\d+ ", content).start()
            path.write_bytes(content[:stamp] + b"0.0" + content[stamp + 3 :])
        said, errors = self.ask()
        self.assertIn(f"adopt {-errno.ENOTSUP},", said)
        self.assertIn("interpreters.so: it belongs to another build of homefree", said)
        self.assertIn("adopt.so: it belongs to another build of homefree", errors)

    def test_that_is_no_library(self):
        (self.directory / of("adopt")).write_text("nothing")
        said, errors = self.ask()
        self.assertIn(f"adopt {-errno.ENOTSUP},", said)
        self.assertIn("libhomefree-adopt.so: ", errors)

    def test_that_is_a_pipe(self):
        """Nobody waits for its writer."""
        os.mkfifo(self.directory / of("adopt"))
        said, errors = self.ask()
        self.assertIn(f"adopt {-errno.ENOTSUP},", said)
        self.assertIn("libhomefree-adopt.so: it is not a regular file", errors)

    def test_that_is_a_link(self):
        """Whose target may change between the look at it and its opening."""
        self.copy(*BUILT, to="elsewhere")
        for name in BUILT:
            (self.directory / of(name)).symlink_to(self.directory / "elsewhere" / of(name))
        said, _ = self.ask()
        self.assertIn(f"adopt {-errno.ENOTSUP},", said)

    def test_that_is_another_one(self):
        self.needs_both()
        self.copy(*SATELLITES)
        shutil.copy2(LIBRARIES / of("interpreters"), self.directory / of("adopt"))
        said, errors = self.ask()
        self.assertIn(f"adopt {-errno.ENOTSUP},", said)
        self.assertIn("adopt.so: it is another satellite under this name", errors)

    @unittest.skipUnless(os.geteuid() == 0, "only root can give files to others")
    def test_of_the_user_who_has_the_library(self):
        self.needs_both()
        self.copy(*SATELLITES)
        for path in self.directory.iterdir():
            os.chown(path, 12345, 12345)
        self.works()

    @unittest.skipUnless(os.geteuid() == 0, "only root can give files to others")
    def test_in_another_users_directory(self):
        self.needs_both()
        self.copy(*SATELLITES, to="homefree")
        for path in [self.directory / "homefree", *(self.directory / "homefree").iterdir()]:
            os.chown(path, 12345, 12345)
        said, _ = self.ask()
        self.assertIn(f"adopt {-errno.ENOTSUP},", said)

    @unittest.skipUnless(os.geteuid() == 0, "only root can give files to others")
    def test_of_another_user(self):
        self.needs_both()
        self.copy(*SATELLITES)
        os.chown(self.directory / of("adopt"), 12345, 12345)
        said, errors = self.ask()
        self.assertIn(f"adopt {-errno.ENOTSUP},", said)
        self.assertIn("adopt.so: the file belongs to another user", errors)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
