# SPDX-License-Identifier: BSD-2-Clause
"""Reads the examples of the Python package, which the site shows below each function, and
tests/python/test_examples.py runs: MODULE.txt has a section for each name, which begins with the
name and a colon. In parentheses before it stands what the process is started by."""

import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
_SECTION = re.compile(
    r"^(\w+)(?: \(([^)]*)\))?:\n(.*?)(?=\n\w+(?: \([^)]*\))?:\n>>> |\Z)", re.MULTILINE | re.DOTALL
)


def read_examples():
    """(full name, words of the command or "", text) of each."""
    for path in sorted(HERE.glob("*.txt")):
        for name, command, text in _SECTION.findall(path.read_text(encoding="utf-8")):
            yield f"{path.stem}.{name}", command, text.strip("\n")
