"""Prints the table of crossings: what each does to a module with a private allocator, and to the
same module on homefree.

Each cell is a process of its own (rows.py). Exit status: 0 when every row is ok on homefree and the
rows that must die without it do, 1 when not, 2 wrong usage, 3 when the table could not be made.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

from rows import CHECKED, LOADED, PROOF, ROWS, SKIPPED  # noqa: E402 (found beside this file)

WAYS = {"before": "private", "after": "homefree"}
FORMAT = 1  # of the --json document; grows when a field changes its meaning
WIDTH = 100
# ANSI: what is as it must be is faint before and green after; red is wrong, yellow is neither.
COLOURS = {
    "before": {"died": "2", "ok": "33", "skipped": "33"},
    "after": {"ok": "32", "skipped": "33"},
}
TIMEOUT = 120  # seconds a cell may take; the slowest takes about one


def shorten(message):
    """What an allocator says as it dies, without addresses, file names and process ids."""
    message = re.sub(r"^([\w./<>-]+:\d+\]|<\w+>:) ", "", message)
    message = re.sub(r"\s*\(?0x[0-9a-f]+\)?| \((out|top|fasttop|!prev)\)$", "", message)
    return message.strip()


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def run_cell(modules, way, row):
    """Runs one row one way.

    Result: outcome (ok, died, failed or skipped), the signal, whether the module was imported by
    then, and the last line that the process wrote on standard error.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONMALLOC", "PYTHONDEVMODE", "PYTHONFAULTHANDLER", "MALLOC_CONF")
    }
    environment.update(LC_ALL="C", LIBC_FATAL_STDERR_="1", PYTHONDONTWRITEBYTECODE="1")
    command = [sys.executable, os.path.join(HERE, "rows.py"), modules, WAYS[way], row.name]
    cell = {"outcome": "failed", "signal": None, "loaded": False, "message": ""}
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        cell["message"] = f"hung for {TIMEOUT} s"
        return cell
    output = done.stdout.decode(errors="replace").splitlines()
    cell["message"] = last_line(done.stderr.decode(errors="replace"))
    cell["loaded"] = LOADED in output
    if done.returncode < 0:
        cell["outcome"] = "died"
        cell["signal"] = signal.Signals(-done.returncode).name
    elif done.returncode == SKIPPED:
        cell["outcome"] = "skipped"
    elif done.returncode != 0:
        cell["message"] = cell["message"] or f"exit status {done.returncode}"
    elif output != [LOADED, CHECKED, *row.at_exit]:
        cell["message"] = "; ".join(output[2:]) or "not destroyed at exit"
    else:
        cell["outcome"] = "ok"
    return cell


def describe(cell):
    if cell["outcome"] == "ok":
        return "ok"
    message = shorten(cell["message"])
    head = cell["signal"] if cell["outcome"] == "died" else cell["outcome"]
    if not cell["loaded"]:
        head += " at import"
    # A segmentation fault has nothing to say; a line before it is chance.
    return head if not message or cell["signal"] == "SIGSEGV" else f"{head}: {message}"


class Paper:
    """Standard output and standard error, and whether they are terminals."""

    def __init__(self):
        plain = "NO_COLOR" in os.environ and os.environ["NO_COLOR"] != ""
        self.colour = sys.stdout.isatty() and not plain and os.environ.get("TERM") != "dumb"
        self.lively = sys.stderr.isatty()

    def paint(self, text, code):
        return f"\033[{code}m{text}\033[0m" if self.colour else text

    def progress(self, done, total, name):
        if self.lively:
            room = min(WIDTH, shutil.get_terminal_size().columns) - 1
            print(f"\r\033[K{f'{done}/{total} {name}'[:room]}", end="", file=sys.stderr, flush=True)

    def clear(self):
        if self.lively:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def clip(text, width):
    return text if len(text) <= width else text[: width - 1] + "…"


