"""What the scripts of this directory share: outcomes of tests, the differences between a run
without homefree and one with it, the differences that are expected, and the figures at the end.

An outcome is a word (passed, failed, skipped, crashed, ...) for the name of a test; a run is a
dictionary of them. A test that has no outcome in a run is "absent" there.
"""

import argparse
import ctypes
import fnmatch
import json
import os
import re
import signal
import sys
import tempfile
import time
import xml.etree.ElementTree
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import commands  # noqa: E402
import interpreters  # noqa: E402

# What a file of tests contains that has to do with several interpreters in one process.
INTERPRETERS = re.compile(
    r"(?i)subinterp|_interpreters\b|_interpchannels|_interpqueues|_xxinterp|InterpreterPool|"
    r"concurrent\.interpreters|support import interpreters|datetimetester"
)
EXPECTED = HERE / "expected.txt"
# What would change how homefree or Python behaves in the programs that are started.
OURS = ("HOMEFREE_", "PYTHON", "LD_", "MALLOC_", "GLIBC_", "PYTEST_")


HOWS = ("install", "full", "run", "diagnose")
RERUNS = 2  # of the files of a difference
RERUN_SECONDS = 120  # at least, also when the time is over


def cache():
    """The directory for what is fetched and made, which is kept."""
    directory = Path(os.environ.get("HOMEFREE_SUITES") or ROOT / "build" / "suites")
    directory.mkdir(parents=True, exist_ok=True)
    return directory.resolve()


def environment(**more):
    return commands.environment(OURS, **more)


class Clock:
    """The time that a script may take."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def left(self):
        return max(0.0, self.end - time.monotonic())

    def is_over(self):
        return self.left() == 0


def _adopt_orphans():
    """Makes this process the parent of what its children leave behind. regrtest gives its workers
    sessions of their own, so what a worker that timed out has started is in no group of ours."""
    subreaper = 36  # PR_SET_CHILD_SUBREAPER
    ctypes.CDLL(None).prctl(subreaper, 1, 0, 0, 0)


def _end_orphans():
    """Ends the children of this process, and theirs, until there are none."""
    me = os.getpid()
    while children := Path(f"/proc/{me}/task/{me}/children").read_text().split():
        for child in map(int, children):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def run(command, directory, seconds, **variables):
    """Runs a command with everything that it starts; returns its status and output. The status is
    None if it took too long. All of it is dead afterwards."""
    _adopt_orphans()
    try:
        return commands.run(*command, seconds=seconds, cwd=directory, env=environment(**variables))
    finally:
        _end_orphans()


def is_of_interpreters(path):
    """Whether a module or package of tests has to do with several interpreters in one process."""
    files = sorted(path.glob("**/*.py")) if path.is_dir() else [path.with_suffix(".py")]
    return any(INTERPRETERS.search(file.read_text("utf-8", "replace")) for file in files)


def package(build):
    """The directory of homefree's package in a build directory."""
    return Path(build).resolve() / "python"


def prefix(build, how):
    """The command in front of Python for a way that needs one."""
    if how not in ("run", "diagnose"):
        return []
    extra = ["--diagnose=count"] if how == "diagnose" else []
    return [Path(build).resolve() / "loader/command/homefree", "run", *extra, "--"]


def check_present(python, **variables):
    """homefree must be in the processes in which it is meant to be."""
    code = "print(any('libhomefree' in line for line in open('/proc/self/maps')))"
    with tempfile.TemporaryDirectory() as directory:
        _, output = run([*python, "-c", code], directory, 60, **variables)
    if "True" not in output:
        sys.exit(f"homefree is not in the process of {python}: {output}")


def all_pythons(build):
    """The CPythons from 3.9 on, those in debian-cpython.sh's directory too, as {file: "3.x"}. One
    that is free-threaded ("3.xt") counts if the package in the build directory has an extension for
    it."""
    files = [file for file, _ in interpreters.interpreters()]
    files += sorted(interpreters.built().glob("*/bin/python3"))
    found = {}
    for file in dict.fromkeys(file.resolve() for file in files):
        text = interpreters.version(file)
        if not text or interpreters.number(text) < (3, 9):
            continue
        minor = f"{interpreters.number(text)[1]}{'t' if text[-1] == 't' else ''}"
        own = package(build) / "homefree" / f"_homefree.cpython-3{minor}-{os.uname().machine}*.so"
        if text[-1] != "t" or list(own.parent.glob(own.name)):
            found[file] = f"3.{minor}"
    return found


