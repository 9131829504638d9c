"""Rows of the table of tests/long/run, which says what they are."""

import os


def row(name, figure, outcome="passed"):
    """Writes a row; outcome: passed, failed, or "skipped: why". Without tests/long/run, nothing."""
    path = os.environ.get("HOMEFREE_LONG_ROWS")
    if path:
        with open(path, "a") as file:
            print(
                *(" ".join(str(text).split()) for text in (name, figure, outcome)),
                sep="\t",
                file=file,
            )
