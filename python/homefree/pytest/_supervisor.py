# SPDX-License-Identifier: BSD-2-Clause
"""Starts pytest again, diagnosed, and says what is known if that process dies.

A process is diagnosed from its first instruction or never: the library must be preloaded. So the
pytest that the user starts becomes a supervisor. It starts the same command line under `homefree
run --diagnose`, passes signals on, and ends as that process did. What a test that kills the process
leaves behind is in the report's file, and the name of the test in the log.

The log lies in a temporary directory, with the report unless the user named another place for it.
`now` holds the test and the phase that run; `found` a finding in each line.
"""

import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest

from .. import _command
from .._diagnose import diagnose
from . import _findings, _reports

VARIABLE = "HOMEFREE_PYTEST"
_FINISHED = "finished"
_NOW_SIZE = 4096
_SCRIPT = re.compile(r"py\.?test(-3(\.\d+)?)?")
_REMEDY = "start the program itself as `homefree run --diagnose -- COMMAND`, with --homefree"


# ---- the log -------------------------------------------------------------------------------------


class Log:
    """Written by the recorded process. Without a supervisor it goes nowhere."""

    def __init__(self):
        # Taken out: a pytest that a test starts has another supervisor, or none.
        directory = os.environ.pop(VARIABLE, None)
        self._now = self._found = None
        self.process = os.getpid()
        if directory is None:
            return
        with contextlib.suppress(OSError, AttributeError):  # the supervisor's end ends this process
            ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        self._now = os.open(os.path.join(directory, "now"), flags, 0o600)
        self._found = os.open(os.path.join(directory, "found"), flags | os.O_APPEND, 0o600)

    def _writes(self):
        return self._now is not None and os.getpid() == self.process

    def now(self, what):
        """What begins: a test with its phase, or what pytest does outside of tests."""
        if self._writes():
            line = what.encode(errors="replace")[: _NOW_SIZE - 1].ljust(_NOW_SIZE, b"\0")
            os.pwrite(self._now, line, 0)

    def found(self, findings):
        if self._writes() and findings:
            lines = "".join(json.dumps(one) + "\n" for one in findings)
            os.write(self._found, lines.encode())

    def finished(self):
        self.now(_FINISHED)


def _read_log(directory):
    """(what ran last or None, findings)."""
    now, found = None, []
    with contextlib.suppress(OSError), open(os.path.join(directory, "now"), "rb") as file:
        now = file.read().rstrip(b"\0").decode(errors="replace")
    path = os.path.join(directory, "found")
    with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
        found.extend(json.loads(line) for line in file)
    return now or None, found


# ---- starting pytest again -----------------------------------------------------------------------


def _command_line(config):
    """The command line of this process, if pytest is all that it does; otherwise None."""
    try:
        words = list(sys.orig_argv)
    except AttributeError:  # before CPython 3.10
        with open("/proc/self/cmdline", "rb") as file:
            words = [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    given = [str(word) for word in config.invocation_params.args]
    before = words[: len(words) - len(given)]
    if len(before) < 2 or words[len(before) :] != given or not sys.executable:
        return None
    is_module = before[-2] == "-m" and before[-1] in ("pytest", "py.test")
    if not is_module and not _SCRIPT.fullmatch(os.path.basename(before[-1])):
        return None
    return [sys.executable, *words[1:]]


def ensure_diagnosed(config):
    """Returns if this process is diagnosed. Otherwise runs pytest in one that is, and ends.

    UsageError, with a remedy, if that is impossible.
    """
    try:
        with diagnose():
            return
    except RuntimeError as error:
        if "is not diagnosed" not in str(error):
            raise pytest.UsageError(str(error)) from None
    if VARIABLE in os.environ or "PYTEST_XDIST_WORKER" in os.environ:
        raise pytest.UsageError(
            "homefree: libhomefree-diagnose.so did not get into this process, although "
            "`homefree run --diagnose` started it; look for a wrapper of the interpreter that "
            "clears LD_PRELOAD"
        )
    command = _command_line(config)
    if command is None:
        raise pytest.UsageError(
            "homefree: this process is not diagnosed, and pytest cannot start it again, because "
            f"another program called pytest: {_REMEDY}"
        )
    try:
        homefree_command = _command.find()
    except FileNotFoundError as error:
        raise pytest.UsageError(str(error)) from None
    status = _supervise(homefree_command, command, config.known_args_namespace)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # this process has done nothing; other plugins must not end a session in it


def _pass_signals_on(child):
    """The terminal sends SIGINT and SIGQUIT to both processes."""
    for number in signal.SIGINT, signal.SIGQUIT:
        signal.signal(number, lambda *_: None)
    for number in signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: child.send_signal(number))