def print_table(paper, results):
    first = 2 + max(len(row.title) for row, _ in results)
    last = max(len(describe(cells["after"])) for _, cells in results)
    last = max(len("after"), min(last, 24))
    middle = WIDTH - first - last - 4
    print(paper.paint(f"{'what crosses':<{first}}  {'before':<{middle}}  after", "1"))
    group = ""
    for row, cells in results:
        if row.group != group:
            group = row.group
            print(paper.paint(group, "1"))
        line = f"{'  ' + row.title:<{first}}"
        for way, width in (("before", middle), ("after", last)):
            text = f"{clip(describe(cells[way]), width):<{width}}"
            line += "  " + paper.paint(text, COLOURS[way].get(cells[way]["outcome"], "31"))
        print(line.rstrip())


def verdict(results):
    """The rows that are not as they must be, each with the reason."""
    wrong = []
    for row, cells in results:
        if cells["after"]["outcome"] not in ("ok", "skipped"):
            wrong.append(f"{row.name}, after: {describe(cells['after'])}")
        if row.must_die and cells["before"]["outcome"] != "died":
            wrong.append(f"{row.name}, before: {describe(cells['before'])}, but it must die")
    return wrong


def run_rows(paper, modules, rows):
    cells = [(row, way) for row in rows for way in WAYS]
    results = {row.name: {} for row in rows}
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        futures = [pool.submit(run_cell, modules, way, row) for row, way in cells]
        for done, ((row, way), future) in enumerate(zip(cells, futures), 1):
            paper.progress(done, len(cells), f"{row.name}, {way}")
            results[row.name][way] = future.result()
    paper.clear()
    return [(row, results[row.name]) for row in rows]


def make_document(results, wrong):
    return {
        "format": "homefree-crossings",
        "version": FORMAT,
        "python": sys.version.split()[0],
        "ok": not wrong,
        "rows": [
            {"name": row.name, "group": row.group, "title": row.title, **cells}
            for row, cells in results
        ],
    }


def main():
    parser = argparse.ArgumentParser(
        description="Shows what memory that crosses between a module and its host does."
    )
    build = os.path.join(HERE, "..", "..", "build", "examples", "crossings")
    parser.add_argument("--modules", metavar="DIR", default=build, help="where the modules are")
    parser.add_argument("--only", metavar="NAME", action="append", help="run this row only")
    parser.add_argument("--json", action="store_true", help="write a document instead of a table")
    parser.add_argument("--list", action="store_true", help="list the rows' names")
    options = parser.parse_args()

    if options.list:
        for row in ROWS:
            print(f"{row.name:<18} {row.group}: {row.title}")
        return 0
    names = [row.name for row in ROWS]
    for name in options.only or []:
        if name not in names:
            parser.error(f"no row is called {name!r}; --list shows the names")
    modules = os.path.abspath(options.modules)
    if not os.path.isdir(modules):
        print(f"crossings: there is no directory {modules}; build first", file=sys.stderr)
        return 3

    for way in WAYS:
        proof = run_cell(modules, way, PROOF)
        if proof["outcome"] != "ok":
            print(f"crossings: the modules are not fit, {way}: {describe(proof)}", file=sys.stderr)
            return 3

    paper = Paper()
    rows = [row for row in ROWS if not options.only or row.name in options.only]
    results = run_rows(paper, modules, rows)
    wrong = verdict(results)
    if options.json:
        json.dump(make_document(results, wrong), sys.stdout, indent=2)
        print()
    else:
        print_table(paper, results)
        died = sum(cells["before"]["outcome"] == "died" for _, cells in results)
        fine = sum(cells["after"]["outcome"] == "ok" for _, cells in results)
        print(
            "\nbefore: the module has a private, hidden jemalloc; after: the same objects, linked "
            "with homefree.\nEach cell ran in a process of its own and checked what arrived.\n"
            f"{len(results)} crossings: {died} died before, {fine} are ok after."
        )
    for line in wrong:
        print(f"crossings: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
