#!/usr/bin/env python3
"""How much memory programs take that grow in a free-threaded CPython, and what is left once they
are idle: without homefree, with a GIL, with install(), and under `homefree run`.

    growth.py --package DIR --command FILE [--python FILE] [--gil FILE] [--only NAME,...] [--mib N]

growing.py has the programs. Each is a process of its own, and the ways take turns. A figure is the
median of MiB resident; what the interpreter had at its start is left out. "live" is what the
program holds. Prints a table, or with --json a document.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

import two_pythons

PROGRAMS = Path(__file__).resolve().parent / "growing.py"
NAMES = "stranded", "ending", "handed", "dicts", "orphans", "cycles"
WAYS = {
    "stock": "stock",
    "GIL": "stock",
    "install()": "install",
    "background": "background",
    "run": "stock",
}
WANTED = 1.2  # settled / live, of what is stranded


def sample(options, way, name):
    """The figures of one process, in MiB."""
    python = options.gil if way == "GIL" else options.python
    environment = two_pythons.environment(options, python)
    command = [python, PROGRAMS, name, WAYS[way], str(options.mib), str(options.settle)]
    if way == "run":
        command = [options.command, "run", "--", *command]
    done = subprocess.run(
        [*map(str, command)], env=environment, capture_output=True, text=True, timeout=600
    )
    if done.returncode != 0:
        raise SystemExit(f"could not measure {name}, {way}: {done.stderr[-500:]}")
    found = json.loads(done.stdout)
    began = found.pop("began")
    return {key: value - began * (key != "live") for key, value in found.items()}


def table(seen, ways):
    print("| program | live | " + " | ".join(f"{way}: peak, settled" for way in ways) + " |")
    print("|---|" + "---|" * (1 + len(ways)))
    for name, rows in seen.items():
        cells = [f"{rows[way]['peak']}, {rows[way]['settled']}" for way in ways]
        print(f"| {name} | {rows[ways[0]]['live']} | " + " | ".join(cells) + " |")
    if "stranded" in seen:
        for way in ways:
            row = seen["stranded"][way]
            ratio = row["settled"] / row["live"]
            said = "ok" if ratio <= WANTED else "missed"
            print(f"stranded, {way}: {ratio:.2f} of what is live: {said}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    two_pythons.add_options(parser)
    parser.add_argument("--only", default=",".join(NAMES), help="programs (%(default)s)")
    parser.add_argument("--mib", type=int, default=1536, help="of work (%(default)s)")
    parser.add_argument("--settle", type=float, default=5, help="idle seconds (%(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="of each (%(default)s)")
    options = two_pythons.parse(parser)
    ways = [way for way in WAYS if way != "GIL" or options.gil]
    seen = {}
    for name in options.only.split(","):
        found = {way: [] for way in ways}
        for _ in range(options.rounds):
            for way in ways:
                found[way].append(sample(options, way, name))
        seen[name] = {
            way: {key: round(statistics.median(row[key] for row in rows)) for key in rows[0]}
            for way, rows in found.items()
        }
        print(name, file=sys.stderr)
    if options.json:
        print(json.dumps(seen, indent=2))
    else:
        table(seen, ways)


if __name__ == "__main__":
    main()
