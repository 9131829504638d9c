# SPDX-License-Identifier: BSD-2-Clause
"""What changed since an older report.

Findings are the same if rule, allocator, objects, functions and the code that called them are:
builds and addresses may differ. Where only one of the reports knows a name, the rest decides.

State: none.
"""

import json
import os
import stat
import sys
from collections import namedtuple

from .start import READ_ONLY, Failure

CHANGES = "new", "more", "fewer", "gone", "same"
_RANKS = {"error": 0, "warning": 1}

# Larger documents are refused.
_BYTES_MAX = 1 << 30
_VERSION = 1
# With so many findings is one compared whose names are not all known. A hostile document could have
# so many that comparing each with each takes hours.
_CANDIDATES_MAX = 1000
# Python from before September 2022 takes quadratic time for a number of many digits, later ones
# refuse it. No count has more than these.
_DIGITS_MAX = 20
_OLD_PYTHON = not hasattr(sys, "get_int_max_str_digits")

# Objects that call on behalf of Python's code, as hf_report_calls_for_python() says.
_CALLERS = "libffi.", "libffi-", "_ctypes.", "_cffi_backend."


def caller(side):
    """The Python frame to which a side of a finding belongs, as (text, line), or None."""
    if not side["python"] or not (side["object"] or "").rpartition("/")[2].startswith(_CALLERS):
        return None
    frame = side["python"][0]
    if frame["function"] is None or frame["file"] is None:
        return None
    return f"{frame['function']} in {frame['file']}", frame["line"]


# typing.NamedTuple would take longer to import than all the rest of this package.
Side = namedtuple("Side", "object function symbol")


class Item(
    namedtuple("Item", "change rule severity allocator allocated freed before after"),
):
    """A finding in one of the reports or in both. before, after: counts; None: an unknown name."""

    __slots__ = ()

    def document(self):
        return {
            "rule": self.rule,
            "severity": self.severity,
            "allocator": self.allocator,
            "allocated": self.allocated._asdict(),
            "freed": self.freed._asdict(),
            "count_before": self.before,
            "count": self.after,
        }


class Comparison(namedtuple("Comparison", "old items counts")):
    """old: the path. items: what changed, new ones first, each kind worst first. counts: how many
    of each kind."""

    __slots__ = ()

    def document(self):
        kinds = {kind: [] for kind in CHANGES[:-1]}
        for item in self.items:
            kinds[item.change].append(item.document())
        return {"old": self.old, **kinds}


# ---- documents of others ---------------------------------------------------------------------


def read(path):
    """A document that --json wrote. Raises Failure."""
    try:
        descriptor = os.open(path, READ_ONLY)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise Failure(_refused(path, "it is not a regular file"))
            if status.st_size > _BYTES_MAX:
                raise Failure(_refused(path, "it is too large"))
            text = file.read(status.st_size).decode("utf-8", "replace")
    except OSError as error:
        raise Failure(_refused(path, error.strerror)) from None
    try:
        return _known(json.loads(text, parse_int=_count if _OLD_PYTHON else None))
    except RecursionError:
        raise Failure(_refused(path, _NO_REPORT)) from None
    except ValueError as error:
        why = error if type(error) is ValueError else _NO_REPORT
        raise Failure(_refused(path, why)) from None


def _count(digits):
    return int(digits[:_DIGITS_MAX])


_NO_REPORT = "it is neither a report nor a document of 'homefree report --json'"


def _refused(path, why):
    return f"cannot compare with '{path}': {why}"


def _known(document):
    """What compare() looks at, whatever else is there. Raises ValueError with what is wrong."""
    document = document if isinstance(document, dict) else {}
    version, findings = document.get("homefree_report"), document.get("findings")
    if type(version) is not int or version < 1 or not isinstance(findings, list):
        raise ValueError(_NO_REPORT)
    if version > _VERSION:
        raise ValueError("it was written by a newer homefree")
    return {"findings": [_known_finding(finding) for finding in findings]}


def _texts(value, *keys):
    value = value if isinstance(value, dict) else {}
    return {key: value[key] if isinstance(value.get(key), str) else None for key in keys}


def _known_finding(finding):
    known = _texts(finding, "rule", "severity")
    if None in known.values():
        raise ValueError("a finding in it has no rule or no severity")
    count = finding.get("count")
    known["count"] = count if type(count) is int and count > 0 else 0
    for name in "allocated", "freed":
        side = finding.get(name)
        known[name] = _texts(side, "allocator", "object", "function", "symbol")
        frames = side.get("python") if isinstance(side, dict) else None
        frames = frames[:1] if isinstance(frames, list) else []
        known[name]["python"] = [
            {**_texts(frame, "function", "file"), "line": None} for frame in frames
        ]
    return known


# ---- comparing -------------------------------------------------------------------------------

_BEFORE, _AFTER, _SEVERITY = range(3)


def _symbol(side):
    of_python = caller(side)
    return of_python[0] if of_python is not None else side["symbol"]


def _add(found, document, which):
    """To {what makes findings the same, at its end the two symbols: [counts, severity]}."""
    for finding in document["findings"]:
        allocated, freed = finding["allocated"], finding["freed"]
        key = (
            finding["rule"],
            allocated["allocator"],
            allocated["object"],
            allocated["function"],
            freed["object"],
            freed["function"],
            _symbol(allocated),
            _symbol(freed),
        )
        entry = found.get(key)
        if entry is None:
            entry = found[key] = [0, 0, finding["severity"]]
        entry[which] += finding["count"]


def _order(key):
    """What is unknown comes first."""
    return [(part is not None, part or "") for part in key]


def _match_unknown(found):
    """Takes old findings for new ones with which they agree but for what is unknown."""
    groups = {}
    for key, entry in found.items():
        if not entry[_BEFORE] or not entry[_AFTER]:
            groups.setdefault(key[:-2], []).append(key)
    for keys in groups.values():
        if len(keys) == 1:
            continue
        keys.sort(key=_order)
        added = [key for key in keys if not found[key][_BEFORE]]
        for old in (key for key in keys if not found[key][_AFTER]):
            for number, new in enumerate(added[:_CANDIDATES_MAX]):
                both = zip(old[-2:], new[-2:])
                if all(one is None or other is None or one == other for one, other in both):
                    found[new][_BEFORE], found[old][_BEFORE] = found[old][_BEFORE], 0
                    del added[number]
                    break


def _change(before, after):
    if not before:
        return "new"
    if not after:
        return "gone"
    return "same" if after == before else "more" if after > before else "fewer"


def _item(change, key, entry):
    rule, allocator, *calls, allocating, freeing = key
    allocated, freed = Side(*calls[:2], allocating), Side(*calls[2:], freeing)
    return Item(change, rule, entry[_SEVERITY], allocator, allocated, freed, *entry[:2])


def _rank(item):
    key = item.rule, item.allocator, *item.allocated[:2], *item.freed[:2]
    key += item.allocated.symbol, item.freed.symbol
    most = max(item.before, item.after)
    return CHANGES.index(item.change), _RANKS.get(item.severity, 2), -most, _order(key)


def compare(path, old, new):
    """The older report's path, and two documents: what read() gave, or what the command wrote."""
    found = {}
    _add(found, old, _BEFORE)
    _add(found, new, _AFTER)
    _match_unknown(found)
    counts, items = dict.fromkeys(CHANGES, 0), []
    for key, entry in found.items():
        if entry[_BEFORE] or entry[_AFTER]:
            change = _change(*entry[:2])
            counts[change] += 1
            if change != "same":
                items.append(_item(change, key, entry))
    return Comparison(path, sorted(items, key=_rank), counts)
