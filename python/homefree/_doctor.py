# SPDX-License-Identifier: BSD-2-Clause
"""homefree.doctor(): the report of `homefree doctor` about the running process."""

from __future__ import annotations

import json
import subprocess
import tempfile

from . import _homefree
from ._command import find
from .command import doctor_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO


def _read(path):
    """The document of a record."""
    result = subprocess.run(
        [find(), "doctor", "--json", "--read", path],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )
    if result.returncode not in (0, 1):
        raise RuntimeError(
            "homefree: the command could not read this process's record: "
            + (result.stderr.strip() or f"its exit status was {result.returncode}")
        )
    return json.loads(result.stdout)


def doctor(file: TextIO | None = None) -> dict[str, Any]:
    """Report every allocator in this process, which objects use it, and problems with remedies.

    file: a text file, such as sys.stdout, to print the report to as well; None prints nothing.

    Returns the document of `homefree doctor --json` as a dict. Its key "processes" has one entry,
    with "allocators", "objects", "heap" and "findings"; each finding has a "rule", a "severity"
    ("note", "warning", "error"), a "message", a "remedy" and "help", the address of what explains
    it.

    Raises OSError if the record cannot be written or the command is missing, RuntimeError if the
    command fails. It takes about a tenth of a second, for a part of which it holds the dynamic
    loader's lock, and runs the command in a child process. Threads: any. Fork: allowed at any time.
    Since 1.0.
    """
    with tempfile.NamedTemporaryFile(prefix="homefree-doctor-") as record:
        _homefree.doctor_record(record.fileno())
        document = _read(record.name)
    if file is not None:
        file.write(doctor_text.text(document, "", False).decode())
    return document
