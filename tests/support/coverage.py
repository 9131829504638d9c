"""Reads what the coverage build counted: see tests/coverage.

usage: coverage.py BUILD-DIRECTORY table [--tests]    the table; --tests: failed tests as well
       coverage.py BUILD-DIRECTORY lines FILE         the lines of FILE that no test ran
"""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXPLAINED = ROOT / "tests/support/coverage_explained.txt"
# The percentage of lines that the tests must run in each room.
ROOMS = {"alloc": 92, "shim": 92, "loader": 92, "satellites": 92}


def clangs(tool):
    name = f"--print-prog-name={tool}"
    return subprocess.run(["clang", name], check=True, stdout=subprocess.PIPE).stdout.strip()


def is_elf(path):
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(18)
    return head[:4] == b"\x7fELF" and head[16] in (2, 3)


def has_mapping(path):
    """Whether an ELF file contains instrumented code."""
    sections = subprocess.run(
        ["readelf", "--wide", "--section-headers", path],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ).stdout
    return b"__llvm_covmap" in sections


def counts(directory):
    """How often each line of code ran, for each source file of the rooms."""
    profiles = sorted((directory / "profiles").glob("*.profraw"))
    if not profiles:
        sys.exit("coverage.py: nothing has been measured; run tests/coverage")
    merged = directory / "merged.profdata"
    subprocess.run(
        [clangs("llvm-profdata"), "merge", "-sparse", "-failure-mode=all", "-o", merged, *profiles],
        check=True,
    )
    objects = sorted(p for p in directory.rglob("*") if is_elf(p) and has_mapping(p))
    library = directory / "loader" / "libhomefree.so.1"
    others = [f"-object={p}" for p in objects if p != library]
    export = [clangs("llvm-cov"), "export", "-format=lcov", f"-instr-profile={merged}", library]
    # llvm-cov warns about inline functions that differ between objects.
    text = subprocess.run([*export, *others], check=True, text=True, capture_output=True).stdout
    files, lines = {}, None
    for record in text.splitlines():
        kind, _, value = record.partition(":")
        if kind == "SF":
            lines = files.setdefault(name_of(value), {})
        elif kind == "DA":
            line, count = map(int, value.split(",")[:2])
            lines[line] = max(count, lines.get(line, 0))
    # Rows of a table are no code, though the compiler counts those with an expression.
    return {
        name: lines
        for name, lines in files.items()
        if name.split("/")[0] in ROOMS and not name.endswith(".def")
    }


def name_of(path):
    resolved = pathlib.Path(path).resolve()
    if not resolved.is_relative_to(ROOT):
        return str(resolved)
    return str(resolved.relative_to(ROOT))


def read_explained():
    """(file, first text, last text, reason) of each entry."""
    entries = []
    for line in EXPLAINED.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, first, last, reason = (part.strip() for part in line.split(" | "))
            entries.append((name, first, last, reason))
    return entries


def explain(files):
    """Leaves out explained lines that did not run. Returns the entries that explain nothing."""
    stale = []
    for name, first, last, _ in read_explained():
        source = (ROOT / name).read_text(encoding="utf-8").splitlines()
        begin = next((n for n, s in enumerate(source, 1) if first in s), None)
        end = next((n for n, s in enumerate(source, 1) if begin and n >= begin and last in s), None)
        lines = files.get(name, {})
        missed = [n for n in range(begin or 0, (end or 0) + 1) if lines.get(n) == 0]
        if not missed:
            stale.append(f"{name}: {first}")
        for n in missed:
            del lines[n]
    return stale


def row(name, run, total):
    share = 100 * run / total if total else 100
    return f"{share:6.1f} %  {run:6} of {total:6}  {name}"


def share(pair):
    return pair[0] / pair[1] if pair[1] else 1


def add_up(files, key):
    sums = {}
    for name, lines in files.items():
        run, total = sums.get(key(name), (0, 0))
        sums[key(name)] = (run + sum(map(bool, lines.values())), total + len(lines))
    return sorted(sums.items(), key=lambda item: (share(item[1]), item[0]))


def failed_tests(directory):
    results = (directory / "meson-logs/testlog.json").read_text(encoding="utf-8").splitlines()
    tests = map(json.loads, results)
    return [t["name"] for t in tests if t["result"] not in ("OK", "EXPECTEDFAIL", "SKIP")]


def table(directory, tests):
    files = counts(directory)
    stale = explain(files)
    rooms = add_up(files, lambda name: name.split("/")[0])
    for title, sums in (
        ("files", add_up(files, lambda name: name)),
        ("directories", add_up(files, lambda name: name.rpartition("/")[0])),
        ("rooms", rooms),
    ):
        print(f"{title}:")
        for name, (run, total) in sums:
            print(row(name, run, total))
        print()
    problems = [
        f"{name}: below {ROOMS[name]} % of lines"
        for name, sums in rooms
        if 100 * share(sums) < ROOMS[name]
    ]
    problems += [f"{entry}: explained, but nothing there is left to explain" for entry in stale]
    if tests:
        problems += [f"failed: {name}" for name in failed_tests(directory)]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def show_lines(directory, name):
    lines = counts(directory).get(name)
    if lines is None:
        sys.exit(f"coverage.py: {name} is not a measured file")
    source = (ROOT / name).read_text(encoding="utf-8").splitlines()
    for number in sorted(n for n, count in lines.items() if count == 0):
        print(f"{number:5}  {source[number - 1]}")
    return 0


def main():
    directory = pathlib.Path(sys.argv[1]).resolve()
    if sys.argv[2] == "lines":
        return show_lines(directory, sys.argv[3])
    return table(directory, "--tests" in sys.argv[3:])


if __name__ == "__main__":
    sys.exit(main())
