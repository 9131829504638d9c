#!/usr/bin/env python3
"""CPython's own regression tests, without and with homefree: the same tests must pass.

    cpython.sh [--python FILE]... [--shard I/N] [--how HOW,...] [--only NAME,...] [--interpreters]
               [--jobs N] [--build DIRECTORY] [--keep FILE] [SECONDS]

HOW is `install` (homefree.install() in each process, by a .pth file of a virtual environment),
`full` (install(python="full")), `run` (`homefree run`) or `diagnose` (`homefree run --diagnose`);
install and run unless said otherwise. Without --python, every CPython from 3.9 on is tested; they
share the time. With --interpreters, it is those from 3.12 on, and only the files that have to do
with several interpreters in one process.

The files are run in groups, each group without homefree and then with it, until the time is over. A
test that differs is run twice more on both sides, and counts only if no outcome is common to both.
expected.txt explains the differences that remain.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import suites
from suites import interpreters

GROUP = 12
FILE_SECONDS = 900  # on a busy machine
# These wait more than they work: they come last, so that a short run does more.
SLOW = re.compile(
    r"test_(asyncio|multiprocessing|concurrent_futures|tools|peg_generator|regrtest|gdb|venv|idle|"
    r"ensurepip|compileall|socket|signal|ssl|poplib|ftplib|imaplib|nntplib|logging|"
    r"threading|subprocess|pydoc|distutils|lib2to3|capi|embed|faulthandler|io|cmd_line|zipfile|"
    r"tarfile|test_lzma|decimal|tokenize|unparse|selectors|queue|smtplib|shelve|dbm|interpreters)"
)
LINE = re.compile(r"^\S+ (?:load avg: \S+ )?\[ *\d+/\d+(?:/\d+)?\] (\S+) (.+)$")
CALLS = {"install": "homefree.install()", "full": 'homefree.install(python="full")'}


def file_outcome(text):
    """One word for what regrtest says of a file."""
    for word in ("crashed", "timed out", "skipped", "env changed", "failed", "passed"):
        if word in text.split(" -- ")[0]:
            return word.replace(" ", "-")
    return "no-tests" if "no tests" in text else text.split()[0]


class Python:
    """One CPython with its tests, and virtual environments of it: one for each way."""

    def __init__(self, options, file):
        self.options = options
        self.file = Path(file)
        self.version = interpreters.version(self.file)
        if self.version is None:
            raise FileNotFoundError("no CPython from 3.9 on")
        self.library = None
        home = self.ask(
            self.file,
            "import importlib.util, sysconfig, pathlib as p;"
            "print(p.Path(sysconfig.get_path('stdlib')) / 'test/test_dict.py')",
        )
        if not Path(home).exists():
            self.library = self.fetched(home)
        self.tests = self.library / "test" if self.library else Path(home).parent

    def ask(self, python, code):
        return subprocess.run(
            [str(python), "-c", code],
            capture_output=True, text=True, check=True, timeout=60,
            env=suites.environment(),
        ).stdout.strip()  # fmt: skip

    def fetched(self, installed):
        """Debian's separate package of tests, unpacked: installing it might upgrade Python."""
        name = f"libpython3.{interpreters.number(self.version)[1]}-testsuite"
        directory = suites.cache() / name
        library = directory / "library"
        if not library.exists():
            directory.mkdir(parents=True, exist_ok=True)
            subprocess.run(
                ["apt-get", "-qq", "download", name], cwd=directory, check=True, timeout=300
            )
            for package in directory.glob("*.deb"):
                subprocess.run(["dpkg", "-x", package, directory], check=True, timeout=300)
            # The package holds the tests alone, and Python the machinery that runs them.
            shutil.copytree(Path(installed).parent, library / "test")
            unpacked = next(directory.glob("usr/lib/python3*")) / "test"
            shutil.copytree(unpacked, library / "test", symlinks=True, dirs_exist_ok=True)
        return library

    def environment(self, how):
        """The interpreter of the virtual environment for a way."""
        directory = suites.cache() / f"cpython-{self.version}-{'plain' if how is None else how}"
        python = directory / "bin" / "python"
        if not python.exists():
            subprocess.run(
                [str(self.file), "-m", "venv", "--without-pip", str(directory)],
                check=True, timeout=120, env=suites.environment(),
            )  # fmt: skip
        packages = next(directory.glob("lib/python3*/site-packages"))
        lines = []
        if self.library:  # regrtest's workers ignore PYTHONPATH
            lines.append(f"import sys; sys.path.insert(0, {str(self.library)!r})")
        if how in CALLS:
            lines += [suites.package(self.options.build), f"import homefree; {CALLS[how]}"]
        (packages / "homefree_suite.pth").write_text("".join(f"{line}\n" for line in lines))
        return python

    def command(self, how):
        python = self.environment(how if how in CALLS else None)
        return [*suites.prefix(self.options.build, how), python]

    def check(self, how):
        suites.check_present(self.command(how))

    def files(self):
        with tempfile.TemporaryDirectory() as directory:
            status, output = suites.run(
                [*self.command(None), "-m", "test", "--list-tests"],
                directory, 120,
            )  # fmt: skip
        names = [line for line in output.splitlines() if re.fullmatch(r"[\w.]+", line)]
        if status != 0 or not names:
            sys.exit(f"{self.file} does not list its tests: {output[-500:]}")
        if self.options.interpreters:
            names = [name for name in names if suites.is_of_interpreters(self.path_of(name))]
        return sorted(names, key=lambda name: (bool(SLOW.search(name)), name))

    def path_of(self, name):
        return self.tests / name.removeprefix("test.").replace(".", "/")

    def run(self, how, files, seconds):
        """{test: outcome} of some files; None if there was not enough time."""
        with tempfile.TemporaryDirectory(prefix="cpython-") as directory:
            xml_file = Path(directory) / "results.xml"
            status, output = suites.run(
                [*self.command(how), "-m", "test", f"-j{self.options.jobs}"]
                + [f"--timeout={FILE_SECONDS}", f"--junit-xml={xml_file}", f"--tempdir={directory}"]
                + files,
                directory, seconds,
            )  # fmt: skip
            if status is None:
                return None
            outcomes = {}
            for line in output.splitlines():
                match = LINE.match(line)
                if match and match[1] in files:
                    outcomes[match[1]] = file_outcome(match[2])
            if not outcomes:
                sys.exit(f"{how}: regrtest said nothing of its files: {output[-2000:]}")
            if self.options.verbose:
                print(output)
            outcomes.update(suites.read_junit(xml_file, lambda case: ""))
            return outcomes


def main():
    parser = suites.arguments(__doc__)
    parser.add_argument("--python", action="append")
    parser.add_argument("--interpreters", action="store_true")
    options = parser.parse_args()
    verdict = suites.Verdict("cpython")
    oldest = (3, 12) if options.interpreters else (3, 9)
    pythons = options.python or [
        file
        for file, version in suites.all_pythons(options.build).items()
        if interpreters.number(version) >= oldest
    ]
    clock = suites.Clock(options.seconds)
    for number, file in enumerate(pythons):
        try:
            python = Python(options, file)
        except (OSError, subprocess.SubprocessError) as error:
            verdict.skip(str(file), error)
            continue
        suites.examine(verdict, python, options, GROUP, clock.left() / (len(pythons) - number))
    return verdict.finish()


if __name__ == "__main__":
    sys.exit(main())
