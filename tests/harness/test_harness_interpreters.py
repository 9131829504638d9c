"""`homefree test --interpreters`: memory crosses between interpreters in each direction, and a cell
says who allocated and who freed it. What dies or is damaged only in another interpreter is found,
and the crash names the interpreter. Under the newest CPython of this machine that has interpreters
with a GIL of their own.

usage: test_harness_interpreters.py COMMAND PACKAGE-DIRECTORY MODULES-DIRECTORY
[unittest's arguments]
"""

import sys
import unittest
from pathlib import Path

import harness

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from interpreters import number, with_gil  # noqa: E402

MODULE = '''
import signal


def view():
    """Crosses by reference."""
    return memoryview(bytearray(b"some bytes" * 5000))


class _Changed:
    """Pickles itself as something else."""

    def __init__(self, content=b"as it was made"):
        self.content = bytearray(content)

    def __buffer__(self, flags):
        return memoryview(self.content)

    def __reduce__(self):
        return _Changed, (b"something else",)


def changed():
    return _Changed()


class _Bomb:
    def __reduce__(self):
        return signal.raise_signal, (signal.SIGSEGV,)


_kept = []


def _keep():
    _kept.append(bytearray(10_000))


class _Leak:
    def __reduce__(self):
        return _keep, ()


def leak():
    """Leaves something behind where it arrives."""
    return _Leak()


def bomb():
    """Ends the process where it arrives."""
    return _Bomb()
'''
HOST = "homefree first"
MAIN, OTHER = "the main interpreter", r"interpreter \d+"
# Of each condition, who made it and who freed it last.
PARTIES = {
    "main to sub": (MAIN, OTHER),
    "sub to main": (OTHER, MAIN),
    "sub to sub": (OTHER, OTHER),
    "maker back": (OTHER, OTHER),
    "maker ended": (OTHER, MAIN),
    "taker ended": (MAIN, MAIN),
    "maker first": (OTHER, f"{OTHER}, as it ended"),
    "taker first": (OTHER, f"{OTHER}, as it ended"),
}
# Where both interpreters stay, so that it can be repeated.
STAYING = "main to sub", "sub to main", "sub to sub", "maker back"
# Where the taker does not look at it.
UNSEEN = "taker ended", "taker first"


def newest():
    found = [(number(text), path) for path, text in with_gil() if number(text) >= (3, 12)]
    return max(found)[1] if found else None


PYTHON = newest()


class Between(unittest.TestCase):
    maxDiff = None

    def cells(self, module, only, directory=harness.MODULES):
        """{(crossing, condition): cell} of the conditions between interpreters."""
        done = harness.run(
            "--python",
            str(PYTHON),
            "--json",
            "--interpreters",
            "--timeout",
            "60",
            "--only",
            only,
            module,
            directory=directory,
        )
        self.assertIn(done.returncode, (0, 1), done.stderr)
        cells = harness.json.loads(done.stdout)["cells"]
        return {
            (cell["crossing"].partition(".")[2], cell["condition"]): cell
            for cell in cells
            if cell["condition"] in PARTIES
        }

    def parties(self, cell):
        maker, freer = PARTIES[cell["condition"]]
        self.assertRegex(cell["allocated"], f" in {maker}$")
        self.assertRegex(cell["freed"], f"^{freer}$")

    def test_in_every_direction(self):
        directory = harness.scratch(self)
        (directory / "crossers.py").write_text(MODULE)
        cells = self.cells("crossers", f"/ {HOST}", directory)
        self.assertEqual({name for name, _ in cells}, {"view()", "changed()", "leak()", "bomb()"})
        for (name, condition), cell in cells.items():
            with self.subTest(f"{name} / {condition}"):
                if name == "view()":
                    self.assertEqual((cell["result"], cell["message"]), ("ok", None))
                    self.parties(cell)
                    self.assertRegex(cell["allocated"], "^(homefree|pymalloc) ")
                elif name == "leak()" and condition in STAYING:
                    self.assertEqual(cell["result"], "leaked", cell["message"])
                    self.assertRegex(cell["message"], r"^\d{5} bytes stay behind each time")
                    self.parties(cell)
                elif name == "leak()":
                    self.assertEqual(cell["result"], "ok", cell["message"])
                elif name == "changed()" and condition in UNSEEN:
                    self.assertEqual(cell["result"], "ok", cell["message"])
                    self.parties(cell)
                elif name == "changed()":
                    self.assertEqual((cell["result"], cell["signal"]), ("died", None))
                    self.assertIn("damaged: the contents are not those", cell["message"])
                else:
                    self.assertEqual((cell["result"], cell["signal"]), ("died", "SIGSEGV"))
                    self.assertRegex(cell["allocated"], f" in {PARTIES[condition][0]}$")
                    self.assertIsNone(cell["freed"])
                    where = (
                        r"in interpreter \d+ \(index 0 of 1\), which ran '.*_between:_keep'"
                        if PARTIES[condition][0] == MAIN
                        else "in the main interpreter"
                    )
                    self.assertRegex(
                        cell["message"],
                        "^while it crossed to another interpreter: homefree: fatal: SIGSEGV "
                        f"{where}; the instruction is at /",
                    )

    def test_a_capsule_crosses_as_its_deleter(self):
        cells = self.cells("linked", f"dies_unloading* / * / {HOST}")
        self.assertEqual({condition for _, condition in cells}, set(PARTIES))
        for (_, condition), cell in cells.items():
            with self.subTest(condition):
                self.assertEqual((cell["result"], cell["message"]), ("ok", None))
                self.parties(cell)
                self.assertRegex(cell["allocated"], "^homefree ")

    def test_not_unless_asked(self):
        done = harness.run("--python", str(PYTHON), "--list", "linked")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("sub to", done.stdout)


if __name__ == "__main__":
    if PYTHON is None:
        print("skipped: no CPython 3.12 or newer")
        sys.exit(77)
    unittest.main()
