"""homefree.doctor(): the report of `homefree doctor`, about the running process."""

import json
import subprocess
import tempfile

from . import _homefree
from ._command import find


def _show(path, *options):
    result = subprocess.run(
        [find(), "doctor", *options, "--read", path],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )
    if result.returncode not in (0, 1):
        raise RuntimeError(
            "homefree: the command could not show this process's record: "
            + (result.stderr.strip() or f"it ended with status {result.returncode}")
        )
    return result.stdout


def doctor(file=None):
    """Tell every allocator in this process, which objects use which, and what to do about it.

    file: a text file, such as sys.stdout, that the report is also printed to; None prints nothing.

    Returns the document of `homefree doctor --json` as a dict: its key "processes" has one entry,
    with "allocators", "objects", "heap" and "findings"; each finding has a "rule", a "severity"
    ("note", "warning", "error"), a "message" and a "remedy".

    Raises OSError where a record cannot be written or the command is missing, RuntimeError where
    the command fails. Takes a tenth of a second or so, the dynamic loader's lock for a part of it,
    and runs the command in a process of its own. Any thread.
    """
    with tempfile.NamedTemporaryFile(prefix="homefree-doctor-") as record:
        _homefree.doctor_record(record.fileno())
        document = json.loads(_show(record.name, "--json"))
        if file is not None:
            file.write(_show(record.name))
    return document
