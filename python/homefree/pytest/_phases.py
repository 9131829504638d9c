# SPDX-License-Identifier: BSD-2-Clause
"""The hooks of `pytest --homefree`, in the process that runs tests and in the one that collects
what pytest-xdist's workers found."""

import os

import pytest

from .._diagnose import diagnose
from .._homefree import version
from . import _findings, _reports, _supervisor

_TITLES = {
    "fails": "fails",
    "listed": "listed",
    "allowed": "permitted by a mark",
    "known": "known by the baseline",
}


def _marks(item):
    """The patterns that the marks of a test permit. UsageError for a mark that is wrong."""
    allowed = []
    for mark in item.iter_markers("homefree"):
        patterns = mark.kwargs.get("allow", ())
        patterns = [patterns] if isinstance(patterns, str) else patterns
        if (
            mark.args
            or set(mark.kwargs) - {"allow", "leaks"}
            or not isinstance(mark.kwargs.get("leaks", False), bool)
            or not isinstance(patterns, (list, tuple, set, frozenset))
            or not all(isinstance(pattern, str) for pattern in patterns)
        ):
            raise pytest.UsageError(
                f"{item.nodeid}: the mark homefree takes allow='RULE' or allow=['PATTERN', …], and "
                "leaks=True or leaks=False"
            )
        allowed.extend(patterns)
    return allowed


_first = None  # the part of the run that begins before a conftest.py is loaded


def begin():
    """Begins to count what is found. Called once the process is diagnosed."""
    global _first
    _first = _begin()


def _begin():
    part = diagnose()
    part.__enter__()
    return part


