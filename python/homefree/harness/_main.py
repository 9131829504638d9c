# SPDX-License-Identifier: BSD-2-Clause
"""The controller of `homefree test`: learn, plan, run, show."""

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time

from ..command import output
from ..command.start import Failure as Failed
from ..command.start import complain
from ..command.terminal import Progress, clean, signal_name
from . import (
    _cell_plan,
    _document,
    _hosts,
    _junit,
    _learning,
    _options,
    _orphans,
    _page,
    _recording,
    _run,
    _table,
    _target,
)

_WHO = "homefree test"
CLEAN, FINDINGS, USAGE, FAILED = 0, 1, 2, 3


class Outcome:
    """All that a run of the harness knows."""

    def __init__(self, target):
        self.target = target
        self.cells = []
        self.learned = _learning.Learned()
        self.notes = []
        self.linked = None
        self.file = None
        self.python = sys.version.split()[0]
        self.complete = False
        self.seconds = 0.0


class Interrupted(Exception):
    """SIGINT, SIGTERM or SIGHUP."""


def _start(pool, columns, outcome):
    """Starts the hosts of columns. A module that ends a host as it is imported is a finding."""
    hosts = {}
    for column in columns:
        if column.missing is None and column.host not in pool.hosts:
            hosts.setdefault(column.host, []).append(column)
    failed = pool.start(list(hosts))
    alive = [host for host in hosts if host not in failed]
    for host, error in failed.items():
        if error.how == "raised":
            stage, kind = error.kind
            if stage == "module" and not alive and not pool.hosts:
                raise Failed(_why(outcome.target, kind, str(error)))
            reason = f"the host could not be made: {kind}: {error}"
            for column in hosts[host]:
                column.missing = reason
        else:
            _import_finding(outcome, host, error)
            for column in hosts[host]:
                column.missing = "the module cannot be imported there"
    return alive


def _skip(cells):
    for cell in cells:
        if cell.result is None and cell.column.missing is not None:
            cell.result, cell.message = "skipped", cell.column.missing


def _why(target, kind, message):
    if kind == "ModuleNotFoundError":
        reason = target.why_missing()
        if reason is not None:
            return reason
    return f"cannot import '{target.module}': {kind}: {message}"


def _import_finding(outcome, host, error):
    from . import _verdict

    crossing = _learning.Crossing({"name": f"import {outcome.target.module}:"}, "call", "import")
    crossing.name = f"import {outcome.target.module}"
    for other in outcome.cells:
        if other.crossing.name == crossing.name:
            crossing = other.crossing
    cell = _cell_plan.Cell(crossing, "import", _cell_plan.Column(host.name, host))
    cell.result = error.how
    cell.signal = signal_name(error.signal)
    words = _verdict.last_words(str(error))
    cell.message = "while the module was imported" + (f": {words}" if words else "")
    outcome.cells.append(cell)


def _record(learner, command, outcome):
    target = outcome.target
    try:
        recorded = _recording.record(target, command)
    except OSError as error:
        raise Failed(f"cannot run '{command[0]}': {error.strerror}") from None
    if recorded.status != 0:
        how = (
            f"was ended by {signal_name(-recorded.status)}"
            if recorded.status < 0
            else f"exited with status {recorded.status}"
        )
        outcome.notes.append(f"the command {how}; what it did before was recorded")
    if not recorded.imported:
        raise Failed(
            f"'{' '.join(command)}' did not import '{target.module}', or not in a Python that "
            "reads PYTHONPATH"
        )
    learner.replay(recorded.calls)
    for names, words in (
        (sorted(recorded.lost), "recorded callables got arguments that cannot be repeated"),
        (learner.learned.silent, "recorded calls raised when they were repeated alone"),
        (
            learner.learned.unrepeated,
            "recorded calls of methods ended their process when they were repeated alone, on an "
            "object on which nothing else had been called",
        ),
        (sorted(recorded.static), "types are static, so that their methods cannot be recorded"),
    ):
        if names:
            more = ", ..." if len(names) > 5 else ""
            outcome.notes.append(f"{len(names)} {words}: {', '.join(names[:5])}{more}")


