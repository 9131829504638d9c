#!/usr/bin/env python3
"""Counts what allocators catch of the heap errors in tests/alloc/checks, side by side: of the 116
cases of kinds.c, and with --list errors of those of errors.c.

Each case is a small program with one fault. caught: the allocator ended the process (SIGABRT);
crashed: another signal, as from a page that nobody may touch, or by luck; prevented: it went on,
because the fault found nothing to harm; hung: it did not end within seconds; missed: it went on.

    heap_errors.py --program FILE --library FILE [--list kinds|errors] [--preload NAME=PATH ...]
        [--json]

--program is count_errors, --library libhomefree. Allocators are preloaded; those that are not
installed are left out, and --preload adds others. Exit 0, or 1 where a count could not be had.
"""

import argparse
import json
import os
import re
import subprocess
import sys

TUNING = ("LD_PRELOAD", "GLIBC_TUNABLES", "MALLOC_CONF", "MALLOC_CHECK_", "HOMEFREE_CONF")
PEERS = {
    "jemalloc": "libjemalloc.so.2",
    "mimalloc": "libmimalloc.so.2",
    "mimalloc, secure": "libmimalloc-secure.so.2",
    "tcmalloc": "libtcmalloc_minimal.so.4",
    "tcmalloc, debug": "libtcmalloc_minimal_debug.so.4",
}
COLUMNS = ("all", "caught", "crashed", "prevented", "hung", "missed")


def count(command, settings):
    """What count_errors prints, as a dict; None if the preloaded library is not installed."""
    environment = {k: v for k, v in os.environ.items() if k not in TUNING}
    environment.update(settings)
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=3600, check=False
    )
    if "cannot be preloaded" in done.stderr:
        return None
    if done.returncode != 0:
        raise RuntimeError(f"{settings}: exit {done.returncode}: {done.stderr.strip()[-500:]}")
    return {name: int(value) for name, value in re.findall(r"(\w+) (\d+)", done.stdout)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--list", choices=("kinds", "errors"), default="kinds")
    parser.add_argument("--preload", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    variants = {
        "homefree, checks:full": {"LD_PRELOAD": arguments.library, "HOMEFREE_CONF": "checks:full"},
        "homefree, checks:hardened": {
            "LD_PRELOAD": arguments.library,
            "HOMEFREE_CONF": "checks:hardened",
        },
        "homefree": {"LD_PRELOAD": arguments.library},
        "glibc": {},
        "glibc, MALLOC_CHECK_=3": {
            "LD_PRELOAD": "libc_malloc_debug.so.0",
            "MALLOC_CHECK_": "3",
        },
    }
    for name, library in PEERS.items():
        variants[name] = {"LD_PRELOAD": library}
    for more in arguments.preload:
        name, _, path = more.partition("=")
        variants[name] = {"LD_PRELOAD": path}

    results, failed = {}, False
    for name, settings in variants.items():
        try:
            result = count([arguments.program, arguments.list], settings)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = True
            continue
        if result is None:
            print(f"{name}: not installed", file=sys.stderr)
            continue
        results[name] = result
    if arguments.json:
        print(json.dumps(results, indent=2))
    else:
        print("| allocator | " + " | ".join(COLUMNS) + " |")
        print("|---" * (len(COLUMNS) + 1) + "|")
        for name, result in results.items():
            print(f"| {name} | " + " | ".join(str(result[c]) for c in COLUMNS) + " |")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
