# SPDX-License-Identifier: BSD-2-Clause
"""What `homefree report` knows about the processes of a run: names, lines, and other processes."""

import contextlib
import glob
import json
import os
import subprocess

from .. import _command

_TIME_LIMIT = 120


def directory():
    """The directory of this process's report; None if it has none."""
    for pair in os.environ.get("HOMEFREE_DIAGNOSE", "").split(","):
        name, _, value = pair.partition(":")
        if name == "directory":
            return value
    return None


def files(directory, process=None):
    """The files of a report, or of one process in it."""
    pattern = f"{process or '*'}-*.hfreport"
    return sorted(glob.glob(os.path.join(glob.escape(directory), pattern)))


class Reading:
    """findings: as in _findings.py, and `processes`, a list of numbers. crossings: blocks that one
    object allocated and another freed."""

    def __init__(self, document):
        self.findings = [_finding(one) for one in document["findings"]]
        self.crossings = sum(
            pair["blocks"]
            for pair in document["matrix"]
            if pair["allocated_by"] != pair["freed_by"]
        )


def read(paths):
    """Reads files of a report. Result: a Reading, or None if there are none, or none that can be
    read."""
    if not paths:
        return None
    # The command must not record itself.
    environment = {
        name: value
        for name, value in os.environ.items()
        if name != "LD_PRELOAD" and not name.startswith("HOMEFREE_")
    }
    with contextlib.suppress(OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError):
        done = subprocess.run(
            [_command.find(), "report", "--json", *paths],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=_TIME_LIMIT,
        )
        return Reading(json.loads(done.stdout))
    return None


def _place(side):
    if side is None or (side["object"] is None and side["function"] is None):
        return None
    stack = side.get("stack") or [{}]
    return {
        "object": side["object"],
        "function": side["function"],
        "offset": stack[0].get("offset"),
        "symbol": side["symbol"],
        "file": side["file"],
        "line": side["line"],
        "python": side.get("python") or [],
    }


def _finding(one):
    allocated = one["allocated"] or {}
    return {
        "rule": one["rule"],
        "severity": one["severity"],
        "count": one["count"],
        "bytes": one["bytes"] or 0,
        "allocator": allocated.get("allocator"),
        "allocator_object": allocated.get("allocator_object"),
        "allocated": _place(one["allocated"]),
        "freed": _place(one["freed"]),
        "first_freed": _place(one.get("first_freed")),
        "remedy": one["remedy"],
        "test": None,
        "phase": None,
        "verdict": "listed",
        "processes": one["processes"],
    }


_NAMED = "allocated", "freed", "first_freed"


def _sides(finding):
    """What a finding of homefree.diagnose() and one of a report have in common; the offsets, which
    a report need not have."""
    places = [finding[name] or {} for name in ("allocated", "freed")]
    return (
        (finding["rule"], *((one.get("object"), one.get("function")) for one in places)),
        tuple(one.get("offset") for one in places),
    )


class Names:
    """Symbols, lines and Python frames of findings of this process, each looked up once."""

    MOST = 200  # readings of the report

    def __init__(self, directory):
        self._directory = directory
        self._readings = 0
        self._known = {}

    def add_to(self, findings):
        for one in findings:
            sides = _sides(one)
            if sides not in self._known:
                self._known[sides] = self._find(*sides)
            for name in _NAMED:
                like = (self._known[sides] or {}).get(name)
                if one[name] is not None and like is not None:
                    one[name] = {**like, "offset": one[name]["offset"]}

    def _find(self, sides, offsets):
        if self._directory is None or self._readings == self.MOST:
            return None
        self._readings += 1
        reading = read(files(self._directory, os.getpid()))
        for like in reading.findings if reading is not None else ():
            others = _sides(like)
            if sides == others[0] and all(
                theirs in (None, ours) for ours, theirs in zip(offsets, others[1])
            ):
                return like
        return None
