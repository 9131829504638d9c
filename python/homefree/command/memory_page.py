# SPDX-License-Identifier: BSD-2-Clause
"""`homefree memory --html`: a page with a treemap of the resident memory, the table, and a flame
graph of who asked for what is live. memory.html draws them from what is composed here.

State: none.
"""

import json
import os

from . import page as pages
from .memory_text import asker, kind_name, native_frames, python_frames, sentence, title, where
from .terminal import base_name, clean, size

_STACKS_MOST = 5000
_PARTS_MOST = 60


def page(document):
    """Result: bytes."""
    program = clean(base_name(document["program"] or "") or "?")
    shown = {
        "sentence": sentence(document),
        "facts": _facts(document),
        "groups": _groups(document),
        "stacks": _stacks(document["asked"] or []),
    }
    text = json.dumps(shown).replace("<", "\\u003c")  # "</script>" in a name would end the element
    here = os.path.dirname(os.path.abspath(__file__))
    name = f"{program}, process {document['pid']}"
    escaped = name.replace("&", "&amp;").replace("<", "&lt;")
    parts = {"MEMORY": text.encode(), "NAME": escaped.encode("utf-8", "replace")}
    return pages.fill(os.path.join(here, "memory.html"), parts)


def _facts(document):
    """[(name, value, remark)] for the tiles."""
    live = [row["live"] for row in document["rows"] if row["live"] is not None]
    free = sum(row["free"] or 0 for row in document["rows"])
    facts = [("Resident", size(document["resident"]), "")]
    if document["peak"]:
        facts.append(("Peak", size(document["peak"]), "the most that was resident"))
    facts.append(("Attributed", f"{100 * document['attributed']:.1f} %", "has a known owner"))
    if live:
        facts.append(("Live", size(sum(live)), "in blocks of allocators that count"))
        facts.append(("Free", size(free), "theirs, and nobody uses it"))
    if document["page_tables"]:
        facts.append(("Page tables", size(document["page_tables"]), "not resident memory"))
    if document["swapped"]:
        facts.append(("Swapped", size(document["swapped"]), "not resident memory"))
    return facts


def _groups(document):
    """[{name, kind, bytes, parts: [[name, bytes]]}], the largest first."""
    groups = []
    for row in document["rows"]:
        parts, left = [], row["resident"]
        for name in ("books", "free", "live"):  # live blocks need not be resident as a whole
            part = min(row[name] or 0, left)
            left -= part
            if part:
                parts.append([name, part])
        if parts and left:
            parts.append(["not told apart", left])
        groups.append(
            {
                "name": title(row),
                "kind": "allocator",
                "bytes": row["resident"],
                "parts": parts,
                "object": clean(row["object"] or ""),
            }
        )
    kinds = {}
    for row in document["rest"]:
        parts = kinds.setdefault(row["kind"], {})
        name = clean(row["wheel"] or "") or where(row)
        parts[name] = parts.get(name, 0) + row["resident"]
    for kind, parts in kinds.items():
        listed = sorted(parts.items(), key=lambda part: -part[1])
        rest = sum(count for _, count in listed[_PARTS_MOST:])
        listed = [part for part in listed[:_PARTS_MOST] if part[1] and part[0]]
        if rest:
            listed.append(("others", rest))
        groups.append(
            {
                "name": kind_name(kind),
                "kind": kind,
                "bytes": sum(parts.values()),
                "parts": listed,
                "object": "",
            }
        )
    return sorted((group for group in groups if group["bytes"]), key=lambda row: -row["bytes"])


def _stacks(rows):
    """[[frames, bytes]], each outermost first: who asked, Python's frames, and the native ones as
    far as they say more."""
    stacks = []
    for row in sorted(rows, key=lambda row: -row["bytes"])[:_STACKS_MOST]:
        inner = native_frames(row) + python_frames(row)
        stacks.append([[clean(asker(row)), *reversed(inner)], row["bytes"]])
    return stacks
