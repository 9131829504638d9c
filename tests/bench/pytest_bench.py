#!/usr/bin/env python3
"""What `pytest --homefree` costs: CPython's tests and NumPy's, without and with it, in turns.

    pytest_bench.py --python FILE --package DIRECTORY [--rounds N] [--only cpython,numpy] [--json]

FILE is an interpreter with pytest, NumPy and CPython's package `test`: a virtual environment that
tests/long/suites/numpy.sh made will do. Both sides load the plugin. A figure is the median of the
rounds' own ratios in processor time, that of all processes of a run; every other round goes
backwards. Real time stands beside it, and says less on a busy machine. The outcomes must be the
same on both sides: a finding would fail its test.
"""

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

WANTED = 1.10
# Modules whose tests pass under pytest, which is not what CPython's are written for.
CPYTHON = """
    test_list test_float test_int test_complex test_collections test_struct test_memoryview
    test_string test_re test_textwrap test_csv test_copy test_configparser test_fractions
    test_generators test_iter test_typing test_range test_slice test_sort test_zlib test_base64
    test_binascii test_bool test_compare test_fstring test_hash test_html test_keyword test_opcodes
    test_operator test_pprint test_bytes test_str test_shlex test_string_literals test_colorsys
    test_dictviews test_contains test_unpack
"""
NUMPY = """
    lib.tests.test_function_base lib.tests.test_arraypad lib.tests.test_index_tricks
    linalg.tests.test_linalg fft.tests.test_pocketfft polynomial.tests.test_polynomial
    ma.tests.test_core ma.tests.test_extras random.tests.test_generator_mt19937
"""
WORKS = {
    "cpython": [f"test.{name}" for name in re.findall(r"\S+", CPYTHON)],
    "numpy": [f"numpy.{name}" for name in re.findall(r"\S+", NUMPY)],
}
SUMMARY = re.compile(r"^=*\s*(\d+ \w+.*) in [\d.]+s", re.M)


class Unmeasurable(Exception):
    pass


def sample(options, how, work):
    """(processor seconds, real seconds, what pytest counted)"""
    dropped = ("PYTHON", "LD_", "MALLOC_", "HOMEFREE_", "GLIBC_", "PYTEST_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
    environment.update(
        PYTHONPATH=options.package, PYTHONHASHSEED="1", OPENBLAS_NUM_THREADS="1", NO_COLOR="1"
    )
    command = [options.python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-p", "pytest_homefree", "-m", "not slow", "--disable-warnings"]
    command += ["--homefree"] if how == "homefree" else []
    with tempfile.TemporaryDirectory(prefix="pytest-bench-") as directory:
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            [*command, f"--basetemp={directory}/tests", "--pyargs", *WORKS[work]],
            env=environment, cwd=directory, capture_output=True, text=True, timeout=options.timeout,
        )  # fmt: skip
        real = time.perf_counter() - begin
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    counted = SUMMARY.findall(done.stdout)
    if not counted or done.returncode not in (0, 1):
        raise Unmeasurable(f"{work}, {how}: {done.stdout[-1500:]}{done.stderr[-500:]}")
    if options.verbose:
        print(f"{work} {how}: {used:.2f} s, {real:.2f} s: {counted[-1]}", file=sys.stderr)
    return used, real, counted[-1]


def measure(options, work):
    samples = {"plain": [], "homefree": []}
    for number in range(options.rounds):
        for how in list(samples)[:: 1 if number % 2 == 0 else -1]:
            samples[how].append(sample(options, how, work))
    ratios = [
        [with_it[i] / without[i] for with_it, without in zip(samples["homefree"], samples["plain"])]
        for i in (0, 1)
    ]
    counted = {how: sorted({one[2] for one in mine}) for how, mine in samples.items()}
    return {
        "processor": statistics.median(ratios[0]),
        "lowest": min(ratios[0]),
        "highest": max(ratios[0]),
        "real": statistics.median(ratios[1]),
        "seconds": statistics.median(one[0] for one in samples["plain"]),
        "counted": counted,
        "same": counted["plain"] == counted["homefree"],
    }


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--python", required=True)
    parser.add_argument("--package", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(WORKS))
    parser.add_argument("--timeout", type=float, default=900)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    try:
        figures = {work: measure(options, work) for work in options.only}
    except (OSError, subprocess.TimeoutExpired, Unmeasurable) as error:
        print(f"pytest_bench.py: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps({"homefree_pytest_bench": 1, "figures": figures}))
        return 0
    for work, figure in figures.items():
        verdict = "ok" if figure["processor"] <= WANTED else "missed"
        print(
            f"pytest --homefree / pytest, {work}: {figure['processor']:.3f} "
            f"({figure['lowest']:.3f}..{figure['highest']:.3f}), real time {figure['real']:.2f}; "
            f"{figure['seconds']:.1f} s; wanted {WANTED:.2f}: {verdict}; "
            + ("same outcomes: " if figure["same"] else "DIFFERENT OUTCOMES: ")
            + " | ".join(figure["counted"]["homefree"])
        )
    return 0 if all(figure["same"] for figure in figures.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
