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

# What a parameter's name says about its values.
_NAMES = (
    (r"callback|func|function|fn|handler|hook|key$|run", [make("callback")]),
    (
        r"^(n|count|size|length|len|num|width|height|rows|cols|index|i|k|dim|seed)$|_size$",
        [value(3)],
    ),
    (r"pattern|regex|name|text|string|str|path|xml|html|tag|s$", [value("a"), value(b"a")]),
    (r"data|buf|buffer|bytes", [value(b"some bytes"), make("bytearray"), make("numpy")]),
    (r"array|arr|matrix|vector|values", [make("numpy"), value([1.0, 2.0])]),
    (r"file|stream|fp", [make("file")]),
    (r"obj|object|value|item", [value([1, "a", {"b": 2.5}]), value("a")]),
)

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


def _by_name(parameter):
    for pattern, values in _NAMES:
        if re.search(pattern, parameter.lower()):
            return values
    return None


def sets(arity, found=(), names=()):
    """Lists of arguments to try. `arity`: (fewest, most) or None; `found`: recipes of objects that
    the module made; `names`: the names of the parameters."""
    fewest, most = arity if arity is not None else (0, 3)
    tries = []
    if fewest > 4:
        return []
    if names and len(names) >= fewest > 0:
        guesses = [_by_name(name) or _FEW[:3] for name in names[:fewest]]
        tries += [list(one) for one in itertools.islice(itertools.product(*guesses), 8)]
    for count in range(fewest, min(most, 3) + 1):
        if count == 0:
            tries.append([])
        elif count == 1:
            tries += [[one] for one in [*found[:6], *_ONE]]
        elif count == 2:
            tries += [[one, more] for one in found[:4] for more in _FEW[:3]]
            tries += [list(one) for one in itertools.product(_FEW, repeat=2)]
        else:
            tries += [[one] * count for one in _SAME]
    if fewest == 4:
        tries += [[one] * 4 for one in _SAME]
    return tries[:_MOST]
