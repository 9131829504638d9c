#!/usr/bin/env python3
"""Measures what an idle process keeps after work with five data wheels, and what trim() leaves.

    idle.py [--rounds N] [--rows N] [--json]        PYTHONPATH must lead to the package

Run it by a CPython that has NumPy, pandas, pyarrow, polars and DuckDB. Plain CPython, one with
install() and one with install(background=True) take turns, each in a process of its own; figures
are medians of MB resident, and a ratio is one of medians with plain CPython's. `seconds` is
processor time of the work, `idle ms/s` that of an idle second, in milliseconds.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

WAYS = ("plain", "install", "background")
FIGURES = ("loaded", "peak", "idle", "trimmed", "seconds", "idle ms/s")


def resident(name):
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(name + ":"):
                return int(line.split()[1]) / 1024
    raise SystemExit(f"/proc/self/status has no {name}")


def work(rows):
    """Little of it is live in the end."""
    import duckdb
    import numpy as np
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    random = np.random.default_rng(1)
    columns = {"key": random.integers(0, 1000, rows), "value": random.random(rows)}
    table = pa.table(columns)
    results = [table.group_by("key").aggregate([("value", "sum")])]
    table.sort_by("value")
    frame = pl.from_arrow(table)
    results.append(frame.group_by("key").agg(pl.col("value").mean()))
    frame.sort("value")
    with duckdb.connect() as connection:
        connection.register("data", table)
        query = "select key, avg(value) from data group by key"
        results.append(connection.execute(query).fetchall())
    frame = pd.DataFrame(columns)
    names = pd.DataFrame({"key": np.arange(1000), "name": [str(key) for key in range(1000)]})
    results.append(frame.sort_values("value").groupby("key").value.sum())
    results.append(frame.merge(names, on="key").head(1000).copy())
    return results


def measure(way, rows):
    import homefree

    if way != "plain":
        homefree.install(background=way == "background")
    kept = work(1000)
    figures = {"loaded": resident("VmRSS")}
    began = time.process_time()
    for _ in range(2):
        kept = work(rows)
    figures["seconds"] = time.process_time() - began
    time.sleep(2)
    began = time.process_time()
    time.sleep(2)
    figures["idle ms/s"] = (time.process_time() - began) * 500
    figures["peak"], figures["idle"] = resident("VmHWM"), resident("VmRSS")
    homefree.trim()
    figures["trimmed"] = resident("VmRSS")
    assert len(kept) == 5
    print(json.dumps(figures))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=5, help="processes of each (%(default)s)")
    parser.add_argument("--rows", type=int, default=4_000_000, help="of each table (%(default)s)")
    parser.add_argument("--json", action="store_true", help="a JSON document instead of the table")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way is not None:
        measure(options.way, options.rows)
        return
    seen = {way: {figure: [] for figure in FIGURES} for way in WAYS}
    for _ in range(options.rounds):
        for way in WAYS:
            command = [sys.executable, __file__, "--rows", str(options.rows), "--way", way]
            found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
            for figure in FIGURES:
                seen[way][figure].append(found[figure])
    medians = {
        way: {figure: statistics.median(values) for figure, values in figures.items()}
        for way, figures in seen.items()
    }
    if options.json:
        print(json.dumps(medians, indent=2))
        return
    print(f"{'':10}{'plain':>10}" + "".join(f"{way:>12}{'ratio':>8}" for way in WAYS[1:]))
    for figure in FIGURES:
        plain = medians["plain"][figure]
        print(f"{figure:10}{plain:10.1f}", end="")
        for way in WAYS[1:]:
            ours = medians[way][figure]
            print(f"{ours:12.1f}{ours / plain if plain else 0:8.2f}", end="")
        print()


if __name__ == "__main__":
    main()
