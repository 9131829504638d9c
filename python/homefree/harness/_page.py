# SPDX-License-Identifier: BSD-2-Clause
"""The page of `homefree test --html`: one file, which asks nothing of a network.

The tables are plain HTML, and everything from outside is escaped. _page.html has the style, and a
script for filters and keys; nothing of the module's becomes a script.
"""

import html
import os

from . import _grouping

_SHORT = {"ok": "ok", "died": "died", "leaked": "leak", "timed out": "time", "skipped": "–"}


def _escape(text):
    return html.escape("".join(c if c.isprintable() else "?" for c in str(text)))


def _class(result):
    return result.replace(" ", "-")


def _sentence(outcome):
    counts = _grouping.counts(outcome)
    bad = counts["died"] + counts["leaked"] + counts["timed out"]
    cells = sum(counts.values())
    crossings = len(_grouping.by_crossing(outcome))
    if not bad:
        said = f"No fault found in {cells} cells of {crossings} crossings."
    else:
        said = f"{bad} of {cells} cells have a finding, in {crossings} crossings."
    return said if outcome.complete else said + " The run was interrupted."


def _tiles(outcome):
    return "".join(
        f'<li class="tile {_class(result)}"><span class="number">{count:,}</span> {result}</li>'
        for result, count in _grouping.counts(outcome).items()
    )


def _facts(outcome):
    brings = {True: "yes", False: "no", None: "unknown"}[outcome.linked]
    facts = {
        "File": outcome.file or "unknown",
        "Python": outcome.python,
        "Brings homefree": brings,
        "Time": f"{outcome.seconds:.1f} s",
    }
    saved, died = _grouping.saved(outcome)
    if died:
        facts["Saved by homefree"] = f"{saved} of {died} cells that die without it"
    return "".join(f"<dt>{key}</dt><dd>{_escape(value)}</dd>" for key, value in facts.items())


def _finding(cell, places):
    how = f"{cell.result}, {cell.signal}" if cell.signal else cell.result
    where = "".join(
        f"<li><b>{_escape(host)}</b>: {_escape(', '.join(conditions))}</li>"
        for host, conditions in places.items()
    )
    return (
        f'<article class="finding"><h3><span class="mark {_class(cell.result)}">{_escape(how)}'
        f"</span> <code>{_escape(cell.crossing.name)}</code></h3>"
        f"<p>{_escape(cell.message or '')}</p><ul>{where}</ul></article>"
    )


def _cell(condition, rows):
    cells = [row[condition] for row in rows if condition in row]
    if not cells:
        return "<td></td>"
    first = cells[0]
    messages = {}
    for cell in cells:
        messages.setdefault(cell.message or cell.result, []).append(cell.column.name)
    detail = "\n".join(f"{', '.join(hosts)}: {message}" for message, hosts in messages.items())
    spoken = f"{first.crossing.name}, {condition}: {first.result}"
    return (
        f'<td class="{_class(first.result)}" data-detail="{_escape_lines(detail)}" '
        f'aria-label="{_escape(spoken)}">{_SHORT[first.result]}</td>'
    )


def _escape_lines(text):
    return "&#10;".join(_escape(line) for line in text.split("\n"))


def _crossing(crossing, cells, conditions):
    bad = any(cell.result not in ("ok", "skipped") for cell in cells)
    lines = []
    for hosts, rows in _grouping.rows(cells):
        found = "".join(_cell(condition, rows) for condition in conditions)
        lines.append(f'<tr><th scope="row">{_escape(", ".join(hosts))}</th>{found}</tr>')
    span = len(conditions) + 1
    head = f"<code>{_escape(crossing.name)}</code> <small>{_escape(crossing.kind)}</small>"
    return (
        f'<tbody data-bad="{int(bad)}" data-name="{_escape(crossing.name.lower())}">'
        f'<tr><th class="crossing" colspan="{span}" scope="rowgroup">{head}</th></tr>'
        f"{''.join(lines)}</tbody>"
    )


def page(outcome):
    """The page, as text."""
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "_page.html"), encoding="utf-8") as file:
        template = file.read()
    found = [_finding(cell, places) for cell, places in _grouping.findings(outcome)]
    conditions = _grouping.conditions(outcome)
    heads = "".join(
        f'<th scope="col" title="{_escape(words)}">{name}</th>'
        for name, (_, words) in conditions.items()
    )
    crossings = _grouping.by_crossing(outcome).items()
    parts = {
        "MODULE": _escape(outcome.target.module),
        "SENTENCE": _escape(_sentence(outcome)),
        "TILES": _tiles(outcome),
        "FACTS": _facts(outcome),
        "FINDINGS": "".join(found) or "<p>None.</p>",
        "HEADS": heads,
        "BODIES": "".join(_crossing(crossing, cells, conditions) for crossing, cells in crossings),
        "NOTES": "".join(f"<li>{_escape(note)}</li>" for note in outcome.notes),
    }
    pieces = template.split("@@")  # text and names of parts take turns
    pieces[1::2] = [parts[name] for name in pieces[1::2]]
    return "".join(pieces)