def _learn(pool, host, options, outcome, progress):
    learner = _learning.Learner(
        pool,
        host,
        options.learn,
        progress=lambda count: progress.show(f"learning what crosses: {count} crossings"),
    )
    learned = outcome.learned = learner.learned
    command = [sys.executable, options.script] if options.script else options.command
    if command:
        _record(learner, command, outcome)
    else:
        learner.invent()
    dropped = learned.limit(options.limit)
    if dropped:
        outcome.notes.append(
            f"{dropped} more crossings were learned and left out; --limit takes a larger number"
        )
    if learned.cut:
        outcome.notes.append(
            f"learning stopped after {options.learn:g} s; --learn takes a larger number"
        )
    if learned.fatal:
        shown = ", ".join(f"{name} ({how})" for name, how in learned.fatal[:5])
        more = f" and {len(learned.fatal) - 5} more" if len(learned.fatal) > 5 else ""
        outcome.notes.append(
            "calls with invented arguments that proved nothing, because the arguments may be "
            f"wrong: {shown}{more}"
        )


def _work(options, target, outcome, pool, progress):
    """Everything between the start of the first host and the end of the last cell."""
    columns, first = _cell_plan.columns(target, options.beside, options.interpreters)
    alive = _start(pool, columns[:2], outcome)
    if not alive:
        if not outcome.cells:
            raise Failed(f"nothing was tested: {columns[0].missing}")
        outcome.complete = True
        return
    facts = alive[0].facts
    outcome.file, outcome.python = facts["file"], facts["python"]
    alone = columns[0]
    outcome.linked = alone.host.facts["homefree"] if alone.host in alive else None
    if not outcome.linked:
        alone.name = "without homefree"
    learner = first if first in alive else alive[0]
    _learn(pool, learner, options, outcome, progress)
    if not outcome.learned.crossings:
        outcome.complete = True
        if options.script or options.command:
            raise Failed(f"nothing learned: no call of '{target.module}' can be repeated")
        raise Failed(
            f"nothing learned: no arguments that could be invented suit the callables of "
            f"'{target.module}'; give --script FILE or -- COMMAND that uses it"
        )
    planned = _cell_plan.cells(outcome.learned.crossings, columns, options.only)
    if not planned:
        raise Failed(f"no cell matches --only '{options.only}'; --list shows all cells")
    outcome.cells += planned
    if options.list:
        _skip(planned)
        return
    progress.show("starting")
    _start(pool, {cell.column: None for cell in planned}, outcome)
    _skip(planned)
    _run.warm(pool, outcome.learned.loaded, target.import_timeout)
    _run.run(
        pool,
        planned,
        options,
        lambda done, total, cell: progress.show(
            f"{done} of {total} cells: {cell.crossing.name[:40]} / {cell.condition}"
        ),
    )
    outcome.complete = True


def _list(outcome):
    for cell in outcome.cells:
        print(clean(" / ".join(cell.names())))


def _check_writable(path):
    """Refuses a file that cannot be written, before anything has run."""
    directory = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path):
        raise Failed(f"cannot write '{path}': it is a directory")
    if not os.path.isdir(directory):
        raise Failed(f"cannot write '{path}': there is no directory '{directory}'")
    if not os.access(path if os.path.exists(path) else directory, os.W_OK):
        raise Failed(f"cannot write '{path}': permission denied")


def _show(options, outcome):
    if options.junit:
        output.write(options.junit, _junit.junit(outcome))
    if options.html:
        output.write(options.html, _page.page(outcome))
    if options.json:
        text = json.dumps(_document.document(outcome), indent=1) + "\n"
        output.write("-", text.encode())
    else:
        output.write("-", _table.text(outcome, options.all))


def _status(outcome):
    from . import _verdict

    found = any(cell.result in _verdict.FINDINGS for cell in outcome.cells)
    return FINDINGS if found else CLEAN


def _interrupt(number, frame):
    signal.signal(number, signal.SIG_IGN)
    raise Interrupted(number)


def main(words):
    """Runs the harness. Returns the exit status."""
    options = _options.read(words)
    directory = tempfile.mkdtemp(prefix="homefree-test-")
    progress = Progress(_WHO)
    pool = _hosts.Pool(max(1, options.jobs))
    outcome = None
    begun = time.monotonic()
    _orphans.adopt()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    status = FAILED
    try:
        for path in (options.junit, options.html):
            if path:
                _check_writable(path)
        target = _target.Target(options.module, directory, 3 * options.timeout)
        outcome = Outcome(target)
        try:
            _work(options, target, outcome, pool, progress)
        except Interrupted as error:
            status = 128 + error.args[0]
        outcome.seconds = time.monotonic() - begun
        progress.end()
        if options.list:
            _list(outcome)
        else:
            _show(options, outcome)
        if status == FAILED:
            status = _status(outcome)
    except (Failed, _target.Refused) as error:
        progress.end()
        complain(_WHO, str(error))
    except Interrupted as error:
        status = 128 + error.args[0]
    except BrokenPipeError:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    finally:
        progress.end()
        pool.close()
        _orphans.end()
        shutil.rmtree(directory, ignore_errors=True)
    return status
