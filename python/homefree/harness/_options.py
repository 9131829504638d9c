# SPDX-License-Identifier: BSD-2-Clause
"""The options, as the command hands them on. It has checked their form and prints the help."""

import argparse
import os


def _parser():
    parser = argparse.ArgumentParser(prog="homefree test", add_help=False, allow_abbrev=False)
    for name in ("json", "list", "pointers", "interpreters", "all"):
        parser.add_argument("--" + name, action="store_true")
    for name in ("script", "junit", "html", "only", "python"):
        parser.add_argument("--" + name)
    parser.add_argument("--beside", action="append", default=[])
    parser.add_argument("--jobs", "-j", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--timeout", type=float, default=10.0)
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--learn", type=float, default=30.0)
    parser.add_argument("module")
    return parser


def parse(arguments):
    """The options; `command` is what follows "--"."""
    command = []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, command = arguments[:at], arguments[at + 1 :]
    options = _parser().parse_args(arguments)
    options.command = command
    return options
