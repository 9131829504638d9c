# SPDX-License-Identifier: BSD-2-Clause
"""The document of a process's memory (homefree-memory(1)), and what grew between two of them.

State: none.
"""

import collections
import re
import time

from .memory_owners import PAGE, UNKNOWN, Looking
from .memory_process import Process

VERSION = 1
_WHEEL = re.compile(r"/(?:site|dist)-packages/([^/]+?)(?:\.libs)?(?:/|\.(?:cpython-|abi3)[^/]*$)")
_KIB = 1024


def wheel_of(path):
    """The package that a file of site-packages belongs to; None if it lies elsewhere."""
    found = _WHEEL.search(path or "")
    return found[1] if found else None


def _resident(process, pieces):
    """Bytes of each piece. The kernel's sum for a mapping holds; where several share it, each gets
    the pages that are resident, and the largest what is left."""
    sums = collections.Counter()
    number = 0
    for mapping in process.mappings:
        inside = []
        while number < len(pieces) and pieces[number].start < mapping.end:
            inside.append(pieces[number])
            if pieces[number].end > mapping.end:
                break  # goes on in the next one
            number += 1
        owners = {piece.owner for piece in inside}
        if not mapping.rss:
            continue
        if len(owners) <= 1:
            sums[owners.pop() if owners else UNKNOWN] += mapping.rss
            continue
        parts = collections.Counter()
        for piece in inside:
            start, end = max(piece.start, mapping.start), min(piece.end, mapping.end)
            present = process.present(start, end)
            parts[piece.owner] += present.count(1) * PAGE if present else end - start
        left = mapping.rss
        for owner, part in reversed(parts.most_common()[1:]):
            part = min(part, left)
            sums[owner] += part
            left -= part
        sums[parts.most_common(1)[0][0]] += left
    return sums


def _row(owner, resident, live, free, books, last):
    return {
        "allocator": owner.name,
        "object": owner.object,
        "wheel": wheel_of(owner.object),
        "resident": resident,
        "live": live,
        "free": free,
        "books": books,
        "last": last,
        "how": owner.how if live is None else "counted",
    }


def _rows(sums, looking, facts, libc):
    rows = []
    for owner, resident in sums.items():
        if owner.kind != "allocator":
            continue
        live, free, books, last = looking.live.get(owner), None, None, None
        if owner.name == "homefree":
            live, books = facts.live, facts.books
        elif owner.name == "libc":
            last = looking.last_of_libc
            if libc is not None:
                live, free = libc
        elif live is None:
            live = facts.live_in(owner.name, owner.object)
        if live is not None and free is None:
            free = max(0, resident - live - (books or 0))
        rows.append(_row(owner, resident, live, free, books, last))
    return sorted(rows, key=lambda row: -row["resident"])


def _rest(sums):
    rest = [
        {
            "kind": owner.kind,
            "object": owner.object,
            "wheel": wheel_of(owner.object),
            "resident": resident,
        }
        for owner, resident in sums.items()
        if owner.kind != "allocator"
    ]
    return sorted(rest, key=lambda row: -row["resident"])


def _kib(status, name):
    words = status.get(name, "").split()
    return int(words[0]) * _KIB if words and words[0].isdigit() else None


def document(pid, facts, libc=None):
    """Looks at a process. facts: memory_owners.Facts; libc: (live, free), bytes, None if they are
    unknown. Raises memory_process.Gone."""
    with Process(pid) as process:
        looking = Looking(process, facts)
        looking.own()
        sums = _resident(process, looking.pieces)
        status = process.status()
        program, number = process.program(), process.pid
        unreadable = not process.readable
        asked = facts.asked(process.mappings)
        swapped = sum(mapping.swap for mapping in process.mappings)
    resident = sum(sums.values())
    return {
        "homefree_memory": VERSION,
        "pid": number,
        "program": program,
        "time": time.time(),
        "resident": resident,
        "attributed": 1 - sums[UNKNOWN] / resident if resident else 1.0,
        "swapped": swapped,
        "page_tables": _kib(status, "VmPTE"),
        "peak": _kib(status, "VmHWM"),
        "unreadable": unreadable,
        "rows": _rows(sums, looking, facts, libc),
        "rest": _rest(sums),
        "asked": asked,
        "limits": facts.limits(),
    }


# ---- what grew -----------------------------------------------------------------------------------

_NAMES = ("allocator", "object"), ("kind", "object")


def _by_key(document):
    sums = collections.Counter()
    for part, names in zip(("rows", "rest"), _NAMES):
        for row in document[part]:
            sums[(part, *(row[name] for name in names))] += row["resident"]
    return sums


def _asked(document):
    """{what makes a stack the same: its row}."""
    return {
        (row["object"], repr(row["python"]), repr(row["native"])): row
        for row in document["asked"] or []
    }


def diff(before, after):
    """What grew and what shrank between two documents of the same process: a document."""
    old, new = _by_key(before), _by_key(after)
    live = {(row["allocator"], row["object"]): row["live"] for row in before["rows"]}
    rows, rest = [], []
    for key in old.keys() | new.keys():
        part, name, path = key
        grown = new[key] - old[key]
        if part == "rest":
            if grown:
                rest.append({"kind": name, "object": path, "grown": grown})
            continue
        now = [row["live"] for row in after["rows"] if (row["allocator"], row["object"]) == key[1:]]
        known = now and now[0] is not None and live.get(key[1:]) is not None
        grown_live = now[0] - live[key[1:]] if known else None
        if grown or grown_live:
            row = {"allocator": name, "object": path, "wheel": wheel_of(path)}
            rows.append({**row, "grown": grown, "live": grown_live})
    asked = None
    if before["asked"] is not None and after["asked"] is not None:
        was, now, asked = _asked(before), _asked(after), []
        for key in was.keys() | now.keys():
            row = now.get(key) or was[key]
            numbers = {
                name: now.get(key, {}).get(name, 0) - was.get(key, {}).get(name, 0)
                for name in ("bytes", "blocks")
            }
            if any(numbers.values()):
                asked.append({**row, **numbers})
        asked.sort(key=lambda row: -row["bytes"])
    return {
        "homefree_memory_diff": VERSION,
        "pid": after["pid"],
        "seconds": after["time"] - before["time"],
        "resident": after["resident"],
        "grown": after["resident"] - before["resident"],
        "rows": sorted(rows, key=lambda row: -row["grown"]),
        "rest": sorted(rest, key=lambda row: -row["grown"]),
        "asked": asked,
    }
