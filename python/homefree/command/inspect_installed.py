# SPDX-License-Identifier: BSD-2-Clause
"""Says what installed distributions consist of, in the Python that has them, as `python -c`: for
each name a line, "homefree: " and JSON with its files and the names that it requires, or why there
are none; for --directories one with those.
"""

import sys

# A module of that name in the current directory must not stand in for the standard library's.
sys.path[:] = [directory for directory in sys.path if directory not in ("", ".")]

import csv  # noqa: E402
import difflib  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
from importlib import metadata  # noqa: E402


def listed_files(distribution):
    """What its RECORD lists, or None. From Python 3.12 on, `files` leaves out what is not there."""
    record = distribution.read_text("RECORD")
    if not record:
        return distribution.files
    return [line[0] for line in csv.reader(record.splitlines()) if line]


def required(distribution):
    """What it always requires."""
    for line in distribution.requires or ():
        if "extra" not in line.partition(";")[2]:
            yield re.match(r"[\w.-]*", line)[0]


def describe(name):
    try:
        found = metadata.distribution(name)
    except (metadata.PackageNotFoundError, ValueError):
        names = {one.metadata["Name"] or "" for one in metadata.distributions()}
        close = difflib.get_close_matches(name, sorted(names), 1)
        hint = f" (did you mean '{close[0]}'?)" if close else ""
        return {"why": f"{sys.executable} has no distribution of this name{hint}"}
    files = listed_files(found)
    if files is None:
        return {"why": "its RECORD, which lists its files, is missing; inspect its directory"}
    return {
        "directory": os.path.abspath(str(found.locate_file(""))),
        "files": [os.path.abspath(str(found.locate_file(file))) for file in files],
        "required": list(required(found)),
    }


def directories():
    """What is on sys.path and holds packages, and where its own extension modules are; none in
    another."""
    import sysconfig

    paths = {os.path.realpath(path) for path in sys.path if os.path.isdir(path)}
    for own in "stdlib", "platstdlib":  # which differ in a virtual environment
        paths.discard(os.path.realpath(sysconfig.get_path(own) or ""))
    return sorted(path for path in paths if not any(is_imported(path, top) for top in paths))


def is_imported(path, top):
    """Whether a directory is looked at with another one that is above (inspect_objects.py)."""
    if not path.startswith(f"{top}/") or path[len(top) + 1] == ".":
        return False
    while len(path) > len(top):
        if os.path.exists(f"{path}/pyvenv.cfg"):
            return False
        path = os.path.dirname(path)
    return True


for asked in sys.argv[1:]:
    try:
        answer = {"directories": directories()} if asked == "--directories" else describe(asked)
    except Exception as error:  # whatever a reader thinks of damaged metadata
        answer = {"why": f"what is known of it is damaged: {error or type(error).__name__}"}
    print("\nhomefree: " + json.dumps(answer))  # others may print, too
