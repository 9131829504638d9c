#!/usr/bin/env python3
"""What a limit that is not reached costs a real library: pyarrow, adopted, does the same work with
and without one, in turns in one process.

usage: limit_cost.py [--rounds N]        with PYTHONPATH: the package, and pyarrow's directory

Prints the ratio of the medians of processor time, with the quartiles of the rounds' ratios.
"""

import argparse
import io
import statistics
import time

import homefree

ROWS = 50_000


def work(pyarrow, csv, compute):
    table = pyarrow.table(
        {
            "key": pyarrow.array([str(i * 7919 % 1000) for i in range(ROWS)]),
            "value": pyarrow.array(range(ROWS)),
        }
    )
    file = io.BytesIO()
    csv.write_csv(table, file)
    file.seek(0)
    read = csv.read_csv(file)
    read.group_by("key").aggregate([("value", "sum")])
    read.sort_by([("key", "ascending"), ("value", "descending")])
    texts = compute.cast(read["value"], pyarrow.string())
    return compute.utf8_upper(compute.binary_join_element_wise(texts, texts, "-")).nbytes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=61)
    rounds = parser.parse_args().rounds
    homefree.import_hook(["pyarrow"], adopt=True)
    import pyarrow
    from pyarrow import compute, csv

    def measured():
        began = time.process_time()
        work(pyarrow, csv, compute)
        return time.process_time() - began

    samples = {True: [], False: []}
    measured()
    for number in range(rounds):
        for limited in (True, False) if number % 2 else (False, True):
            if not limited:
                samples[limited].append(measured())
                continue
            with homefree.limit("pyarrow", "unlimited") as limit:
                samples[limited].append(measured())
                peak = limit.peak
    ratios = [with_one / without for with_one, without in zip(samples[True], samples[False])]
    cuts = statistics.quantiles(ratios, n=4)
    ratio = statistics.median(samples[True]) / statistics.median(samples[False])
    print(f"with a limit / without  {ratio:.3f} ({cuts[0]:.3f}..{cuts[2]:.3f})")
    print(f"counted at most         {peak / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
