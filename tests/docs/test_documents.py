"""The Markdown files of the repository: every relative link and anchor leads somewhere, what is
generated in them is current, and the first screen says what the repository has.
"""

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = None
LEFT_OUT = ("build", "subprojects", ".")
FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+(?:\([^()\s]*\))?)(?: \"[^\"]*\")?\)")
HTML = re.compile(r"(?:src|srcset|href)=\"([^\"]+)\"")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)


def documents():
    for directory, directories, files in os.walk(ROOT):
        if Path(directory) == ROOT:
            directories[:] = [one for one in directories if not one.startswith(LEFT_OUT)]
        yield from sorted(Path(directory, name) for name in files if name.endswith(".md"))


def links(text):
    """The targets of a document's links and pictures. Those in code are none."""
    text = CODE.sub("`", FENCE.sub("", text))
    return LINK.findall(text) + HTML.findall(text)


def anchors(text):
    """The anchors that the headings of a document get, as GitHub and MyST make them."""
    found, seen = set(), {}
    for heading in HEADING.findall(FENCE.sub("", text)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        found.add(f"{slug}-{count}" if count else slug)
    return found


def dead(path, target):
    """Why a link leads nowhere; None if it leads somewhere."""
    if re.match(r"[a-z][a-z+.-]*:", target):
        return None
    name, _, anchor = target.partition("#")
    found = path.parent / name if name else path
    if not found.exists():
        return "there is no such file"
    if ROOT not in [found.resolve(), *found.resolve().parents]:
        return "it leads out of the repository"
    if anchor and found.suffix == ".md" and anchor not in anchors(found.read_text("utf-8")):
        return "there is no such heading"
    return None


class Links(unittest.TestCase):
    def test_they_lead_somewhere(self):
        wrong, count = [], 0
        for path in documents():
            for target in links(path.read_text("utf-8")):
                count += 1
                why = dead(path, target)
                if why:
                    wrong.append(f"{path.relative_to(ROOT)}: {target}: {why}")
        self.assertEqual(wrong, [])
        self.assertGreater(count, 100)

    def test_what_counts_as_one(self):
        text = '[a](b.md) ![c](d.svg "e") `[no](no)` [f](#g)\n```\n[no](no)\n```\n[`h`](i_(j))'
        self.assertEqual(links(text), ["b.md", "d.svg", "#g", "i_(j)"])
        self.assertEqual(
            anchors("# What's `new`?\n## A - b\n## A - b\n"), {"whats-new", "a---b", "a---b-1"}
        )
        here = ROOT / "README.md"
        self.assertIsNone(dead(here, "docs/limits.md#python"))
        self.assertIsNotNone(dead(here, "docs/limits.md#pythons"))
        self.assertIsNotNone(dead(here, "docs/limit.md"))
        self.assertIsNotNone(dead(here, "../else.md"))


class Names(unittest.TestCase):
    def test_nobody_is_told_to_install_the_name_from_an_index(self):
        # Nobody owns it there yet: whoever takes it would be installed.
        told = []
        for directory in "README.md", "alloc", "docs", "examples", "loader", "satellites", "shim":
            for path in (ROOT / directory, *(ROOT / directory).rglob("*")):
                text = path.read_bytes() if path.is_file() else b""
                if re.search(rb"pip install ([\w.=-]+ )*homefree(?![-\w])", text):
                    told.append(str(path.relative_to(ROOT)))
        self.assertEqual(told, [])


class Commands(unittest.TestCase):
    def test_the_tests_that_they_name_exist(self):
        if BUILD is None:
            self.skipTest("no build directory is given")
        info = Path(BUILD, "meson-info")
        there = {
            one["name"]
            for name in ("intro-tests.json", "intro-benchmarks.json")
            for one in json.loads((info / name).read_text("utf-8"))
        }
        wrong, count = [], 0
        text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
        for line in re.findall(r"^meson test -C build --no-rebuild (.*)$", text, re.MULTILINE):
            words = iter(shlex.split(line, comments=True))
            for word in words:
                if word in ("--repeat", "--suite"):
                    next(words)
                elif not word.startswith("-") and word != "NAME":
                    count += 1
                    wrong += [word] if word not in there else []
        self.assertEqual(wrong, [])
        self.assertGreaterEqual(count, 3)


class FirstChange(unittest.TestCase):
    def test_its_lines_are_those_of_the_files(self):
        text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
        before, *rest = text.partition("## A first change")[2].partition("\n## ")[0].split("```c\n")
        self.assertEqual(len(rest), 3)
        for part in rest:
            shown, _, after = part.partition("```")
            name = re.findall(r"`([\w/]+\.\w+)`", before)[-1]
            words = "".join((ROOT / name).read_text("utf-8").split())
            self.assertIn("".join(shown.split()), words, name)
            before = after


class Generated(unittest.TestCase):
    def test_it_is_current(self):
        command = [sys.executable, ROOT / "docs" / "generated.py", "--check"]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_page_of_a_package_index_stands_alone(self):
        text = (ROOT / "docs" / "package.md").read_text("utf-8")
        self.assertEqual([one for one in links(text) if "://" not in one], [])
        self.assertIn('readme = "docs/package.md"', (ROOT / "pyproject.toml").read_text("utf-8"))


class FirstScreen(unittest.TestCase):
    def test_the_pictures_differ_in_colours_alone(self):
        light, dark = (
            (ROOT / "architecture" / f"home-{kind}.svg").read_text("utf-8")
            for kind in ("light", "dark")
        )
        self.assertNotEqual(light, dark)
        colour = re.compile(r"#[0-9a-f]{6}\b")
        self.assertEqual(colour.sub("", light), colour.sub("", dark))

    def test_the_number_of_crossings(self):
        place = ROOT / "examples" / "crossings" / "rows.py"
        spec = importlib.util.spec_from_file_location("rows", place)
        rows = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(rows)
        text = (ROOT / "README.md").read_text("utf-8")
        self.assertEqual(set(re.findall(r"\b(\d+) crossings", text)), {str(len(rows.ROWS))})


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    BUILD = sys.argv.pop(1) if sys.argv[1:] and Path(sys.argv[1]).is_dir() else None
    unittest.main()