def find_python(versions, build):
    """A CPython of the first of these versions that the machine has."""
    found = {version: file for file, version in all_pythons(build).items()}
    for version in versions:
        if version in found:
            return found[version]
    raise FileNotFoundError(f"no CPython {' or '.join(versions)}")


def case_outcome(case):
    for child in case:
        if child.tag in ("failure", "error"):
            return "failed"
        if child.tag == "skipped":
            return "skipped"
    return "skipped" if case.get("status") == "notrun" else "passed"


def read_junit(file, name_start):
    """{test: outcome}; name_start(case) is what stands in front of a test's name."""
    try:
        tree = xml.etree.ElementTree.parse(file)
    except (OSError, xml.etree.ElementTree.ParseError):
        return {}
    outcomes = {}
    for case in tree.iter("testcase"):
        # Names of subtests have addresses of objects.
        name = re.sub(r"\b0x[0-9a-f]{6,}", "0x", name_start(case) + str(case.get("name")))
        # pytest lists a test again whose teardown fails.
        if outcomes.get(name) != "failed":
            outcomes[name] = case_outcome(case)
    return outcomes


def shard(text):
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError("I/N is wanted, with I from 1 to N")
    return int(match[1]), int(match[2])


def ways(text):
    hows = text.split(",")
    if not set(hows) <= set(HOWS):
        raise argparse.ArgumentTypeError(f"takes {', '.join(HOWS)}")
    return hows


def arguments(usage):
    """The options that the scripts share."""
    # Some tests wait for a SIGINT, which what a shell starts in the background ignores.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    parser = argparse.ArgumentParser(usage=usage)
    parser.add_argument("--shard", type=shard, default=(1, 1))
    parser.add_argument("--how", type=ways, default=["install", "run"])
    parser.add_argument("--only", type=lambda text: text.split(","))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("seconds", nargs="?", type=float, default=1800)
    return parser


class Kept:
    """What groups of files had for outcomes, a line each in a file, so that a run that was stopped
    goes on where it was. Without a file, nothing is kept."""

    def __init__(self, file):
        self.file = file
        lines = file.read_text().splitlines() if file and file.exists() else []
        self.groups = {
            (version, how, *group): outcomes
            for version, how, group, outcomes in map(json.loads, lines)
        }

    def run(self, runner, how, group, clock):
        """The outcomes of a group, which is run if they are not there; None: no time was left."""
        outcomes = self.groups.get((runner.version, how, *group))
        if outcomes is None and not clock.is_over():
            outcomes = runner.run(how, group, clock.left())
            if outcomes is not None and self.file:
                with self.file.open("a") as file:
                    print(json.dumps([runner.version, how, group, outcomes]), file=file)
        return outcomes


def differences(before, after):
    """[(test, outcome without homefree, outcome with it)]"""
    names = sorted({*before, *after})
    pairs = [(name, before.get(name, "absent"), after.get(name, "absent")) for name in names]
    return [pair for pair in pairs if pair[1] != pair[2]]


def files_of(found, group):
    """The files of tests that differ; the whole group if the tests' names do not tell."""
    names = set()
    for test, _, _ in found:
        mine = [f for f in group if re.search(rf"(^|[.(]){re.escape(f)}($|[.) ])", test)]
        names.update(mine or group)
    return sorted(names)


def lasting(runner, how, group, found, seconds):
    """The differences that remain when both sides run again: those with no outcome in common."""
    sides = {None: {}, how: {}}
    for test, before, after in found:
        sides[None][test], sides[how][test] = {before}, {after}
    files = files_of(found, group)
    for _ in range(RERUNS):
        for side, outcomes in sides.items():
            again = runner.run(side, files, seconds) or {}
            for test in outcomes:
                outcomes[test].add(again.get(test, "absent"))
    return [d for d in found if not sides[None][d[0]] & sides[how][d[0]]]


