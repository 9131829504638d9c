# SPDX-License-Identifier: BSD-2-Clause
"""The text: crossings by conditions, then what died and how."""

from ..command.terminal import Page, clean
from . import _grouping, _verdict

_SHORT = {"ok": "ok", "died": "DIED", "leaked": "LEAK", "timed out": "TIME", "skipped": "-"}
_STYLES = {
    "ok": "ok",
    "died": "error",
    "leaked": "warning",
    "timed out": "slow",
    "skipped": "dim",
}
_HOSTS = 30  # columns


def text(outcome, everything):
    """everything: also the rows of crossings without findings. Result: bytes."""
    page = Page()
    if outcome.learned.crossings:
        _crossings(page, outcome, everything)
    _findings(page, outcome)
    saved = _grouping.saved(outcome)
    if saved:
        page.line()
        page.line(saved)
    for note in outcome.notes:
        page.line()
        page.wrapped("", clean(note))
    counts = _grouping.counts(outcome)
    parts = [
        page.styled(_STYLES[result], f"{counts[result]} {result}")
        for result in _verdict.RESULTS
        if counts[result]
    ]
    page.line()
    page.line(
        f"{outcome.target.module}: {len(outcome.learned.crossings)} crossings, "
        f"{sum(counts.values())} cells in {outcome.seconds:.1f} s: {', '.join(parts) or 'none'}"
    )
    return page.bytes()


# ---- the rows --------------------------------------------------------------------------------


def _crossings(page, outcome, everything):
    widths = _heads(page, _grouping.conditions(outcome))
    for crossing, cells in _grouping.by_crossing(outcome).items():
        name = clean(f"{crossing.name}  [{crossing.kind}]")
        if not everything and all(cell.result in ("ok", "skipped") for cell in cells):
            done = sum(cell.result == "ok" for cell in cells)
            skipped = len(cells) - done
            words = f"{done} ok" + (f", {skipped} skipped" if skipped else "")
            page.line(f"{name}: {page.styled('ok' if done else 'dim', words)}")
            continue
        page.line(name)
        for hosts, (results, *_) in _grouping.rows(cells):
            label = "  " + ", ".join(hosts)
            if len(label) >= _HOSTS:
                page.line(label)
                label = ""
            row = "".join(_result(page, results.get(each), width) for each, width in widths.items())
            page.line((label.ljust(_HOSTS) + row).rstrip())


def _heads(page, conditions):
    """Two lines, since most conditions have two words. Returns {condition: width}."""
    words = {name: name.partition(" ")[::2] for name in conditions}
    widths = {name: max(4, *map(len, pair)) + 1 for name, pair in words.items()}
    for line in range(2):
        heads = "".join(pair[line].ljust(widths[name]) for name, pair in words.items())
        page.line((" " * _HOSTS + heads).rstrip())
    return widths


def _result(page, cell, width):
    if cell is None or cell.result is None:
        return " " * width
    return page.styled(_STYLES[cell.result], _SHORT[cell.result].ljust(width))


# ---- what happened ---------------------------------------------------------------------------


def _findings(page, outcome):
    """Each death, leak and hang once, with the cells that share it."""
    for cell, places in _grouping.findings(outcome):
        page.line()
        how = page.styled(_STYLES[cell.result], _grouping.how(cell))
        page.line(f"{how}: {clean(cell.crossing.name)}")
        for host, conditions in places.items():
            page.wrapped(f"  {host}: ", ", ".join(conditions))
        for said in (cell.message, _verdict.parties(cell)):
            if said:
                page.wrapped("  ", clean(said))
