# SPDX-License-Identifier: BSD-2-Clause
"""`homefree memory` as text: a sentence, what to know before the figures, a table of all resident
memory, and then who asked for the live part.

State: none.
"""

import collections
import os
import re
import textwrap

from .memory_table import wheel_of
from .terminal import Page, base_name, clean, plural, size

_SHOWN_LEAST = 0.01  # of what is resident
_ASKED_MOST = 12
_FRAMES_MOST = 6
_FREE_SHARE, _FREE_LEAST = 0.2, 16 << 20
RUNTIMES = re.compile(
    r"/(?:libpython|python|libc\.so|libstdc\+\+|libhomefree|ld-linux|_homefree|libffi|_ctypes)[^/]*$"
)
_KINDS = {
    "code": "code and data of shared objects",
    "file": "mapped files",
    "shared": "shared memory",
    "stack": "stacks of threads",
    "kernel": "the kernel's pages (vdso)",
    "device": "mapped devices",
    "anonymous": "anonymous, with a name of its own",
    "unknown": "anonymous, of nobody known",
}


def text(document, every=False, path="-"):
    """The text of a document that goes to `path`. every: with all rows. Result: bytes."""
    page = Page(path)
    program = clean(base_name(document["program"] or "") or "?")
    said = f"{program}, process {document['pid']}: {sentence(document)}"
    for line in textwrap.wrap(said, page.width) if page.width else [said]:
        page.line(page.styled("bold", line))
    for note in _notes(document):
        page.wrapped("  ", note)
    _table(page, document, every)
    _limits(page, document.get("limits") or [])
    _asked(page, document["asked"], every)
    return page.bytes()


def where(row):
    """An object for people: its file and, where it is of a package, that."""
    name = clean(base_name(row["object"] or ""))
    wheel = row.get("wheel")
    return f"{name} ({clean(wheel)})" if wheel and wheel not in name else name


def kind_name(kind):
    return _KINDS[kind]


def title(row):
    """Whose a row is."""
    if "kind" in row:
        return _KINDS[row["kind"]]
    name = row["allocator"]
    if name is None:
        return f"{where(row)}, its own mappings"
    if name in ("homefree", "libc", "pymalloc") or row["object"] is None:
        return name
    return f"{name} in {where(row)}"


def _part(part, whole):
    return f"{100 * part / whole if whole else 0:.1f} %"


def sentence(document):
    resident = document["resident"]
    largest = (document["rows"] or [None])[0]
    said = f"{size(resident)} resident"
    if largest is not None:
        share = _part(largest["resident"], resident)
        said += f"; {title(largest)} has {size(largest['resident'])} of it ({share})"
    return f"{said}."


def _notes(document):
    resident = document["resident"]
    if document["unreadable"]:
        yield (
            "Its memory cannot be read, only its mappings: most anonymous memory stays without an "
            "owner, and what is live is unknown. Root may read it."
        )
    for row in document["rows"]:
        # What libc has given back, it counts as free all the same.
        free = min(row["free"] or 0, row["resident"] - (row["live"] or 0))
        if free > _FREE_LEAST and free > _FREE_SHARE * resident:
            yield _of_free(row, free)
    unknown = 1 - document["attributed"]
    if unknown > 0.05:
        yield f"{100 * unknown:.1f} % of it is nobody's that is known."
    if document["swapped"]:
        yield f"{size(document['swapped'])} more is swapped out."


def _of_free(row, free):
    """What to know of much free memory."""
    if row["allocator"] != "libc":
        return f"{size(free)} of {title(row)} is free; homefree.trim() gives such memory back."
    why = f", a live block of {size(row['last'])} at its top" if row["last"] else ""
    return (
        f"libc: {size(free)} free that it keeps{why}; only callers of its malloc can use it. "
        "homefree.trim() and 'homefree trim --pid' give it back, and homefree.install() does once "
        "others need as much (with background=True, whoever they are)."
    )


# ---- the table -------------------------------------------------------------------------------


def kinds(document):
    """[(kind, bytes, [(name, bytes)])] of what no allocator has, the largest first."""
    sums, parts = collections.Counter(), collections.defaultdict(collections.Counter)
    for row in document["rest"]:
        sums[row["kind"]] += row["resident"]
        name = wheel_of(row["object"]) or base_name(row["object"] or "")
        parts[row["kind"]][name] += row["resident"]
    return [(kind, count, parts[kind].most_common()) for kind, count in sums.most_common()]


def _amount(count):
    return "-" if count is None else size(count)


def _table(page, document, every):
    whole = document["resident"]
    page.line()
    head = f"{'resident':>11} {'':>7} {'live':>11} {'free':>11}  whose"
    page.line(page.styled("dim", head))

    def row(resident, live, free, name):
        numbers = f"{size(resident):>11} {_part(resident, whole):>7} {live:>11} {free:>11}  "
        page.wrapped(numbers, name)

    lines, small = [], [0, 0]
    for each in document["rows"]:
        amounts = _amount(each["live"]), _amount(each["free"])
        lines.append((each["resident"], amounts, title(each), []))
    for kind, count, parts in kinds(document):
        lines.append((count, ("", ""), _KINDS[kind], parts if parts[0][0] else []))
    for resident, amounts, name, parts in sorted(lines, key=lambda line: -line[0]):
        if not every and resident < _SHOWN_LEAST * whole:
            small = [small[0] + 1, small[1] + resident]
            continue
        row(resident, *amounts, name)
        shown = [part for part in parts if every or part[1] >= _SHOWN_LEAST * whole]
        for part, count in shown:
            page.wrapped(f"{size(count):>13}   ", clean(part))
        left = len(parts) - len(shown)
        if shown and left:
            count = sum(part[1] for part in parts) - sum(part[1] for part in shown)
            page.line(f"{size(count):>13}   {left} more")
    if small[0]:
        row(small[1], "", "", f"{small[0]} smaller row{plural(small[0])} (--all lists them)")
    if document["page_tables"]:
        tables = size(document["page_tables"])
        page.line()
        page.wrapped(f"{tables:>11}  ", "more are page tables, which are not resident memory.")


