#!/usr/bin/env python3
"""Wheels for macOS and Windows from an index, read by `homefree inspect`: what is known to work has
no finding above note, alone or together, and what was reported is named by the rule behind it.
Where LIEF and pefile can be had, what they read is compared.

usage: tests/long/platforms.py [--build DIRECTORY] [--wheels DIRECTORY] [--peers PYTHON]

--wheels: where wheels are kept (default: one after the other in a temporary directory).
--peers: a Python with lief and pefile; without it nothing is compared.

Exit status: 0 passed, 1 failed, 77 no wheel could be had.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import peak  # noqa: E402
from rows import row  # noqa: E402

WINDOWS = ["win_amd64"]
MACOS = [f"macosx_{number}_0_{of}" for number in (14, 13, 12, 11) for of in ("arm64", "universal2")]
KNOWN = (
    "pyarrow==26.0.1",
    "polars-runtime-32==2.1.0",
    "duckdb==2.0.1",
    "opencv-python-headless==5.0.0.93",
    "scikit-learn==1.9.1",
    "torch==2.15.0",
)
# Reports of crashes on macOS: the wheels, and the rules that must be found.
REPORTS = {
    "apache/arrow 50428, microsoft/mimalloc 1301 and 1327": (
        ("pyarrow==24.0.0", "kglite==0.11.0"),
        {"tls-slot-clash", "fixed-tls-slot"},
    ),
    "MarkusSintonen/pyreqwest 46": (
        ("pyarrow==24.0.0", "pyreqwest==0.12.2"),
        {"tls-slot-clash", "fixed-tls-slot"},
    ),
    "catboost/catboost 3086": (("catboost==1.2.10",), {"fixed-tls-slot", "own-free"}),
    # The repaired pyarrow beside the same module.
    "after apache/arrow 50549": (("pyarrow==26.0.1", "kglite==0.11.0"), {"fixed-tls-slot"}),
}
# Of known wheels, on macOS: each has a libomp of its own.
TOGETHER = {"several-openmps"}
MEMORY_MOST = 500 << 20
LARGE = 200 << 20  # bytes of an object that is not given to a peer
PEER = """
import json, sys
import lief, pefile
lief.logging.disable()
pefile.MAX_IMPORT_SYMBOLS = 1 << 20  # else it stops at 8192
def windows(path):
    pe = pefile.PE(path, fast_load=True, max_symbol_exports=1 << 20)
    pe.parse_data_directories([0, 1, 13])
    tables = [getattr(pe, f"DIRECTORY_ENTRY_{name}", []) for name in ("IMPORT", "DELAY_IMPORT")]
    libraries = {entry.dll.decode() for table in tables for entry in table}
    exports = getattr(getattr(pe, "DIRECTORY_ENTRY_EXPORT", None), "symbols", [])
    return sorted(libraries), sum(one.name is not None for one in exports)
def macos(path):
    image = lief.MachO.parse(path).at(0)
    kinds = [one.raw_type for one in image.symbols if not one.raw_type & 0xE0]
    count = sum(kind & 0x11 == 1 and kind & 0xE > 0 for kind in kinds)
    own_id = lief.MachO.LoadCommand.TYPE.ID_DYLIB
    own = image[own_id].name if image.has(own_id) else None
    return sorted({one.name for one in image.libraries} - {own}), count
