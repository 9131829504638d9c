"""Real libraries, imported together in one process with homefree among them, work and end well.

One run of guest.py for each order, two at a time: it must end with 0, have said "fine", and nothing
on stderr. The interpreters are the virtual environments that homefree_wheels (tests/support/
prepare.sh) made; without them there is nothing to test, and the exit status is 77.

Usage: test_real.py --wheels DIRECTORY --library LIBHOMEFREE [--package DIRECTORY] [--how HOW]
                    [--conf CONF] [--orders all|some] ENVIRONMENT

ENVIRONMENT is a directory of DIRECTORY (debian, cpython-3.12), or "newest". "all" is each order of
the libraries, with homefree's place moving on from one to the next; "some" lets each library, and
homefree, be first once and last once.
"""

import argparse
import concurrent.futures
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import commands  # noqa: E402

LIBRARIES = {"debian": ["numpy", "torch", "pyarrow", "polars", "duckdb"]}
PLAIN = ["numpy", "pyarrow", "polars", "duckdb"]
TIMEOUT = 120
SKIPPED = 77
# The releases that can lend each other memory as crossings.py has them do (from_dlpack()).
FIRST = {"numpy": (1, 23), "torch": (1, 10)}


def find(wheels, name):
    """The environment's name and interpreter; exits if there is none."""
    if name == "newest":
        found = [path.name for path in wheels.glob("cpython-3.*") if (path / "ready").exists()]
        found = [found for found in found if not found.endswith("t")]
        if not found:
            print(f"no environment with wheels in {wheels}; tests/run makes them")
            sys.exit(SKIPPED)
        name = max(found, key=lambda text: int(re.search(r"3\.(\d+)", text)[1]))
    directory = wheels / name
    if not (directory / "ready").exists():
        why = directory / "unavailable"
        print(why.read_text() if why.exists() else f"there is no {name} in {wheels}")
        sys.exit(SKIPPED)
    return name, directory / "bin" / "python"


def all_orders(libraries):
    for number, order in enumerate(itertools.permutations(libraries)):
        place = number % (len(order) + 1)
        yield [*order[:place], "homefree", *order[place:]]


def some_orders(libraries):
    names = [*libraries, "homefree"]
    for number in range(len(names)):
        turned = names[number:] + names[:number]
        yield turned if number % 2 else [turned[0], *turned[:1:-1], turned[1]]


def run(python, options, order):
    """None, or a description of the error."""
    environment = commands.environment(("PYTHON", "MALLOC_", "LD_", "HOMEFREE_"))
    # Two runs share the processors, and each library would use all of them.
    environment.update(OMP_NUM_THREADS="2", OPENBLAS_NUM_THREADS="2", POLARS_MAX_THREADS="2")
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    if options.package:
        environment["PYTHONPATH"] = str(options.package)
    if options.conf:
        environment["HOMEFREE_CONF"] = options.conf
    command = [python, "-X", "faulthandler", HERE / "guest.py", options.how, options.library]
    status, said, errors = commands.run(
        *command, *order, seconds=TIMEOUT, env=environment, errors=subprocess.PIPE
    )
    if (status, said, errors) == (0, "fine\n", ""):
        return None
    how = "hangs" if status is None else f"exit status {status}, said {said!r}"
    return f"{' '.join(order)}: {how}\n" + "\n".join(errors.splitlines()[:60])


def versions(python, libraries):
    code = (
        "import importlib.metadata as m, sys; print('CPython', sys.version.split()[0], *("
        "f'{n} {m.version(n)}' for n in sys.argv[1:]), sep=', ')"
    )
    done = subprocess.run([python, "-c", code, *libraries], capture_output=True, text=True)
    return done.stdout.strip()


def too_old(found):
    """The libraries in the text of versions() that are too old for this test."""
    return [
        f"{name} {version}"
        for name, version in (word.split() for word in found.split(", ")[2:])
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < FIRST.get(name, ())
    ]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--wheels", type=Path, required=True)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--package", type=Path)
    parser.add_argument("--how", default="arena", choices=["none", "route", "off", "arena", "full"])
    parser.add_argument("--conf")
    parser.add_argument("--orders", default="some", choices=["all", "some"])
    parser.add_argument("environment")
    options = parser.parse_args()
    name, python = find(options.wheels, options.environment)
    libraries = LIBRARIES.get(name, PLAIN)
    found = versions(python, libraries)
    if old := too_old(found):
        print(f"{' and '.join(old)} cannot lend memory by from_dlpack()")
        sys.exit(SKIPPED)
    orders = list({"all": all_orders, "some": some_orders}[options.orders](libraries))
    with concurrent.futures.ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        results = list(pool.map(lambda order: run(python, options, order), orders))
    failures = [result for result in results if result]
    print(found, f"{len(orders)} orders, {len(failures)} failed", sep=": ")
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
