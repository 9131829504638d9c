# SPDX-License-Identifier: BSD-2-Clause
"""Running cells, several at a time."""

from . import _verdict


def requests(cells, options):
    for cell in cells:
        yield (
            cell.column.host,
            {
                "recipe": cell.crossing.recipe,
                "kind": cell.crossing.kind,
                "condition": cell.condition,
                "late": cell.column.late,
                "pointers": options.pointers,
                "timeout": options.timeout,
            },
        )


def warm(pool, modules, timeout):
    """Lets all hosts import modules that crossings import."""
    work = ((host, {"warm": sorted(modules), "timeout": timeout}) for host in list(pool.hosts))
    for _ in pool.run(work):
        pass


def _pass(pool, cells, options, done):
    """Runs cells; `done` gets the number and the cell as each ends."""
    of_request = {}

    def work():
        for cell, (host, request) in zip(cells, requests(cells, options)):
            of_request[id(request)] = cell
            yield host, request

    for number, (_, request, answer) in enumerate(pool.run(work()), 1):
        cell = of_request.pop(id(request))
        _verdict.judge(cell, answer)
        done(number, cell)


def run(pool, cells, options, progress):
    """Runs the cells whose hosts are there. Each gets its result as it ends. Cells that time out
    are run once more in the end, because on a busy machine they may just have been slow."""
    left = [cell for cell in cells if cell.result is None]
    _pass(pool, left, options, lambda number, cell: progress(number, len(left), cell))
    slow = [cell for cell in left if cell.result == "timed out"]
    _pass(pool, slow, options, lambda number, cell: progress(len(left), len(left), cell))
