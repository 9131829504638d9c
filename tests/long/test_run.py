"""`tests/long/run`: who gets how much time, what becomes of each part, and that Ctrl-C ends it with
a table. The parts here are made up, and take no time.

usage: test_run.py BUILD
"""

import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
BUILD = sys.argv.pop()


def program():
    """tests/long/run as a module."""
    loader = importlib.machinery.SourceFileLoader("long_run", str(HERE / "run"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


class Run(unittest.TestCase):
    def setUp(self):
        self.run_program = program()
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.build = pathlib.Path(self.directory.name)
        (self.build / "build.ninja").touch()
        self.run_program.PARTS = []
        self.run_program.PATIENCE = 0.2

    def part(self, name, script, weight=1, needs=0, **more):
        command = ["/bin/sh", "-c", script, "part", "{seconds}", "{build}"]
        made = self.run_program.Part(name, "", weight, needs, command, **more)
        self.run_program.PARTS.append(made)

    def outcome(self, *arguments):
        """Exit status and table."""
        output = io.StringIO()
        sys.argv[1:] = ["--build", str(self.build), *arguments]
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
            status = self.run_program.main()
        for number, handler in handlers.items():
            signal.signal(number, handler)
        return status, output.getvalue()

    def test_every_outcome(self):
        self.part("by status", "echo 12 things; echo; exit 0")
        self.part("no", "echo broken; exit 1")
        self.part("absent", "echo no network; exit 77")
        self.part("rows", r"printf 'a\t1\tpassed\nb\t2\tskipped: why\n' >>$HOMEFREE_LONG_ROWS")
        self.part("bad", r"printf 'c\t3\tpassed\n' >>$HOMEFREE_LONG_ROWS; exit 4")
        self.part("no row", "echo >>$HOMEFREE_LONG_ROWS nonsense")
        self.part("long", "", needs=1000)
        status, table = self.outcome("1", "--markdown", str(self.build / "table"))
        self.assertEqual(status, 1, table)
        rows = [" ".join(line.split()) for line in table.splitlines()[2:]]
        self.assertEqual(
            rows,
            [
                "by status 12 things passed",
                "no broken failed",
                "absent skipped: no network",
                "a 1 passed",
                "b 2 skipped: why",
                "c 3 passed",
                "bad failed: its exit status is 4",
                "no row failed: this is no row: nonsense",
                "long skipped: it needs 1000 s",
                "",
                "3 passed, 3 failed, 3 skipped",
            ],
        )
        markdown = (self.build / "table").read_text()
        self.assertIn("| by status | 12 things | passed |\n", markdown)
        self.assertEqual(markdown, (self.build / "long/table.md").read_text())

    def test_time_goes_by_weight(self):
        self.part("light", 'echo "$1 $HOMEFREE_LONG_SECONDS $2"')
        self.part("heavy", 'echo "$1"', weight=3)
        self.part("divided", 'echo "$1"', weight=4, divided_by=10)
        status, table = self.outcome("8")
        self.assertEqual(status, 0, table)
        rows = [line.split() for line in table.splitlines()]
        self.assertIn(["light", "60", "60", str(self.build.resolve()), "passed"], rows)
        self.assertIn(["heavy", "206", "passed"], rows)  # of what the light one left
        self.assertIn(["divided", "48", "passed"], rows)

    def test_who_does_not_end_is_ended(self):
        self.run_program.MARGIN = -1
        self.part("hangs", "echo begun; trap '' INT; sleep 1000 & wait; wait")
        status, table = self.outcome("0.01")
        self.assertEqual(status, 1)
        self.assertRegex(table, r"hangs +begun +failed: it still ran after 1 s")

    def test_interrupted_it_says_what_was_done(self):
        read, write = (pathlib.Path(self.directory.name) / "begun",) * 2
        self.part("first", "echo 7")
        self.part("second", f"mkfifo {read}; echo 8; echo >{write}; sleep 1000")
        self.part("third", "echo 9")

        def interrupt():
            while not read.exists():
                pass
            read.open().read()
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        status, table = self.outcome("10")
        thread.join()
        self.assertEqual(status, 130)
        self.assertRegex(table, r"first +7 +passed")
        self.assertRegex(table, r"second +8 +skipped: it was interrupted")
        self.assertRegex(table, r"third +skipped: it was not begun")

    def test_wrong_usage(self):
        for arguments in (["--only", "nobody"], ["minutes"], ["-1"]):
            with self.assertRaises(SystemExit) as ended:
                self.outcome(*arguments)
            self.assertEqual(ended.exception.code, 2)
        (self.build / "build.ninja").unlink()
        self.assertEqual(self.outcome("0")[0], 3)


class Parts(unittest.TestCase):
    """The real ones."""

    def test_list_and_no_time(self):
        for arguments, outcome in ((["--list"], "storms"), (["0", "--build", BUILD], "0 failed")):
            done = subprocess.run(
                [HERE / "run", *arguments], capture_output=True, text=True, check=False
            )
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(outcome, done.stdout)


if __name__ == "__main__":
    unittest.main()
