# SPDX-License-Identifier: BSD-2-Clause
"""What `homefree doctor --core` found, as text. State: none."""

from . import findings
from .terminal import base_name, clean, plural, signal_name, size

_FRAMES_MOST = 24
_BLOCKS = {"live": "live", "free": "free", None: "of unknown state"}


def lines(page, core):
    program = page.styled("bold", clean(core["program"] or "(unnamed)"))
    fault = f" at {core['fault']:#x}" if core["fault"] is not None else ""
    page.line(
        f"{program}, process {core['pid']}, was ended by {signal_name(core['signal'])}{fault}"
    )
    if core["said"]:
        page.line(f"  said: {clean(core['said'])}")
    thread, stack = core["thread"], core["thread"]["stack"]
    page.title(f"Thread {thread['id']}, of {thread['threads']}:")
    for frame in stack[:_FRAMES_MOST]:
        _frame(page, frame)
    if len(stack) > _FRAMES_MOST:
        page.line(f"  and {len(stack) - _FRAMES_MOST} more frames")
    page.line()
    if core["pointer"] is not None:
        _pointer(page, core)
    if core["freed"] is not None:
        freed = core["freed"]
        by = _object(freed["object"]) + (
            f", in {clean(freed['symbol'])}" if freed["symbol"] else ""
        )
        function = clean(freed["function"] or "a function")
        page.line(f"Freed by:  {by}, with {function} of {_named(freed)}")
    for each in core["unknown"]:
        page.wrapped("Not known: ", clean(each))
    for each in core["inspect"]:
        page.line(f"'homefree inspect' says of {_object(each['object'])}: {each['rule']}")
    page.title("Findings:")
    found = [{"rule": core["finding"], "severity": core["severity"], "message": core["message"]}]
    findings.lines(page, found, lambda each: each["message"])
    page.line()


def _frame(page, frame):
    where = f" + {frame['offset']:#x}" if frame["offset"] is not None else ""
    symbol = f" {clean(frame['symbol'])}" if frame["symbol"] else ""
    page.line(f"  {frame['address']:#018x}{symbol} in {_object(frame['object'])}{where}")


def _object(path):
    return clean(base_name(path)) if path else "(unknown)"


def _named(place):
    return clean(place["allocator"] or "an unknown allocator")


def _pointer(page, core):
    owner, pointer = core["owner"], core["pointer"]
    page.line(f"Pointer:   {pointer:#x}, known by {core['pointer_known_by']}")
    kind, path = owner["kind"], owner["object"]
    if kind is None:
        whose = "nobody's; nothing is mapped there"
    elif kind == "allocator":
        whose = f"{_named(owner)}'s" + (f", in {_object(path)}" if path else "")
    elif kind == "code":
        whose = f"static data of {_object(path)}"
        whose += f": {clean(owner['symbol'])}" if owner["symbol"] else ""
    else:
        whose = f"{kind} memory" + (f": {clean(path)}" if path else "")
    page.line(f"Owner:     {whose}")
    block = owner["block"]
    if block is not None:
        inside = pointer - block["start"]
        where = f", {inside} byte{plural(inside)} in" if inside else ""
        page.line(f"Block:     {size(block['size'])}, {_BLOCKS[block['state']]}{where}")
