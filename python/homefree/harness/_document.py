# SPDX-License-Identifier: BSD-2-Clause
"""The document of `homefree test --json`."""

from . import _grouping


def _cell(cell):
    return {
        "crossing": cell.crossing.name,
        "kind": cell.crossing.kind,
        "condition": cell.condition,
        "host": cell.column.name,
        "result": cell.result,
        "signal": cell.signal,
        "message": cell.message,
        "allocated": cell.allocated,
        "freed": cell.freed,
    }


def document(outcome):
    """Everything that is known, as a dict. What is not known is None."""
    counts = _grouping.counts(outcome)
    return {
        "homefree_test": 1,
        "module": outcome.target.module,
        "file": outcome.file,
        "python": outcome.python,
        "linked": outcome.linked,
        "complete": outcome.complete,
        "cells": [_cell(cell) for cell in outcome.cells if cell.result is not None],
        "summary": {
            "crossings": len(outcome.learned.crossings),
            "cells": sum(counts.values()),
            "seconds": round(outcome.seconds, 3),
            **{result.replace(" ", "_"): count for result, count in counts.items()},
        },
        "notes": outcome.notes,
    }
