# SPDX-License-Identifier: BSD-2-Clause
"""Arguments to try on a callable of which little is known."""

import itertools
import re

from ._recipes import make, value

# One argument at a time, the likeliest first.
_ONE = [
    value(3),
    value("some text"),
    value("d"),
    value(b"some bytes"),
    make("bytearray"),
    value([1, 2, 3]),
    make("callback"),
    value(1.5),
    make("numpy"),
    make("array"),
    value({"a": 1, "b": [2.5, None]}),
    value(["a", "b"]),
    value((2, 3)),
    value(None),
    make("file"),
    make("object"),
    value(100000),
]
_FEW = [
    value(3),
    value("some text"),
    value(b"some bytes"),
    value([1, 2, 3]),
    make("callback"),
    make("numpy"),
]
_SAME = [value(3), value("a"), value(b"bytes"), value(1.5), make("numpy")]

# What the TypeError of a call says about the number of arguments.
_COUNTS = re.compile(
    r"(?:takes|expected|requires|missing)\D*?(exactly|at least|at most)?\s*"
    r"(\d+|no|one|two|three)\b.*?(?:argument|positional)"
)
_WORDS = {"no": 0, "one": 1, "two": 2, "three": 3}

_MOST = 40  # sets of arguments for one callable


def count_from(error):
    """The number of arguments that a message asks for, or None."""
    found = _COUNTS.search(error)
    if not error.startswith("TypeError") or found is None:
        return None
    return _WORDS.get(found[2]) if found[2] in _WORDS else int(found[2])


def sets(arity):
    """Lists of arguments to try. `arity`: (fewest, most) or None."""
    fewest, most = arity if arity is not None else (0, 3)
    tries = []
    for count in range(fewest, min(most, 3) + 1):
        if count == 0:
            tries.append([])
        elif count == 1:
            tries += [[one] for one in _ONE]
        elif count == 2:
            tries += [list(one) for one in itertools.product(_FEW, repeat=2)]
        else:
            tries += [[one] * count for one in _SAME]
    if fewest == 4:
        tries += [[one] * 4 for one in _SAME]
    return tries[:_MOST]