def _supervise(homefree_command, command, options):
    """The exit status for the user."""
    directory = tempfile.mkdtemp(prefix="homefree-pytest-")
    try:
        report = options.homefree_report or os.path.join(directory, "report")
        earlier = set(_reports.files(report))
        child = subprocess.Popen(
            [homefree_command, "run", "--diagnose", "--quiet", "--report", report, "--", *command],
            env={**os.environ, VARIABLE: directory},
            close_fds=False,
        )
        _pass_signals_on(child)
        status = child.wait()
        now, found = _read_log(directory)
        shown = 128 - status if status < 0 else status
        if now is None:  # no session began: wrong usage, --help
            return shown
        if now == _FINISHED and status >= 0:
            paths = [path for path in _reports.files(report) if path not in earlier]
            return _tell_rest(_reports.read(paths), found, options) or shown
        _tell_death(_reports.read(_reports.files(report, child.pid)), status, now, found, options)
        return shown or 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)


# ---- what the recorded process could not tell ----------------------------------------------------


def _write_document(reading, findings, died, options):
    if not options.homefree_json:
        return
    try:
        _findings.write_document(
            options.homefree_json,
            mode=options.homefree,
            findings=findings,
            crossings=reading.crossings if reading is not None else None,
            died=died,
        )
    except OSError as error:
        print(f"homefree: cannot write {options.homefree_json}: {error}", file=sys.stderr)


def _tell(lines, options):
    if options.homefree_report:
        lines.append(f"`homefree report {options.homefree_report}` shows more")
    print("\n".join(lines), file=sys.stderr)


def _left(reading, found, options):
    """The findings of a report that are not in the log."""
    known = ()
    if options.homefree_baseline:
        with contextlib.suppress(OSError, ValueError):
            known = _findings.read_baseline(options.homefree_baseline)
    rest = _findings.subtract(reading.findings, found) if reading is not None else []
    for one in rest:
        del one["processes"]
        _findings.judge(
            one,
            mode=options.homefree,
            known=known,
            writes_baseline=bool(options.homefree_write_baseline),
        )
    return _findings.by_severity(rest)


def _tell_rest(reading, found, options):
    """What was found after the session, by atexit functions or while modules are unloaded. The exit
    status that follows; 0 if nothing failed."""
    rest = _left(reading, found, options)
    if not rest:
        return 0
    for one in rest:
        one["phase"] = "after the session"
    failing = [one for one in rest if one["verdict"] == "fails"]
    if failing:
        lines = ["", " homefree: found after the session ".center(80, "=")]
        _tell([*lines, *map(_findings.text, failing)], options)
    _write_document(reading, [*found, *rest], None, options)
    return 1 if failing else 0


def _how(status, now):
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"signal {-status} ({signal.Signals(-status).name}) ended pytest {now}"
        return f"signal {-status} ended pytest {now}"
    return f"pytest ended with status {status} before its time, {now}"


def _tell_death(reading, status, now, found, options):
    died = _how(status, "after the session" if now == _FINISHED else now)
    rest = _left(reading, found, options)
    if now.startswith("in "):
        test, _, phase = now[3:-1].rpartition(" (")
        for one in rest:
            one.update(test=test, phase=phase)
    lines = ["", f" homefree: {died} ".center(80, "=")]
    lines.append("found in it before that:" if rest else "nothing was found in it before that")
    lines.extend(map(_findings.text, rest))
    for one in _findings.by_severity(found):
        lines.append(f"{one['severity']}: {one['rule']} in {one['test'] or 'no test'}")
    _tell(lines, options)
    _write_document(reading, [*found, *rest], died, options)
