"""The rooms alloc, shim, loader, satellites and python have no circles and no upward arrows.

A unit is a source file with its header: the files of one stem in one directory. A unit uses another
where it includes one of its files or where its object file needs a symbol that the other defines.
ARCHITECTURE.md has the table of layers, lowest first. The test fails

- where units use each other in a circle,
- where a unit uses one of a higher layer, or of a layer that its row of the table does not name, or
  where no unit uses one of a layer that the row names,
- where a unit that is not listed below has a constructor,
- where a source file belongs to no layer, or two have the same name in different directories
  (but for installed headers, which users find by their directory),
- where a source file does not say under which licence it is, or a header's guard is not its path.

The interface of the heap's front end, alloc/heap/front_end.h, is a unit: what it declares may be
called by everyone, and some of it is implemented above. That is the one place where calls go up.

A satellite defines functions of the core, which it calls through the core's table, once more under
the same names. So what it defines counts in it alone.

Usage: test_layers.py --source DIRECTORY --build DIRECTORY --jemalloc ARCHIVE --binaries FILE…
                      --satellites FILE… [--print] [unittest arguments]

--binaries    what Meson links from our object files; their private directories lie beside them
--satellites  the same of satellites
--print       shows all arrows instead of testing
"""

import argparse
import json
import re
import subprocess
import sys
import unittest
from collections import defaultdict
from pathlib import Path, PurePosixPath

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from circles import circles  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--source", required=True, type=Path)
parser.add_argument("--build", required=True, type=Path)
parser.add_argument("--jemalloc", required=True, type=Path)
parser.add_argument("--binaries", nargs="+", required=True, type=Path)
parser.add_argument("--satellites", nargs="*", default=[], type=Path)
parser.add_argument("--print", action="store_true")

ROOMS = ("alloc", "shim", "loader", "satellites", "python")
SOURCES = (".c", ".cc", ".h", ".def", ".in")
INTERFACE = "alloc/heap/front_end"
JEMALLOC = "alloc/pages/jemalloc"
LICENCE = "SPDX-License-Identifier: BSD-2-Clause"
LICENSED = {".c", ".cc", ".h", ".S", ".rs", ".py", ".pyi", ".sh"}
# Names that build tools and Python require.
SHARED_NAMES = {"meson.build", "__init__.py", "__main__.py"}


# Known upward arrows and circles, to be cut. Nothing may be added.
BREACHES: set = set()
# Units of libhomefree that have constructors. Nothing may be added. libhomefree-diagnose.so, which
# is not read here, has alloc/diagnose/diagnosis and loader/diagnose/python_watch besides.
CONSTRUCTORS = {"loader/init"}
# File names that two directories share, known and to be changed. Nothing may be added.
SAME_NAMES: set = set()


# ---- what the sources say ------------------------------------------------------------------------


def unit_of(path):
    """The unit of a source file, by its path below the source directory."""
    path = PurePosixPath(path)
    return str(path.parent / path.name.split(".")[0])


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)


def source_files(root):
    listed = [path for room in ROOMS for path in sorted((root / room).rglob("*"))]
    return [path for path in listed if path.is_file() and "__pycache__" not in path.parts]


def include_arrows(root):
    """The includes: {(user, used): files}."""
    arrows = defaultdict(set)
    for path in source_files(root):
        if path.suffix not in SOURCES:
            continue
        name = path.relative_to(root).as_posix()
        text = without_comments(path.read_text(encoding="utf-8"))
        for quoted in re.findall(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]', text, flags=re.M):
            places = [PurePosixPath(directory) / quoted for directory in ("", "alloc/include")]
            places.append(PurePosixPath(name).parent / quoted)
            for place in places:
                if place.parts[0] in ROOMS and (root / place).is_file():
                    arrows[unit_of(name), unit_of(place)].add(f"{name} includes {place}")
                    break
    return arrows


# ---- what the object files say -------------------------------------------------------------------


def global_symbols(paths):
    """(defined, undefined) names of each object file or archive, by its path."""
    done = subprocess.run(
        ["nm", "--extern-only", "--format=posix", "--print-file-name", *paths],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    )
    symbols = {str(path): (set(), set()) for path in paths}
    for line in done.stdout.splitlines():
        # "FILE: NAME TYPE VALUE SIZE" or "ARCHIVE[MEMBER]: NAME TYPE VALUE SIZE"
        file, _, symbol = line.partition(": ")
        defined, undefined = symbols[file.partition("[")[0]]
        name, kind = symbol.split()[:2]
        (undefined if kind in "Uw" else defined).add(name)
    return {
        path: (symbols[str(path)][0], symbols[str(path)][1] - symbols[str(path)][0])
        for path in paths
    }


def directory_of(binary):
    """Where Meson puts the object files of a binary."""
    return (binary.parent / (binary.name + ".p")).resolve()


