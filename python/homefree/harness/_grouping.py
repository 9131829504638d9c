# SPDX-License-Identifier: BSD-2-Clause
"""What readers see together: cells of a crossing, hosts with the same results, findings with one
cause. For the table and the page."""

from . import _verdict
from ._conditions import ALONE, CONDITIONS


def conditions(outcome):
    """{name: (function, words)} of the conditions to show."""
    used = {cell.condition for cell in outcome.cells}
    return {name: more for name, more in CONDITIONS.items() if name in ALONE or name in used}


def by_crossing(outcome):
    """{crossing: cells that have a result}."""
    found = {}
    for cell in outcome.cells:
        if cell.result is not None:
            found.setdefault(cell.crossing, []).append(cell)
    return found


def rows(cells):
    """[(names of hosts, [{condition: cell} of each host])]: hosts with the same results share a
    row."""
    by_host = {}
    for cell in cells:
        by_host.setdefault(cell.column.name, {})[cell.condition] = cell
    found = []
    for host, row in by_host.items():
        look = {name: cell.result for name, cell in row.items()}
        for hosts, others in found:
            if {name: cell.result for name, cell in others[0].items()} == look:
                hosts.append(host)
                others.append(row)
                break
        else:
            found.append(([host], [row]))
    return found


def findings(outcome):
    """[(cell, {host: conditions})]: each death, leak and hang once, with a cell that shows it and
    all places where it happened."""
    groups = {}
    for cell in outcome.cells:
        if cell.result in _verdict.FINDINGS:
            key = (cell.crossing.name, cell.result, cell.signal, cell.message)
            groups.setdefault(key, []).append(cell)
    found = []
    for cells in groups.values():
        places = {}
        for cell in cells:
            places.setdefault(cell.column.name, []).append(cell.condition)
        found.append((cells[0], places))
    return found


def counts(outcome):
    """{result: number of cells}, without those that did not run."""
    found = dict.fromkeys(_verdict.RESULTS, 0)
    for cell in outcome.cells:
        if cell.result is not None:
            found[cell.result] += 1
    return found


def how(cell):
    """What a cell of a finding did, in words."""
    return f"{cell.result}, {cell.signal}" if cell.signal else cell.result


def saved(outcome):
    """The sentence about the cells that die without homefree and not with it. None for a module
    that is linked with homefree, or of which none dies."""
    if outcome.linked:
        return None
    died, good = set(), set()
    for cell in outcome.cells:
        place = cell.crossing, cell.condition
        if cell.column.name == "without homefree" and cell.result == "died":
            died.add(place)
        if cell.column.name == "homefree first" and cell.result == "ok":
            good.add(place)
    if not died:
        return None
    return f"homefree would save {len(died & good)} of {len(died)} cells that die without it."
