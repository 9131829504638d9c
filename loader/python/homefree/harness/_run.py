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


def run(pool, cells, options, progress):
    """Runs the cells whose hosts are there. Each gets its result as it ends."""
    left = [cell for cell in cells if cell.result is None]
    of_request = {}

    def work():
        for cell, (host, request) in zip(left, requests(left, options)):
            of_request[id(request)] = cell
            yield host, request

    for done, (_, request, answer) in enumerate(pool.run(work()), 1):
        cell = of_request.pop(id(request))
        _verdict.judge(cell, answer)
        progress(done, len(left), cell)
