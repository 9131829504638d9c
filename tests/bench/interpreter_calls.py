#!/usr/bin/env python3
"""Measures calls into interpreters (homefree/interpreters.h), with each libpython from 3.12 on,
those of free-threaded CPythons too.

    interpreter_calls.py --program FILE [--rounds N]

The ways take turns in one process (interpreter_calls.c). What a call takes is the median of the
rounds less the median of PyObject_Call() alone; what two interpreters do is the median of the
rounds' own ratios. The exit status is 77 if there is no such libpython.
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "interpreters")]
from interpreters import interpreters, number  # noqa: E402
from with_libpythons import libpython  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--program", required=True)
parser.add_argument("--rounds", type=int, default=15)


def measured(program, rounds, prefix, library):
    environment = {key: text for key, text in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [program, library, str(rounds)],
        env=environment | {"PYTHONHOME": prefix},
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    return {name: [float(word) for word in words] for name, *words in lines}


def main():
    options = parser.parse_args()
    found = [(python, text) for python, text in interpreters() if number(text) >= (3, 12)]
    found = [(text, libpython(python)) for python, text in found]
    for version, place in found:
        if place is None:
            continue
        times = measured(options.program, options.rounds, *place)
        bare = statistics.median(times["object"])
        print(f"CPython {version}")
        for way, wanted in (("session", 5), ("call", 5)):
            more = (statistics.median(times[way]) - bare) / 1000
            verdict = "ok" if more <= wanted else "missed"
            print(
                f"  {way}: {more:.2f} us beyond PyObject_Call ({bare:.0f} ns), "
                f"wanted {wanted}: {verdict}"
            )
        ratio = statistics.median(
            2 * one / two for one, two in zip(times["one"], times["two"], strict=True)
        )
        verdict = "ok" if ratio >= 1.9 else "missed"
        print(f"  two interpreters do {ratio:.2f} of the work of one, wanted 1.9: {verdict}")
    return 0 if any(place for _, place in found) else 77


if __name__ == "__main__":
    sys.exit(main())