platform, *paths = sys.argv[1:]
print(json.dumps([(windows if platform == "Windows" else macos)(path) for path in paths]))
"""


class Wheels:
    """Downloads wheels, and removes what nobody wants to keep."""

    def __init__(self, directory, keep):
        self.directory, self.keep = directory, keep

    def get(self, name, platforms):
        """The file, or None."""
        project = name.partition("==")[0].replace("-", "_")
        version = name.partition("==")[2]
        ends = tuple(platforms)
        for path in self.directory.glob(f"{project}-{version}-*.whl"):
            if path.stem.endswith(ends):
                return path
        words = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", self.directory]
        words += ["--only-binary=:all:", "--python-version", "3.12", "--implementation", "cp"]
        words += ["--abi", "cp312", "--abi", "abi3"]
        words += [word for one in platforms for word in ("--platform", one)]
        before = set(self.directory.iterdir())
        subprocess.run([*words, name], capture_output=True)
        return next(iter(set(self.directory.iterdir()) - before), None)

    def drop(self, paths):
        for path in [] if self.keep else paths:
            path.unlink(missing_ok=True)


def inspect(homefree, *words):
    """The document, and bytes at most used by a process of the command."""
    status, document, said, most = peak.run([homefree, "inspect", "--json", *words])
    if status not in (0, 1):
        raise SystemExit(f"platforms: {said.decode()}")
    return json.loads(document), most


def grave(document):
    return {
        one["rule"]
        for file in document["files"]
        for one in file["findings"]
        if one["severity"] != "note"
    }


def compare(python, wheel, document):
    """Where a peer sees something else: (member, what is seen here, what there)."""
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as directory:
        files = [
            file
            for file in document["files"]
            if ", " not in file["machine"] and archive.getinfo(file["member"]).file_size < LARGE
        ]
        paths = [archive.extract(file["member"], directory) for file in files]
        words = [python, "-c", PEER, files[0]["platform"] if files else "", *paths]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        for file, theirs in zip(files, json.loads(done.stdout)):
            ours = [sorted(one["name"] for one in file["libraries"]), file["exports"]]
            if ours != theirs:
                yield file["member"], ours, theirs


class Run:
    def __init__(self, arguments, directory):
        self.homefree = arguments.build.resolve() / "loader/command/homefree"
        self.wheels = Wheels(directory, arguments.wheels is not None)
        self.peers = arguments.peers
        self.failed = self.seen = 0

    def told(self, name, figure, good):
        self.seen += 1
        self.failed += not good
        print(f"{'ok    ' if good else 'FAILED'}  {name}: {figure}", flush=True)
        row(f"platforms: {name}", figure, "passed" if good else "failed")

    def known(self, platform, platforms):
        paths = []
        for name in KNOWN:
            path = self.wheels.get(name, platforms)
            if path is None:
                print(f"skipped {name} for {platform}")
                continue
            start = time.monotonic()
            document, used = inspect(self.homefree, path)
            took = time.monotonic() - start
            figure = f"{len(document['files'])} objects, {took:.1f} s, {used >> 20} MiB"
            found = grave(document)
            good = not found and used < MEMORY_MOST
            self.told(f"{name}, {platform}", f"{figure} {', '.join(sorted(found))}", good)
            if self.peers:
                differ = list(compare(self.peers, path, document))
                self.told(f"{name}, {platform}, peers", f"{differ[:2] or 'the same'}", not differ)
            paths.append(path)
        if len(paths) == len(KNOWN):
            found = grave(inspect(self.homefree, "--environment", *paths)[0])
            expected = TOGETHER if platform == "macOS" else set()
            self.told(f"all for {platform} together", f"{sorted(found)}", found == expected)
        self.wheels.drop(paths)

    def reports(self):
        for report, (names, rules) in REPORTS.items():
            paths = [self.wheels.get(name, MACOS) for name in names]
            if None in paths:
                print(f"skipped {report}")
            else:
                found = grave(inspect(self.homefree, "--environment", *paths)[0])
                self.told(report, ", ".join(sorted(found)), found == rules)
            self.wheels.drop([path for path in paths if path is not None])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--wheels", type=pathlib.Path)
    parser.add_argument("--peers")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        run = Run(arguments, arguments.wheels or pathlib.Path(temporary))
        run.reports()
        run.known("macOS", MACOS)
        run.known("Windows", WINDOWS)
    if run.seen == 0:
        print("no wheel could be had")
        return 77
    print(f"{run.seen} checks, {run.failed} failed")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