class Recorder:
    """A plugin. `found` has all findings, of workers too."""

    def __init__(self, config, leaks):
        option = config.option
        self.config = config
        self.leaks = leaks
        self.unknown = {}  # why it is not known whether tests lost memory, and which tests
        self.mode = option.homefree
        self.found = []
        self.crossings = None
        self.unwritten = None  # why a file could not be written
        self.tests = 0
        self.known = frozenset()
        self.is_worker = hasattr(config, "workerinput")
        self.log = _supervisor.Log()
        for name in "homefree_json", "homefree_baseline", "homefree_write_baseline":
            path = getattr(option, name)
            if path and not self.is_worker:  # workers get the option of this process
                path = os.path.join(str(config.invocation_params.dir), path)
                setattr(option, name, path)
        self.read_baseline(option)
        self.directory = _reports.directory()
        own = f"{os.getpid()}-"
        self.earlier = {
            path
            for path in (_reports.files(self.directory) if self.directory else ())
            if not os.path.basename(path).startswith(own)
        }
        self.names = _reports.Names(self.directory)
        self.part = _first if _first is not None else _begin()
        self.log.now("before its first test")

    def read_baseline(self, option):
        if option.homefree_baseline and option.homefree_write_baseline:
            raise pytest.UsageError(
                "--homefree-baseline and --homefree-write-baseline exclude each other"
            )
        if option.homefree_baseline:
            try:
                self.known = _findings.read_baseline(option.homefree_baseline)
            except OSError as error:
                raise pytest.UsageError(
                    f"--homefree-baseline: {error}; write one with --homefree-write-baseline"
                ) from None
            except ValueError as error:
                raise pytest.UsageError(f"--homefree-baseline: {error}") from None

    # ---- what is found ---------------------------------------------------------------------------

    def take(self):
        """What was found since the last call. What another thread records at this moment may be
        counted twice, but is never lost."""
        try:
            following = _begin()
            self.part.__exit__(None, None, None)
        except RuntimeError:  # another thread keeps the list busy; it is found by the next call
            return []
        found, self.part = self.part.findings, following
        return [_findings.from_diagnosis(one) for one in found]

    def judge(self, found, allowed=()):
        for one in found:
            _findings.judge(
                one,
                mode=self.mode,
                allowed=allowed,
                known=self.known,
                writes_baseline=bool(self.config.option.homefree_write_baseline),
            )
        return found

    def add(self, found):
        self.found.extend(found)
        self.log.found(found)

    def take_outside(self):
        """What was found since the last test."""
        found = self.take()
        if found:
            self.names.add_to(found)
            self.add(self.judge(found))

    # ---- tests -----------------------------------------------------------------------------------

    def pytest_collection_modifyitems(self, items):
        for item in items:
            _marks(item)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item):
        self.take_outside()
        yield
        self.log.now(f"after {item.nodeid}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        self.log.now(f"in {item.nodeid} (setup)")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item):
        self.log.now(f"in {item.nodeid} (call)")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item):
        self.log.now(f"in {item.nodeid} (teardown)")

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item):
        outcome = yield
        found = self.take()
        if found:
            self.attach(item, outcome.get_result(), found)
        if self.leaks.unknown is not None:
            outcome.get_result().homefree_unknown = self.leaks.unknown
            self.leaks.unknown = None

    def attach(self, item, report, found):
        """Makes findings a part of a phase's report."""
        self.names.add_to(found)
        for one in found:
            one.update(test=item.nodeid, phase=report.when)
        report.homefree = self.judge(found, _marks(item))
        for one in found:
            entry = (f"homefree.{one['verdict']}", f"{one['count']} {_findings.key_text(one)}")
            item.user_properties.append(entry)
            if entry not in report.user_properties:
                report.user_properties.append(entry)
        failing = [one for one in found if one["verdict"] == "fails"]
        if not failing:
            return
        text = "\n".join(_findings.text(one) for one in _findings.by_severity(failing))
        if report.failed:
            report.sections.append((f"homefree {report.when}", text))
            return
        # Also for a test that was expected to fail: not like this.
        report.outcome = "failed"
        rules = ", ".join(sorted({one["rule"] for one in failing}))
        report.longrepr = f"homefree: {rules} in the {report.when}\n{text}"
        if hasattr(report, "wasxfail"):
            del report.wasxfail

    def pytest_runtest_logreport(self, report):
        self.tests += report.when == "setup"
        if not self.is_worker:
            self.add(getattr(report, "homefree", ()))
            if hasattr(report, "homefree_unknown"):
                self.unknown.setdefault(report.homefree_unknown, []).append(report.nodeid)

    # ---- the session -----------------------------------------------------------------------------

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        """A worker of pytest-xdist has ended."""
        self.add(getattr(node, "workeroutput", {}).get("homefree", ()))

    def pytest_sessionfinish(self, session):
        self.take_outside()
        if self.is_worker:
            self.config.workeroutput["homefree"] = self.found
            return
        self.find_others()
        outside = [one for one in self.found if one["test"] is None and one["verdict"] == "fails"]
        if outside and session.exitstatus in (
            pytest.ExitCode.OK,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        ):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        self.write_files()
        if self.unwritten is not None and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def find_others(self):
        """Other processes: children of tests, and workers that died."""
        if self.directory is None:
            return
        reading = _reports.read(
            [path for path in _reports.files(self.directory) if path not in self.earlier]
        )
        if reading is None:
            return
        self.crossings = reading.crossings
        rest = _findings.subtract(reading.findings, self.found)
        for one in rest:
            if one.pop("processes") != [os.getpid()]:
                one["phase"] = "another process"
        self.add(self.judge(rest))

    def write_files(self):
        option = self.config.option
        try:
            if option.homefree_json:
                _findings.write_document(
                    option.homefree_json,
                    mode=self.mode,
                    findings=self.found,
                    crossings=self.crossings,
                )
            if option.homefree_write_baseline:
                _findings.write_baseline(option.homefree_write_baseline, self.found)
        except OSError as error:  # the summary must not be lost
            self.unwritten = str(error)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self):
        self.log.finished()

    def pytest_report_header(self):
        if not self.is_worker:
            kept = self.config.option.homefree_report
            where = f", report in {kept}" if kept else ""
            return f"homefree {version()}: diagnostics mode, {self.mode}{where}"
        return None

    # ---- the summary -----------------------------------------------------------------------------

    def pytest_terminal_summary(self, terminalreporter):
        write = terminalreporter.write_line
        terminalreporter.section("homefree")
        crossed = f"; {self.crossings} blocks crossed between objects" if self.crossings else ""
        tests = f"{self.tests} test{'s' * (self.tests != 1)}"
        write(f"{'' if self.found else 'nothing found in '}{tests}{crossed}")
        for rule, verdict, count, places in self.table():
            color = {"red": True} if verdict == "fails" else {}
            write(f"{rule}: {_findings.times(count)}, {_TITLES[verdict]}", **color)
            for place in places:
                write(f"  {place}")
        for one in self.found:
            if one["test"] is None and one["verdict"] == "fails":
                write(_findings.text(one), red=True)
        for why, tests in self.unknown.items():
            write(f"whether memory was lost is unknown, because {why}:", yellow=True)
            for test in tests:
                write(f"  {test}")
        if self.unwritten is not None:
            write(f"cannot write: {self.unwritten}", red=True)
        elif self.config.option.homefree_write_baseline:
            write(f"baseline written: {self.config.option.homefree_write_baseline}")
        if self.config.option.homefree_report:
            write(f"`homefree report {self.directory}` shows more")

    def table(self):
        """Rows of (rule, verdict, count, places), the worst first."""
        rows = {}
        for one in _findings.by_severity(self.found):
            row = rows.setdefault((one["rule"], one["verdict"]), [0, []])
            row[0] += one["count"]
            where = one["phase"] or "outside of tests"
            place = f"{one['test']} ({where})" if one["test"] is not None else where
            if place not in row[1]:
                row[1].append(place)
        return [(*key, count, places) for key, (count, places) in rows.items()]
