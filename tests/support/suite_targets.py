"""Prints what `ninja` must build for some of the tests: sanitizers and the quick run need a part.

usage: suite_targets.py BUILD-DIRECTORY [--suite SUITE…] [--no-suite SUITE…] [--tests-alone]

Options as those of `meson test`; without --suite, all suites. What homefree installs is among them,
with --tests-alone only what these tests say that they need.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def introspect(directory, what):
    return json.loads(subprocess.check_output(["meson", "introspect", f"--{what}", directory]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--suite", action="append", default=[])
    parser.add_argument("--no-suite", action="append", default=[])
    parser.add_argument("--tests-alone", action="store_true")
    options = parser.parse_args()
    directory = pathlib.Path(options.directory).resolve()

    needed = set()
    for test in introspect(directory, "tests"):
        suites = {suite.partition(":")[2] for suite in test["suite"]}
        if not suites & set(options.no_suite) and (
            not options.suite or suites & set(options.suite)
        ):
            needed.update(test["depends"])
    for target in introspect(directory, "targets"):
        room = pathlib.Path(target["defined_in"]).relative_to(ROOT).parts[0]
        of_product = target["build_by_default"] and room not in ("tests", "examples", "subprojects")
        if (of_product and not options.tests_alone) or target["id"] in needed:
            for name in target["filename"]:
                print(pathlib.Path(name).relative_to(directory))


if __name__ == "__main__":
    sys.exit(main())