def examine(verdict, runner, options, group_size, seconds):
    """Runs groups of files, each without homefree and then with it, until the time is over.

    runner.run(how, files, seconds) returns {test: outcome}, or None if it took too long; how is
    None for the run without homefree. runner.files() lists the files, runner.check(how) ends the
    script if homefree would not be there, and runner.version names the row.
    """
    clock = Clock(seconds)
    kept = Kept(options.keep)
    hows = options.how
    for how in hows:
        runner.check(how)
    index, shards = options.shard
    files = (options.only or runner.files())[index - 1 :: shards]
    if not files:
        verdict.skip(runner.version, "none of its files is asked for")
        return
    sides = {how: {} for how in (None, *hows)}
    found = {how: [] for how in hows}
    unstable = dict.fromkeys(hows, 0)
    done = 0
    for start in range(0, len(files), group_size):
        group = files[start : start + group_size]
        results = {how: kept.run(runner, how, group, clock) for how in sides}
        if None in results.values():
            break
        done += len(group)
        for how in sides:
            sides[how].update(results[how])
        for how in hows:
            new = differences(results[None], results[how])
            seconds = max(clock.left(), RERUN_SECONDS)
            stay = lasting(runner, how, group, new, seconds) if new else []
            found[how] += stay
            unstable[how] += len(new) - len(stay)
        print(
            f"{runner.version}: {done} of {len(files)} files, {clock.left():.0f} s left", flush=True
        )
    for how in hows:
        name = f"{runner.version} {how} ({done} of {len(files)} files)"
        if done:
            verdict.judge(
                name, how, runner.version, sides[None], sides[how], found[how], unstable[how]
            )
        else:
            verdict.skip(name, "not enough time for a group of files")


class Expected:
    """The rows of expected.txt for one suite, with * in how, version and test."""

    def __init__(self, suite):
        self.rows = []
        for number, line in enumerate(EXPECTED.read_text().splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            fields = [field.strip() for field in line.split("|")]
            if len(fields) != 6 or not all(fields):
                sys.exit(f"{EXPECTED}:{number}: six fields are wanted")
            if fields[0] == suite:
                self.rows.append(fields[1:])

    def find(self, how, version, difference):
        """The row for a difference, or None."""
        name, before, after = difference
        for row in self.rows:
            if (
                fnmatch.fnmatchcase(how, row[0])
                and fnmatch.fnmatchcase(version, row[1])
                and fnmatch.fnmatchcase(name, row[2])
                and row[3] == f"{before} > {after}"
            ):
                return row
        return None

    def outlived(self, how, version, before, found):
        """The rows whose tests did run here, and of which none made a difference."""
        return [
            row
            for row in self.rows
            if row not in found
            and fnmatch.fnmatchcase(how, row[0])
            and fnmatch.fnmatchcase(version, row[1])
            and any(fnmatch.fnmatchcase(name, row[2]) for name in before)
        ]


class Verdict:
    """Collects what is shown at the end, and the script's exit status."""

    def __init__(self, suite):
        self.suite = suite
        self.expected = Expected(suite)
        self.lines = []
        self.failed = False

    def judge(self, name, how, version, before, after, found, unstable=0):
        """Prints the lasting differences between two runs, and keeps the figures."""
        rows, unexplained = [], 0
        for difference in sorted(found):
            row = self.expected.find(how, version, difference)
            rows.append(row)
            unexplained += row is None
            why = row[4] if row else "NOT EXPLAINED"
            print(f"{how}: {difference[0]}: {difference[1]} > {difference[2]}: {why}")
        outlived = self.expected.outlived(how, version, before, rows)
        for row in outlived:
            print(f"{how}: {row[2]}: made no difference, though expected.txt says {row[3]}")
        words = list(after.values())
        figure = (
            f"{len(words)} tests: {words.count('passed')} passed, "
            f"{words.count('failed') + words.count('crashed')} failed, "
            f"{words.count('skipped')} skipped; without homefree "
            f"{list(before.values()).count('passed')} passed; "
            f"{len(found)} differ, {unexplained} not explained"
        )
        if "timed-out" in words:
            figure += f"; {words.count('timed-out')} took too long"
        if unstable:
            figure += f"; {unstable} change from run to run"
        good = not unexplained and not outlived and "passed" in words
        self.row(name, figure, "passed" if good else "failed")

    def row(self, name, figure, outcome):
        """One line of the table; outcome: passed, failed, or `skipped: why`."""
        self.failed |= outcome == "failed"
        self.lines.append((f"{self.suite} {name}".strip(), figure, outcome))

    def skip(self, name, why):
        self.row(name, "", f"skipped: {why}")

    def finish(self):
        print()
        for line in self.lines:
            print("{}: {}: {}".format(*line))
        rows = os.environ.get("HOMEFREE_LONG_ROWS")
        if rows:
            with open(rows, "a") as file:
                file.writelines("\t".join(line) + "\n" for line in self.lines)
        return 1 if self.failed or not self.lines else 0
