# SPDX-License-Identifier: BSD-2-Clause
"""The page of `homefree test --html` (command/page.py).

The tables are plain HTML, and everything from outside is escaped. _page.html has what the script
does with them; nothing of the module's becomes a script.
"""

import html
import os

from ..command import page as pages
from ..command.terminal import clean, plural
from . import _grouping, _verdict

_SHORT = {"ok": "ok", "died": "died", "leaked": "leak", "timed out": "time", "skipped": "–"}


def _escape(text):
    return html.escape(clean(text))


def _class(result):
    return result.replace(" ", "-")


def _sentence(outcome):
    counts = _grouping.counts(outcome)
    bad = sum(counts[result] for result in _verdict.FINDINGS)
    cells = sum(counts.values())
    crossings = len(_grouping.by_crossing(outcome))
    if not bad:
        said = f"No fault found in {cells} cells of {crossings} crossings."
    else:
        said = f"{bad} of {cells} cells have a finding, in {crossings} crossings."
    return said if outcome.complete else said + " The run was interrupted."


def _tiles(outcome):
    return "".join(
        f'<div class="tile {_class(result)}"><dt>{result}</dt><dd class="number">{count:,}</dd>'
        "</div>"
        for result, count in _grouping.counts(outcome).items()
    )


def _facts(outcome):
    facts = {
        "File": outcome.file or "unknown",
        "Python": outcome.python,
        "Brings homefree": {True: "yes", False: "no", None: "unknown"}[outcome.linked],
        "Time": f"{outcome.seconds:.1f} s",
    }
    return "".join(f"<dt>{key}</dt><dd>{_escape(value)}</dd>" for key, value in facts.items())


# ---- findings --------------------------------------------------------------------------------


def _finding(cell, places):
    where = "".join(
        f"<dt>{_escape(host)}</dt><dd>{_escape(', '.join(conditions))}</dd>"
        for host, conditions in places.items()
    )
    return (
        f'<div class="finding"><p><b>{_grouping.how(cell)}</b> {_escape(cell.message or "")}</p>'
        f"<dl>{where}</dl></div>"
    )


def _group(crossing, found, opened):
    result = found[0][0].result
    cells = sum(len(conditions) for _, places in found for conditions in places.values())
    sums = f"{len(found)} cause{plural(len(found))} · {cells} cell{plural(cells)}"
    return (
        f'<details class="group" data-name="{_escape(crossing.lower())}"{" open" * opened}>'
        f'<summary><span class="badge {_class(result)}">{result}</span>'
        f'<h3 class="owners">{_escape(crossing)}</h3><span class="sums">{sums}</span></summary>'
        f'<div class="sites">{"".join(_finding(*each) for each in found)}</div></details>'
    )


def _groups(outcome):
    """The causes by crossing, the worst first; the first group is open."""
    groups = {}
    worst_first = sorted(
        _grouping.findings(outcome), key=lambda found: _verdict.FINDINGS.index(found[0].result)
    )
    for found in worst_first:
        groups.setdefault(found[0].crossing.name, []).append(found)
    shown = [_group(name, found, not at) for at, (name, found) in enumerate(groups.items())]
    return "".join(shown) or '<p class="empty">None.</p>'


# ---- cells -----------------------------------------------------------------------------------


def _cell(condition, rows):
    cells = [row[condition] for row in rows if condition in row]
    if not cells:
        return "<td></td>"
    first = cells[0]
    messages = {}
    for cell in cells:
        messages.setdefault(cell.message or cell.result, []).append(cell.column.name)
    detail = "&#10;".join(
        _escape(f"{', '.join(hosts)}: {message}") for message, hosts in messages.items()
    )
    spoken = f"{first.crossing.name}, {condition}: {first.result}"
    return (
        f'<td class="{_class(first.result)}" data-detail="{detail}" '
        f'aria-label="{_escape(spoken)}">{_SHORT[first.result]}</td>'
    )


def _crossing(crossing, cells, conditions):
    bad = any(cell.result in _verdict.FINDINGS for cell in cells)
    lines = []
    for hosts, rows in _grouping.rows(cells):
        found = "".join(_cell(condition, rows) for condition in conditions)
        lines.append(f'<tr><th scope="row">{_escape(", ".join(hosts))}</th>{found}</tr>')
    span = len(conditions) + 1
    head = (
        f'<span class="name">{_escape(crossing.name)}</span> '
        f'<small class="muted">{_escape(crossing.kind)}</small>'
    )
    return (
        f'<tbody data-bad="{int(bad)}" data-name="{_escape(crossing.name.lower())}">'
        f'<tr><th class="crossing" colspan="{span}" scope="rowgroup">{head}</th></tr>'
        f"{''.join(lines)}</tbody>"
    )


def page(outcome):
    """The page, as bytes."""
    conditions = _grouping.conditions(outcome)
    crossings = _grouping.by_crossing(outcome).items()
    parts = {
        "MODULE": _escape(outcome.target.module),
        "SENTENCE": _sentence(outcome),
        "SAVED": _grouping.saved(outcome) or "",
        "TILES": _tiles(outcome),
        "FACTS": _facts(outcome),
        "FINDINGS": _groups(outcome),
        "COUNT": str(len(conditions)),
        "HEADS": "".join(
            f'<th scope="col" title="{_escape(words)}">{name}</th>'
            for name, (_, words) in conditions.items()
        ),
        "BODIES": "".join(_crossing(crossing, cells, conditions) for crossing, cells in crossings),
        "NOTES": "".join(f"<li>{_escape(note)}</li>" for note in outcome.notes),
    }
    template = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_page.html")
    return pages.fill(
        template, {name: part.encode("utf-8", "replace") for name, part in parts.items()}
    )