def object_units(root, build, binaries):
    """The object files of the `binaries`: {path: unit}."""
    directories = {directory_of(binary) for binary in binaries}
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    units = {}
    for command in commands:
        directory = Path(command["directory"])
        output = (directory / command["output"]).resolve()
        source = (directory / command["file"]).resolve()
        if output.parent not in directories or not output.is_file():
            continue
        if source.is_relative_to(build.resolve()):
            # Each function has a generated source, all made from shim/module.c.in.
            units[output] = unit_of("shim/module.c.in")
        elif source.is_relative_to(root.resolve()):
            units[output] = unit_of(source.relative_to(root.resolve()).as_posix())
    return units


def with_constructors(paths):
    """Those of the object files that have one."""
    done = subprocess.run(
        ["readelf", "--wide", "--sections", *paths], check=True, text=True, stdout=subprocess.PIPE
    )
    files = dict(part.split("\n", 1) for part in done.stdout.split("\nFile: ")[1:])
    return [path for path in paths if ".init_array" in files[str(path)]]


def interface_symbols(root):
    """What the front end's header declares, and the two functions that a public one declares."""
    text = without_comments((root / (INTERFACE + ".h")).read_text(encoding="utf-8"))
    return set(re.findall(r"\bhf_\w+", text)) | {"hf_malloc", "hf_free"}


def public_symbols(root):
    """What the installed headers declare."""
    texts = (path.read_text(encoding="utf-8") for path in (root / "alloc/include").rglob("*.h"))
    return {name for text in texts for name in re.findall(r"\bhf_\w+", without_comments(text))}


def symbol_arrows(options):
    """The symbols that object files need: {(user, used): symbols}."""
    units = object_units(options.source, options.build, options.binaries + options.satellites)
    symbols = global_symbols(list(units))
    home = {}
    of_satellite = {directory_of(satellite): {} for satellite in options.satellites}
    for path, (defined, _) in symbols.items():
        for name in defined:
            # The shim defines libc's names for modules.
            if not units[path].startswith("shim/") or name.startswith("hf_"):
                of_satellite.get(path.parent, home)[name] = units[path]
    ours, needed = global_symbols([options.jemalloc])[options.jemalloc]
    # jemalloc is a unit of its own, above what lies beneath it.
    home.update({name: JEMALLOC for name in ours if name.startswith("hf_")})
    home.update({name: INTERFACE for name in interface_symbols(options.source) if name in home})
    arrows = defaultdict(set)
    public = public_symbols(options.source)
    users = [(JEMALLOC, needed, home)]
    for path, unit in units.items():
        users.append((unit, symbols[path][1], {**home, **of_satellite.get(path.parent, {})}))
    for user, names, homes in users:
        # The extension links libhomefree, of which it may only need what public headers declare.
        for name in (names - public if user.startswith("python/") else names) & homes.keys():
            arrows[user, homes[name]].add(f"{user} needs {name}")
    if not any(unit.startswith("loader/") for unit in units.values()):
        raise SystemExit("no object files of the loader were found")
    return arrows


def all_arrows(options):
    arrows = include_arrows(options.source)
    for arrow, why in symbol_arrows(options).items():
        arrows[arrow] |= why
    return {arrow: why for arrow, why in arrows.items() if arrow[0] != arrow[1]}


def circles_of(arrows):
    """The circles of units: {(user, used): …}."""
    graph = defaultdict(set)
    for user, used in arrows:
        graph[user].add(used)
    return circles(graph)


# ---- the table of layers -------------------------------------------------------------------------


class Layers:
    """The table below the heading "Layers" of ARCHITECTURE.md."""

    def __init__(self, text):
        section = re.search(r"^## Layers\n(.*?)(?=^## |\Z)", text, flags=re.M | re.S)
        if section is None:
            raise SystemExit('ARCHITECTURE.md has no section "Layers"')
        rows = [
            [cell.strip() for cell in line.strip().strip("|").split("|")]
            for line in section[1].splitlines()
            if line.startswith("|")
        ][2:]
        self.names = [name.strip("`") for name, _, _ in rows]
        self.places = {}
        self.allowed = {}
        for rank, (name, places, uses) in enumerate(rows):
            for place in re.findall(r"`([^`]+)`", places):
                self.places[place.rstrip("/")] = rank
            lower = set()
            if uses != "nothing":
                lower = {self.rank(used, name) for used in uses.split(", ")}
            if any(used >= rank for used in lower):
                raise SystemExit(f"ARCHITECTURE.md: layer {name} may use a higher layer")
            self.allowed[rank] = lower | {rank}

    def rank(self, name, where):
        name = name.strip("`")
        if name not in self.names:
            raise SystemExit(f"ARCHITECTURE.md: layer {where} may use {name}, which is not a layer")
        return self.names.index(name)

    def of(self, unit):
        """The rank of the longest entry that contains the unit; None if there is none."""
        found = None
        for place, rank in self.places.items():
            stem = place if "." not in place else unit_of(place)
            holds = unit == stem or unit.startswith(stem + "/")
            if holds and (found is None or len(stem) > len(found[0])):
                found = stem, rank
        return found[1] if found else None


