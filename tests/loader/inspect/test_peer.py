"""The reader sees in real files what readelf sees: every symbol of both tables with its version,
every needed library and every section.

Usage: test_peer.py DUMP FILE...
"""

import os
import re
import shutil
import subprocess
import sys
import unittest

_TYPES = {"NOTYPE": 0, "OBJECT": 1, "FUNC": 2, "SECTION": 3, "FILE": 4, "COMMON": 5, "TLS": 6}
_TYPES["IFUNC"] = 10
_BINDINGS = {"LOCAL": 0, "GLOBAL": 1, "WEAK": 2, "UNIQUE": 10}
_VISIBILITIES = {"DEFAULT": 0, "INTERNAL": 1, "HIDDEN": 2, "PROTECTED": 3}
_SYMBOL = re.compile(r" *(\d+): ([0-9a-f]+) +(\w+) (\w+) +(\w+) +(\w+) +(?:\[.*?\] +)?(\w+) ?(.*)")
_SECTION = re.compile(
    r" *\[ *(\d+)\] (\S*) +(?:[A-Z0-9_]+|[0-9a-f]{8}: <unknown>) +([0-9a-f]{16}) ([0-9a-f]+)"
    r" ([0-9a-f]+) ([0-9a-f]+) +[A-Za-z]* +(\d+) +(\d+) +\d+"
)


def _run(*words):
    environment = dict(os.environ, LC_ALL="C")
    return subprocess.run(
        words, stdout=subprocess.PIPE, check=True, env=environment, timeout=100
    ).stdout.decode(errors="surrogateescape")


def _dump(path):
    """The reader's output, by the first word of each line."""
    facts = {}
    for line in _run(DUMP, path).split("\n")[:-1]:
        kind, *fields = line.split("\t")
        facts.setdefault(kind, []).append(tuple(fields))
    for kind in ("dynsym", "symtab"):
        # readelf shows no version at the symbol that stands for a version.
        facts[kind] = [(*s[:8], "" if s[7] == s[8] else s[8], s[9]) for s in facts.get(kind, [])]
    return facts


def _libraries(path):
    """The library that a version is required from, by the version's index."""
    library, found = None, {}
    for line in _run("readelf", "-VW", path).split("\n"):
        file = re.search(r"Version: 1 +File: (\S+)", line)
        library = file.group(1) if file else library
        entry = re.search(r"Name: (\S+) +Flags: .* Version: (\d+)", line)
        if entry and library is not None:
            found[int(entry.group(2))] = library
    return found


def _number(text):
    return int(text, 16) if text.startswith("0x") else int(text)


def _symbols(path):
    """The rows of both tables in the form of the dump."""
    libraries, tables, rows = _libraries(path), {}, None
    for line in _run("readelf", "--syms", "--dyn-syms", "-W", path).split("\n"):
        title = re.match(r"Symbol table '(\.\w+)'", line)
        if title:
            rows = tables.setdefault(title.group(1).lstrip("."), [])
        row = _SYMBOL.match(line)
        if row is None or row.group(1) == "0":
            continue
        index, value, size, kind, binding, visibility, section, name = row.groups()
        version = library = ""
        wanted = re.fullmatch(r"(.*?)@@?([^@ ]+)(?: \((\d+)\))?", name)
        if wanted and rows is tables.get("dynsym"):
            name, version, number = wanted.groups()
            if section == "UND" and number is not None:
                library = libraries[int(number)]
        rows.append(
            (
                index,
                str(int(value, 16)),
                str(_number(size)),
                str(_TYPES[kind]),
                str(_BINDINGS[binding]),
                str(_VISIBILITIES[visibility]),
                str(int(section != "UND")),
                "" if kind == "SECTION" else name,  # readelf shows the section's
                version,
                library,
            )
        )
    return tables


def _sections(path):
    rows = []
    for line in _run("readelf", "-SW", path).split("\n"):
        row = _SECTION.fullmatch(line.rstrip())
        if row:
            index, name, *numbers, link, info = row.groups()
            rows.append((index, name, *(str(int(n, 16)) for n in numbers), link, info))
    return rows


class Peer(unittest.TestCase):
    def test_symbols(self):
        for path in FILES:
            facts, peer = _dump(path), _symbols(path)
            for table in ("dynsym", "symtab"):
                with self.subTest(path=path, table=table):
                    self.assertEqual(facts[table], peer.get(table, []))
                    if table == "dynsym":
                        self.assertTrue(peer[table])

    def test_sections(self):
        for path in FILES:
            with self.subTest(path=path):
                self.assertEqual(_dump(path)["section"][1:], _sections(path)[1:])

    def test_libraries(self):
        for path in FILES:
            with self.subTest(path=path):
                text = _run("readelf", "-dW", path)
                facts = _dump(path)
                self.assertEqual(
                    [name for (name,) in facts.get("needed", [])],
                    re.findall(r"\(NEEDED\) +Shared library: \[(.*)\]", text),
                )
                soname = re.findall(r"\(SONAME\) +Library soname: \[(.*)\]", text)
                self.assertEqual(facts["soname"], [((soname or [""])[0],)])


if __name__ == "__main__":
    if shutil.which("readelf") is None:
        print("readelf is not installed")
        sys.exit(77)
    DUMP, *FILES = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
