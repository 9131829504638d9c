"""The arguments that the benchmarks of C programs have in common."""

import argparse
import os
from pathlib import Path


def sampling_parser(document, measures, rounds):
    """A parser; its help begins with the first line of a docstring, and the caller adds options."""
    parser = argparse.ArgumentParser(description=document.split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--rounds", type=int, default=rounds, help="samples of each rival (%(default)s)"
    )
    parser.add_argument("--cpu", type=int, default=-1, help="index of the processor for one thread")
    parser.add_argument("--only", default=",".join(measures), help="what to measure (%(default)s)")
    parser.add_argument("--json", action="store_true", help="a JSON document instead of the table")
    return parser


def parser_of(document, measures, rounds):
    """The same for a benchmark that is told where its programs are."""
    parser = sampling_parser(document, measures, rounds)
    parser.add_argument(
        "--programs", type=Path, required=True, help="directory of the built programs"
    )
    parser.add_argument("--library", type=Path, required=True, help="the built libhomefree.so.1")
    parser.add_argument("--callgrind", action="store_true", help="count instructions instead")
    return parser


def names(parser, text, known):
    """The names in a comma-separated list, which must be known ones."""
    found = text.split(",")
    unknown = sorted(set(found) - set(known))
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(known)}")
    return found


def parse(parser, measures):
    options = parser.parse_args()
    names(parser, options.only, measures)
    if options.rounds < 1:
        parser.error("no rounds")
    # The last processor, because the first one usually gets the machine's interrupts.
    if options.cpu < 0:
        options.cpu = len(os.sched_getaffinity(0)) - 1
    return options
