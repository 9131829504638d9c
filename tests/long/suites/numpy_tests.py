#!/usr/bin/env python3
"""NumPy's own tests, without and with homefree: the same tests must pass.

    numpy.sh [--numpy 1.26|2|2t|debian]... [--shard I/N] [--how HOW,...] [--only MODULE,...]
             [--interpreters] [--jobs N] [--build DIRECTORY] [--keep FILE] [SECONDS]

HOW is `install` (homefree.install() in each process, by a .pth file), `full`
(install(python="full")), `run` (`homefree run`) or `diagnose` (`homefree run --diagnose`); install
and run unless said otherwise. Without --numpy, the wheels of 1.26 and of the newest 2.x are tested,
the latter also in a free-threaded CPython (2t), and the NumPy of the system's Python if it has one;
they share the time. With --interpreters, only the modules run that have to do with several
interpreters in one process.

The modules of tests are run in groups, each without homefree and then with it, until the time is
over; what NumPy marks as slow is left out. A test that differs is run twice more on both sides, and
counts only if no outcome is common to both. expected.txt explains the differences that remain.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import suites

GROUP = 10
# The newest CPython that has a wheel of it.
PYTHONS = {
    "1.26": ["3.12", "3.11", "3.10", "3.9"],
    "2": ["3.14", "3.13", "3.12", "3.11"],
    "2t": ["3.14t", "3.13t"],
}
PACKAGES = ["pytest<9", "pytest-xdist", "hypothesis", "typing_extensions"]
# f2py's tests compile Fortran, and distutils' the world.
LEFT_OUT = (".f2py.", ".distutils.", ".typing.", "test_mypy", "test_cython", "test_limited_api")
CALLS = {"install": "", "full": 'python="full"'}


class NumPy:
    """A virtual environment with one NumPy."""

    def __init__(self, options, wanted):
        self.options = options
        directory = suites.cache() / f"numpy-{wanted}"
        self.python = directory / "bin/python"
        if not (directory / "ready").exists():
            self.make(directory, wanted)
        packages = next(directory.glob("lib/python3*/site-packages"))
        lines = [suites.package(options.build)]
        for how, arguments in CALLS.items():
            lines.append(
                f'import os; os.environ.get("SUITE_INSTALL") == "{how}" and '
                f'__import__("homefree").install({arguments})'
            )
        (packages / "homefree_suite.pth").write_text("".join(f"{line}\n" for line in lines))
        code = "import numpy, sys;print(numpy.__version__, sys.version.split()[0] + sys.abiflags)"
        done = subprocess.run(
            [self.python, "-c", code],
            capture_output=True, text=True, check=True, timeout=60, env=suites.environment(),
        )  # fmt: skip
        self.version = "{} on {}".format(*done.stdout.split())

    def make(self, directory, wanted):
        if wanted == "debian":
            python, option, package = Path("/usr/bin/python3"), "--system-site-packages", []
        else:
            python = suites.find_python(PYTHONS[wanted], self.options.build)
            option, package = "--clear", [f"numpy=={wanted.rstrip('t')}.*"]
        subprocess.run(
            [python, "-m", "venv", "--without-pip", option, directory],
            check=True, timeout=120, env=suites.environment(),
        )  # fmt: skip
        # Those that debian-cpython.sh builds have no pip to give.
        subprocess.run(
            [sys.executable, "-m", "pip", "--python", self.python, "install", "-q"]
            + ["--ignore-installed", "pip"],
            check=True, timeout=600, env=suites.environment(),
        )  # fmt: skip
        subprocess.run(
            [self.python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
            + ["--only-binary=:all:", *package, *PACKAGES],
            check=True, timeout=600, env=suites.environment(),
        )  # fmt: skip
        (directory / "ready").touch()

    def command(self, how):
        return [*suites.prefix(self.options.build, how), self.python]

    def variables(self, how):
        return {"SUITE_INSTALL": how, "OPENBLAS_NUM_THREADS": "1"} if how in CALLS else {}

    def check(self, how):
        suites.check_present(self.command(how), **self.variables(how))

    def files(self):
        """The modules of tests, by their names."""
        code = "import numpy; print(numpy.__path__[0])"
        done = subprocess.run(
            [self.python, "-c", code],
            capture_output=True, text=True, check=True, timeout=60, env=suites.environment(),
        )  # fmt: skip
        root = Path(done.stdout.strip())
        names = [
            ".".join(file.relative_to(root.parent).with_suffix("").parts)
            for file in sorted(root.glob("**/tests/test_*.py"))
            if not self.options.interpreters or suites.is_of_interpreters(file)
        ]
        return [name for name in names if not any(part in name for part in LEFT_OUT)]

    def run(self, how, files, seconds):
        """{test: outcome} of some modules; None if there was not enough time."""
        with tempfile.TemporaryDirectory(prefix="numpy-") as directory:
            xml_file = Path(directory) / "results.xml"
            status, output = suites.run(
                [*self.command(how), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
                + [f"-n{self.options.jobs}", "-m", "not slow", f"--basetemp={directory}/tests"]
                + [f"--junitxml={xml_file}", "--pyargs", *files],
                directory, seconds, **self.variables(how),
            )  # fmt: skip
            if self.options.verbose:
                print(output)
            if status is None:
                return None
            outcomes = suites.read_junit(xml_file, lambda case: f"{case.get('classname')}::")
        if not outcomes:
            sys.exit(f"{how}: pytest said nothing of {files}: {output[-2000:]}")
        # 5: no tests, for example because all of them are slow.
        outcomes["pytest " + " ".join(files[:1])] = "passed" if status in (0, 1, 5) else "crashed"
        return outcomes


def main():
    parser = suites.arguments(__doc__)
    parser.add_argument("--numpy", action="append", choices=["1.26", "2", "2t", "debian"])
    parser.add_argument("--interpreters", action="store_true")
    options = parser.parse_args()
    verdict = suites.Verdict("numpy")
    clock = suites.Clock(options.seconds)
    wanted = options.numpy or ["1.26", "2", "2t", "debian"]
    for number, name in enumerate(wanted):
        try:
            numpy = NumPy(options, name)
        except (OSError, subprocess.SubprocessError) as error:
            verdict.skip(name, error)
            continue
        suites.examine(verdict, numpy, options, GROUP, clock.left() / (len(wanted) - number))
    return verdict.finish()


if __name__ == "__main__":
    sys.exit(main())