def _limits(page, rows):
    if rows:
        page.title("Limits of libraries: what they use, of what they may have:")
    for row in rows:
        most = size(row["limit"]) if row["limit"] is not None else "unlimited"
        used = f"{size(row['used']):>11} of {most:>11}  "
        refused = f", {row['refused']} refused" if row["refused"] else ""
        page.wrapped(used, f"{clean(base_name(row['name']))}{refused}")


# ---- who asked for it ----------------------------------------------------------------------------


def frame(each):
    """A Python frame: "function (file:line)"."""
    function, file, line = each
    return f"{clean(function)} ({clean(os.path.basename(file))}:{line})"


def frames(row):
    """What a person reads of a stack: Python's frames, or else the functions."""
    return python_frames(row) or native_frames(row)


def python_frames(row):
    """Without those of the import system, unless there are no others."""
    shown = [each for each in row["python"] if not each[1].startswith("<frozen importlib")]
    return [frame(each) for each in shown or row["python"]]


def native_frames(row):
    """The functions in C, below Python's frames as far as they say more than those. Of an object
    whose functions have no names, calls in a row are one."""
    shown = []
    for path, symbol, _ in row["native"]:
        if row["python"] and (not path or RUNTIMES.search(path)):
            break
        name = clean(base_name(path or "?"))
        name = f"{clean(symbol)} ({name})" if symbol else name
        if symbol or not shown or shown[-1] != name:
            shown.append(name)
    return shown


def asker(row):
    """Whose code asked: the innermost object that is not CPython's or a runtime's; where all are,
    the package or the file of the innermost Python frame."""
    for path, _, _ in row["native"]:
        if path and not RUNTIMES.search(path):
            return wheel_of(path) or base_name(path)
    for _, file, _ in row["python"]:
        if not file.startswith("<"):
            return wheel_of(file) or base_name(file)
    return wheel_of(row["object"]) or base_name(row["object"] or "") or "?"


def _merged(rows):
    """Stacks that are the same to a person: [(lines, bytes)], the largest first."""
    sums = collections.Counter()
    for row in rows:
        sums[tuple(frames(row)) or (where(row),)] += row["bytes"]
    return sums.most_common()


def _asked(page, rows, every):
    if not rows:
        return
    whole = sum(row["bytes"] for row in rows)
    page.title(f"Who asked for what is live, {size(whole)} (sampled):")
    objects = collections.Counter()
    for row in rows:
        objects[asker(row)] += row["bytes"]
    for name, count in objects.most_common(None if every else _ASKED_MOST):
        if not every and count < _SHOWN_LEAST * whole:
            break
        page.wrapped(f"{size(count):>11} {_part(count, whole):>7}  ", clean(name))
    page.title("By stack:")
    _stacks(page, rows, whole, every)


def _stacks(page, rows, whole, every):
    shown = _merged(rows)
    for stack, count in shown if every else shown[:_ASKED_MOST]:
        if not every and count < _SHOWN_LEAST * whole:
            break
        start = f"{size(count):>11} {_part(count, whole):>7}  "
        page.wrapped(start, stack[0])
        for each in stack[1 : None if every else _FRAMES_MOST]:
            page.wrapped(f"{'':{len(start)}}", each)


# ---- what grew -----------------------------------------------------------------------------------


def _signed(count):
    return f"{'-' if count < 0 else '+'}{size(abs(count))}"


def diff_text(document, every=False):
    """The text of what memory_table.diff() made. Result: bytes."""
    page = Page()
    page.line(
        page.styled(
            "bold",
            f"{_signed(document['grown'])} resident in {document['seconds']:.1f} seconds; "
            f"{size(document['resident'])} now.",
        )
    )
    _grown(page, document, None if every else 20)
    return page.bytes()


def growth_lines(document, most):
    """The lines about what grew, without the sentence."""
    page = Page("")
    _grown(page, document, most)
    return page.bytes().decode("utf-8", "replace").split("\n")


def _grown(page, document, most):
    rows = sorted(document["rows"] + document["rest"], key=lambda row: -abs(row["grown"]))
    if rows:
        page.line()
        page.line(page.styled("dim", f"{'resident':>11} {'live':>11}  whose"))
    for row in rows[:most]:
        live = row.get("live")
        start = f"{_signed(row['grown']):>11} {'-' if live is None else _signed(live):>11}  "
        name = title(row)
        if "kind" in row and row["object"]:
            name = f"{name}: {where(row)}"
        page.wrapped(start, name)
    asked = [row for row in document["asked"] or [] if row["bytes"] > 0]
    if asked:
        page.title("Who asked for it (sampled):")
        _stacks(page, asked, sum(row["bytes"] for row in asked), most is None)
