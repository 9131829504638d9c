# SPDX-License-Identifier: BSD-2-Clause
"""Findings as values of JSON, which pytest's reports carry from process to process.

A finding is a dict with the members of homefree.diagnose()'s Finding, and

test, phase  where it was made: pytest's name of the test, and "setup", "call" or "teardown"; or
             None, and None or "another process"
verdict      "fails", "listed" (too mild to fail), "allowed" (by a mark), "known" (by the baseline)
"""

import fnmatch
import json
import os

LOST = "lost-block"  # looked for only where that was asked for

_RANKS = {"error": 0, "warning": 1, "note": 2}


def from_diagnosis(finding):
    """A finding of homefree.diagnose()."""
    plain = finding._asdict()
    for name in "allocated", "freed", "first_freed":
        place = plain[name]
        plain[name] = place._asdict() if place is not None else None
    return {**plain, "test": None, "phase": None, "verdict": "listed"}


def _side(place, allocator):
    if place is None or not (place.get("object") or place.get("function")):
        return f"({allocator})" if allocator else "?", "?"
    return os.path.basename(place.get("object") or "?"), place.get("function") or "?"


def _kind(finding):
    """(rule, object, function, object, function): what homefree.diagnose() and a report agree on,
    also where no symbols are known."""
    return (
        finding["rule"],
        *_side(finding["allocated"], finding["allocator"]),
        *_side(finding["freed"], None),
    )


def key(finding):
    """What stays the same from run to run: (rule, object, function, symbol, and the same of the
    free). A side without a symbol has None."""
    rule, object_, function, by, freed = _kind(finding)
    symbols = [(finding[name] or {}).get("symbol") for name in ("allocated", "freed")]
    return rule, object_, function, symbols[0], by, freed, symbols[1]


def key_text(finding):
    """The key as patterns see it."""
    return "{} {}:{}:{} {}:{}:{}".format(*(part or "?" for part in key(finding)))


def is_allowed(finding, patterns):
    text = key_text(finding)
    return any(
        fnmatch.fnmatchcase(finding["rule"], pattern) or fnmatch.fnmatchcase(text, pattern)
        for pattern in patterns
    )


def judge(finding, *, mode, allowed=(), known=(), writes_baseline=False):
    """Sets the verdict. `known`: keys of the baseline."""
    failing = ("error", "warning") if mode == "strict" else ("error",)
    if is_allowed(finding, allowed):
        finding["verdict"] = "allowed"
    elif writes_baseline or key(finding) in known:
        finding["verdict"] = "known"
    elif finding["severity"] in failing or finding["rule"] == LOST:
        finding["verdict"] = "fails"
    return finding


def by_severity(findings):
    return sorted(findings, key=lambda one: (_RANKS[one["severity"]], one["rule"]))


def subtract(findings, known):
    """What is left of `findings` when the counts of `known` are taken away, by kind."""
    counts = {}
    for finding in known:
        counts[_kind(finding)] = counts.get(_kind(finding), 0) + finding["count"]
    left = []
    for finding in findings:
        taken = min(finding["count"], counts.get(_kind(finding), 0))
        if taken:
            counts[_kind(finding)] -= taken
        if taken < finding["count"]:
            left.append({**finding, "count": finding["count"] - taken})
    return left


# ---- text ----------------------------------------------------------------------------------------


def times(count):
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _place_text(place, allocator):
    if place is None:
        return f"by {allocator}, place unknown" if allocator else "place unknown"
    where = place["object"] or "unknown code"
    if place.get("symbol"):
        where = f"{place['symbol']} in {where}"
    elif place.get("offset") is not None:
        where = f"{place['offset']:#x} in {where}"
    if place.get("file"):
        where += f", {place['file']}:{place.get('line') or '?'}"
    return f"{where}, with {place['function'] or '?'}"


def _python_lines(place, test):
    """The Python frames of a place, from its own to the test's; pytest's follow these."""
    frames = (place or {}).get("python") or ()
    function = (test or "").partition("[")[0].rpartition("::")[2]
    names = [frame["function"].rpartition(".")[2] for frame in frames]
    if function in names:
        frames = frames[: len(names) - names[::-1].index(function)]
    for frame in frames:
        if "/_pytest/" in frame["file"] and function not in names:  # a fixture's, or no test's
            return
        yield f"              from {frame['file']}:{frame['line']} in {frame['function']}"


def text(finding):
    """Lines for people."""
    size = f", {finding['bytes']} bytes" if finding["bytes"] else ""
    lines = [f"{finding['severity']}: {finding['rule']}, {times(finding['count'])}{size}"]
    lines.append(f"  allocated   {_place_text(finding['allocated'], finding['allocator'])}")
    lines.extend(_python_lines(finding["allocated"], finding["test"]))
    if finding.get("first_freed"):
        lines.append(f"  freed first {_place_text(finding['first_freed'], None)}")
    if finding["rule"] != LOST:
        lines.append(f"  freed       {_place_text(finding['freed'], None)}")
    lines.extend(_python_lines(finding["freed"], finding["test"]))
    lines.append(f"  what to do: {finding['remedy']}")
    return "\n".join(lines)


# ---- files ---------------------------------------------------------------------------------------


def _write(path, document):
    """Replaces a file; a reader sees the old one or the new one."""
    scratch = f"{path}.{os.getpid()}"
    with open(scratch, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.write("\n")
    os.replace(scratch, path)


def write_document(path, *, mode, findings, crossings, died=None):
    """The file of --homefree-json. `died`: a sentence, if the process did not end by itself."""
    _write(
        path,
        {
            "homefree_pytest": 1,
            "mode": mode,
            "crossings": crossings,
            "died": died,
            "findings": by_severity(findings),
        },
    )


_PARTS = "object", "function", "symbol"


def write_baseline(path, findings):
    keys = {key(one) for one in findings if one["verdict"] != "allowed"}
    entries = [
        {
            "rule": one[0],
            "allocated": dict(zip(_PARTS, one[1:4])),
            "freed": dict(zip(_PARTS, one[4:])),
        }
        for one in sorted(keys, key=str)
    ]
    _write(path, {"homefree_baseline": 1, "findings": entries})


def read_baseline(path):
    """The keys of a baseline. OSError; ValueError, with a sentence, for a file that is none."""
    with open(path, encoding="utf-8") as file:
        try:
            document = json.load(file)
            if document["homefree_baseline"] != 1:
                raise ValueError
            return {
                (one["rule"], *(one[side][part] for side in _SIDES for part in _PARTS))
                for one in document["findings"]
            }
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError(
                f"{path} is no baseline of homefree; write one with --homefree-write-baseline"
            ) from None


_SIDES = "allocated", "freed"