# ---- the test ------------------------------------------------------------------------------------


class Lists(unittest.TestCase):
    def must_be_none(self, lines, what):
        if lines:
            self.fail("\n  ".join([f"{what}:", *lines]))


class Arrows(Lists):
    @classmethod
    def setUpClass(cls):
        cls.layers = Layers((options.source / "ARCHITECTURE.md").read_text(encoding="utf-8"))
        cls.arrows = all_arrows(options)

    def because(self, arrow):
        return f"{arrow[0]} -> {arrow[1]} ({'; '.join(sorted(self.arrows[arrow]))})"

    def test_every_source_file_has_a_layer(self):
        units = {
            unit_of(path.relative_to(options.source).as_posix())
            for path in source_files(options.source)
            if path.suffix in (".c", ".cc", ".h", ".def")
        }
        homeless = sorted(unit for unit in units if self.layers.of(unit) is None)
        self.must_be_none(homeless, "ARCHITECTURE.md names no layer for these")

    def test_no_arrow_leaves_its_layer_upward(self):
        wrong = []
        for user, used in sorted(self.arrows.keys() - BREACHES):
            rank, other = self.layers.of(user), self.layers.of(used)
            if None not in (rank, other) and other not in self.layers.allowed[rank]:
                wrong.append(self.because((user, used)))
        self.must_be_none(wrong, "the table of layers in ARCHITECTURE.md does not allow this")

    def test_no_row_names_what_its_layer_does_not_use(self):
        unused = {
            (rank, used) for rank, allowed in self.layers.allowed.items() for used in allowed
        } - {(self.layers.of(user), self.layers.of(used)) for user, used in self.arrows}
        names = self.layers.names
        self.must_be_none(
            [f"{names[rank]}: {names[used]}" for rank, used in sorted(unused) if rank != used],
            "the table of layers in ARCHITECTURE.md names more than is used",
        )

    def test_no_circles(self):
        arrows = self.arrows.keys() - BREACHES
        found = [
            self.because(arrow)
            for circle in circles_of(arrows)
            for arrow in sorted(arrows)
            if set(circle).issuperset(arrow)
        ]
        self.must_be_none(found, "these units use each other")

    def test_known_breaches_are_still_there(self):
        gone = [f"{user} -> {used}" for user, used in sorted(BREACHES - self.arrows.keys())]
        self.must_be_none(gone, "these are mended: take them out of BREACHES")


class Constructors(Lists):
    def test_constructors_are_known(self):
        units = object_units(options.source, options.build, options.binaries + options.satellites)
        # The shim is linked into modules and may have constructors there.
        library = {path: unit for path, unit in units.items() if not unit.startswith("shim/")}
        found = {library[path] for path in with_constructors(list(library))}
        self.must_be_none(sorted(found - CONSTRUCTORS), "these have constructors")
        self.must_be_none(sorted(CONSTRUCTORS - found), "these have none: take out of CONSTRUCTORS")


class Names(Lists):
    def test_no_two_files_have_the_same_name(self):
        directories = defaultdict(list)
        for path in source_files(options.source):
            name = path.relative_to(options.source)
            if name.name not in SHARED_NAMES and not name.is_relative_to("alloc/include"):
                directories[name.name].append(name.as_posix())
        same = {name: ", ".join(paths) for name, paths in directories.items() if len(paths) > 1}
        unknown = [same[name] for name in sorted(same.keys() - SAME_NAMES)]
        self.must_be_none(unknown, "these have the same name")
        self.must_be_none(sorted(SAME_NAMES - same.keys()), "renamed: take out of SAME_NAMES")

    def test_each_file_names_its_licence_and_guards_its_path(self):
        unlicensed, wrong = [], []
        for path in source_files(options.source):
            name = path.relative_to(options.source).as_posix()
            text = path.read_text(encoding="utf-8") if path.suffix in LICENSED else ""
            if text.strip() and LICENCE not in "".join(text.splitlines(keepends=True)[:2]):
                unlicensed.append(name)
            guard = re.sub("[^A-Z0-9]", "_", name.removeprefix("alloc/include/homefree/").upper())
            if path.suffix == ".h" and not re.search(rf"# *define HOMEFREE_{guard}\n", text):
                wrong.append(f"{name} is guarded by HOMEFREE_{guard}")
        self.must_be_none(unlicensed, f"their first line is not {LICENCE}")
        self.must_be_none(wrong, "one scheme of guards")


if __name__ == "__main__":
    options, arguments = parser.parse_known_args()
    if options.print:
        arrows = all_arrows(options)
        for (user, used), why in sorted(arrows.items()):
            print(f"{user} -> {used}: {'; '.join(sorted(why))}")
        for circle in circles_of(arrows):
            print("circle:", ", ".join(sorted(circle)))
        sys.exit()
    unittest.main(argv=[sys.argv[0], *arguments])
