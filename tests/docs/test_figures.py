"""The figures of README.md and docs/speed.md are those of the kept samples, to the last digit that
is shown, and no other ratio stands beside them."""

import importlib.util
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests/bench/published.py"


def load():
    spec = importlib.util.spec_from_file_location("published", SCRIPT)
    published = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(published)
    return published


published = load()


def read(name):
    return (ROOT / name).read_text("utf-8")


class Figures(unittest.TestCase):
    def test_they_are_what_was_measured(self):
        done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_what_is_no_measurement_is_not_kept(self):
        before = {path: path.read_bytes() for path in published.MEASURED.iterdir()}
        for name, given in [("field", ""), ("field", "[1]"), ("field", "{}"), ("../field", "{}")]:
            with self.subTest(name=name, given=given):
                command = [sys.executable, SCRIPT, "--keep", name]
                done = subprocess.run(command, input=given, capture_output=True, text=True)
                self.assertEqual(done.returncode, 2 if "/" in name else 1)
                self.assertRegex(done.stderr, r"(^|\n)published(\.py)?: .+\n$")
                self.assertNotIn("Traceback", done.stderr)
        after = {path: path.read_bytes() for path in published.MEASURED.iterdir()}
        self.assertEqual(after, before)

    def test_another_figure_is_replaced(self):
        for name in published.CLAIMS:
            text = read(name)
            for words, sources in published.CLAIMS[name]:
                found = published.pattern(words).search(text)
                with self.subTest(document=name, claim=words):
                    changed = text[: found.start(1)] + "99.9" + text[found.end(1) :]
                    made = published.filled(name, changed)
                    self.assertIn(f"{sources[0]():.1f}", made[found.start(1) :][:6])

    def test_no_other_ratio_stands_beside_them(self):
        speed = read("docs/speed.md").partition(published.WITHOUT_SAMPLES)[0]
        self.assertEqual(published.unclaimed("docs/speed.md", speed), [])
        overhead = read("README.md").partition("- **Overhead.**")[2].partition("\n\n")[0]
        self.assertNotEqual(overhead, "")
        self.assertEqual(published.unclaimed("README.md", overhead), [])

    def test_every_other_figure_has_its_day(self):
        rows = read("docs/speed.md").partition(published.WITHOUT_SAMPLES)[2].splitlines()
        rows = [row for row in rows if row.startswith("| ")][1:]
        self.assertGreater(len(rows), 0)
        for row in rows:
            self.assertRegex(row, r"\| 20\d\d-\d\d-\d\d \|$")

    def test_the_samples_are_of_the_machine_that_is_named(self):
        for path in published.MEASURED.glob("*.json"):
            self.assertIn("date", published.kept(path.stem)["machine"], path)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
