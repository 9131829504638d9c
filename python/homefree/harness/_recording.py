# SPDX-License-Identifier: BSD-2-Clause
"""Runs a program under recording, and reads what its processes recorded."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile

from . import _recipes
from ._recorder import VARIABLE


class Recorded:
    """What a program did with the module."""

    def __init__(self, status):
        self.status = status
        self.calls = []
        self.imported = False
        self.static = set()  # types whose methods cannot be recorded
        self.lost = set()  # callables that got arguments which cannot be repeated


def _environment(target, directory):
    environment = dict(os.environ)
    environment.pop("HOMEFREE_PYTHON", None)
    environment[VARIABLE] = json.dumps({"directory": directory, "module": target.module})
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorder")
    places = [here]
    if target.path is not None:
        places.append(os.path.dirname(target.path))
    if environment.get("PYTHONPATH"):
        places.append(environment["PYTHONPATH"])
    places.append(target.start_directory)  # where hosts look first
    environment["PYTHONPATH"] = os.pathsep.join(places)
    return environment


def record(target, command):
    """Runs a command, whose output goes to stderr. Raises OSError if it cannot be run."""
    with tempfile.TemporaryDirectory(prefix="homefree-record-") as directory:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            env=_environment(target, directory),
        )
        try:
            status = process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise
        recorded = Recorded(status)
        _read(recorded, directory)
        return recorded


def _read(recorded, directory):
    seen = set()
    for name in sorted(os.listdir(directory)):
        with open(os.path.join(directory, name), encoding="utf-8", errors="replace") as file:
            for text in file:
                # Cut short by a death, or written by the module, which may write anywhere.
                with contextlib.suppress(*_DAMAGE):
                    _take(recorded, seen, json.loads(text))


_DAMAGE = (
    *(ValueError, KeyError, TypeError, AttributeError),
    *(SyntaxError, MemoryError, RecursionError),  # of a literal
)


def _take(recorded, seen, line):
    if "imported" in line:
        recorded.imported = True
    elif "static" in line:
        recorded.static.add(line["static"])
    elif "lost" in line:
        recorded.lost.add(line["lost"])
    elif "call" in line:
        key = repr(_recipes.shape(line["call"]))
        if key not in seen:
            seen.add(key)
            recorded.calls.append(line["call"])
