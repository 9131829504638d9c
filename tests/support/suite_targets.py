"""Prints what `ninja` must build for some of the tests: sanitizers and the quick run need a part.

usage: suite_targets.py BUILD-FOLDER [--suite SUITE…] [--no-suite SUITE…]

Options as those of `meson test`; without --suite, all suites. What homefree installs is always
among them.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def introspect(folder, what):
    return json.loads(subprocess.check_output(["meson", "introspect", f"--{what}", folder]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--suite", action="append", default=[])
    parser.add_argument("--no-suite", action="append", default=[])
    options = parser.parse_args()
    folder = pathlib.Path(options.folder).resolve()

    needed = set()
    for test in introspect(folder, "tests"):
        suites = {suite.partition(":")[2] for suite in test["suite"]}
        if not suites & set(options.no_suite) and (
            not options.suite or suites & set(options.suite)
        ):
            needed.update(test["depends"])
    for target in introspect(folder, "targets"):
        room = pathlib.Path(target["defined_in"]).relative_to(ROOT).parts[0]
        of_product = target["build_by_default"] and room not in ("tests", "examples", "subprojects")
        if of_product or target["id"] in needed:
            for name in target["filename"]:
                print(pathlib.Path(name).relative_to(folder))


if __name__ == "__main__":
    sys.exit(main())
