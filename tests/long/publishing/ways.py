#!/usr/bin/env python3
"""The ways to install homefree and a module that is linked with it: the guide's table, row by row.

usage: ways.py [OPTION]… [ROW…]

  --python PYTHON   the CPython to install for (this one)
  --wheel FILE      homefree's wheel (the one in build/dist, which tests/run makes)
  --work DIRECTORY     where tools and what was built are kept (build/long/publishing)
  --seconds N       no row is begun after that; which come first is drawn at random then
  --write           writes the outcome into examples/guides/publishing.md
  ROW               words of the rows to try, all by default

Each row makes an installation of its own and runs probe.py in it, a process for each column:

  import     import homefree; homefree.install()
  module     the module by itself, with blocks that cross to libc and back
  command    homefree inspect, homefree run
  load       homefree.extension.load()

Where the module does not find the heap by itself, its import must say what to do, and must work
after that. uv, PyInstaller, shiv and pex come from the package index, once. Fails where an outcome
is not what the guide says. Exit status: 0 as it says, 1 otherwise, 2 for wrong usage, 77 something
is missing here.
"""

import argparse
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
GUIDE = ROOT / "examples/guides/publishing.md"
sys.path.insert(0, str(ROOT / "tests/support"))
import commands  # noqa: E402
import rows  # noqa: E402
from built_wheel import built_wheel  # noqa: E402

TOOLS = ("uv", "pyinstaller", "shiv", "pex", "setuptools", "wheel")
MESON_PROJECT = """
[build-system]
requires = ["homefree", "meson-python", "pkgconf < 2.5"]
build-backend = "mesonpy"
[project]
name = "way"
version = "1.0"
dependencies = ["homefree"]
"""
MESON_BUILD = """
project('way', 'c')
python = import('python').find_installation(pure: false)
python.install_sources('way/__init__.py', subdir: 'way')
python.extension_module(
  'greet',
  'way/greet.c',
  c_args: '-DHOMEFREE_MODULE_NAME=greet',
  dependencies: dependency('homefree-module'),
  install: true,
  subdir: 'way',
)
"""
# Without site, its directory must be added by hand.
SITE = """
import glob, os, runpy, sys
prefix = os.path.dirname(os.path.dirname(sys.executable))
sys.path += glob.glob(prefix + "/lib/python3*/site-packages")
runpy.run_path({probe!r}, run_name="__main__")
""".format(probe=str(HERE / "probe.py"))
HEAD = "| installed with | `install()` | a module | `homefree …` | `extension.load()` |"
AFTER = "after `import homefree`"
REMEDY = "this module needs homefree: import homefree before it"
WAYS = {}


def way(name):
    """A row of the table: a function that installs and returns a Place."""

    def keep(function):
        WAYS[name] = function
        return function

    return keep


class Failed(Exception):
    """One line."""


def run(*command, cwd=None, **environment):
    status, output = commands.run(
        *command, seconds=500, cwd=cwd, env=commands.environment(**environment)
    )
    if status != 0:
        raise Failed(f"{command[0]}: " + "\n".join(output.strip().splitlines()[-15:]))
    return output


class Place:
    """An installation: how its interpreter and its command are started."""

    def __init__(
        self, python, command=None, cwd=None, probe=True, read_only=None, silent=None, **environment
    ):
        self.python = [str(word) for word in python] if isinstance(python, list) else [str(python)]
        self.command = command
        self.cwd = cwd
        self.environment = environment
        self.probe = [str(HERE / "probe.py")] if probe else []
        self.read_only = read_only
        # What the module's import says where it has no stub.
        self.silent = silent or REMEDY


class Maker:
    """What the ways share: tools, wheels, directories."""

    def __init__(self, options):
        self.python = options.python
        self.work = options.work
        self.work.mkdir(parents=True, exist_ok=True)
        self.homefree = options.wheel
        self.tools = self.work / "tools"
        if not (self.tools / "ready").exists():
            print("fetching uv, PyInstaller, shiv, pex …", flush=True)
            run(self.python, "-m", "venv", self.tools)
            run(self.tools / "bin/pip", "install", "-q", *TOOLS)
            (self.tools / "ready").touch()
        self.home = self.work / "home"
        self.cache = self.work / "cache"
        self.wheels = self.work / "wheels"
        shutil.rmtree(self.wheels, ignore_errors=True)
        self.wheels.mkdir()
        shutil.copy2(self.homefree, self.wheels)
        self.module = self._build()

    def tool(self, name):
        return self.tools / "bin" / name

    def _build(self):
        """The module's wheel, as an isolated build makes it."""
        source = self.work / "source"
        shutil.rmtree(source, ignore_errors=True)
        shutil.copytree(HERE / "module", source)
        run(
            *(self.tool("pip"), "wheel", "-q", "--no-deps", "--find-links", self.wheels),
            *("-w", self.wheels, source),
        )
        (wheel,) = self.wheels.glob("way-*.whl")
        return wheel

    def directory(self):
        """A new directory, until clean()."""
        return pathlib.Path(tempfile.mkdtemp(prefix="way-", dir=self.work))

    def clean(self):
        for directory in self.work.glob("way-*"):
            shutil.rmtree(directory)

    def environment(self, directory, *options, python=None):
        run(python or self.python, "-m", "venv", *options, directory)
        return directory / "bin/python"

    def install(self, python, *what, options=(), isolated=True, **environment):
        words = [self.tool("pip"), "--python", python, "install", "-q", "--no-deps"]
        words += ["--find-links", self.wheels]
        if isolated:
            words += ["--no-index", "--break-system-packages"]
        run(*words, *options, *what, **environment)

    def fetch(self, python, *what):
        run(self.tool("pip"), "--python", python, "install", "-q", *what)

    def share_tools(self, python):
        """Lets an environment import the tools."""
        (shared,) = self.tools.glob("lib/python3*/site-packages")
        (site,) = python.parents[1].glob("lib/python3*/site-packages")
        (site / "tools.pth").write_text(f"{shared}\n")

    def system(self, *wheels):
        """A CPython with a site of its own, outside of any virtual environment: a copy of this one,
        whose site has these wheels."""
        directory = self.work / (
            "system-" + "-".join(each.name.partition("-")[0] for each in wheels)
        )
        version = "python3.{}".format(
            run(self.python, "-c", "import sys; print(sys.version_info[1])").strip()
        )
        python = directory / "bin" / version
        if not (directory / "ready").exists():
            shutil.rmtree(directory, ignore_errors=True)
            ask = "import sys; print(sys.base_prefix, sys._base_executable)"
            prefix, executable = run(self.python, "-c", ask).split()
            without = shutil.ignore_patterns(
                "test",
                "tests",
                "idlelib",
                "config-*",
                "site-packages",
                "dist-packages",
                "__pycache__",
            )
            shutil.copytree(f"{prefix}/lib/{version}", directory / "lib" / version, ignore=without)
            (directory / "lib" / version / "site-packages").mkdir()
            for library in pathlib.Path(prefix, "lib").glob("libpython3*.so*"):
                shutil.copy2(library, directory / "lib", follow_symlinks=False)
            for headers in pathlib.Path(prefix, "include").glob(version + "*"):
                shutil.copytree(headers, directory / "include" / headers.name)
            python.parent.mkdir()
            shutil.copy2(os.path.realpath(executable), python)
            if wheels:
                self.install(python, *wheels)
            (directory / "ready").touch()
        return python

    def both(self, python, options=()):
        self.install(python, self.homefree, self.module, options=options)


# ---- the ways ----


@way("`pip install`, virtual environment")
def _(make):
    directory = make.directory()
    python = make.environment(directory)
    make.both(python)
    return Place(python, [directory / "bin/homefree"])


@way("`uv venv`, `uv pip install`")
def _(make):
    """With all modes of linking: the default is one of them."""
    for mode in "hardlink", "symlink", "clone", "copy":
        directory = make.directory()
        run(
            make.tool("uv"),
            "venv",
            "-q",
            "--python",
            make.python,
            directory,
            UV_CACHE_DIR=make.cache,
        )
        run(
            *(
                make.tool("uv"),
                "pip",
                "install",
                "-q",
                "--no-index",
                "--no-deps",
                "--link-mode",
                mode,
            ),
            *("--python", directory / "bin/python", make.homefree, make.module),
            UV_CACHE_DIR=make.cache,
        )
        yield Place(directory / "bin/python", [directory / "bin/homefree"])


@way("`uv run` in a project")
def _(make):
    directory = make.directory()
    (directory / "pyproject.toml").write_text(
        '[project]\nname = "app"\nversion = "1"\nrequires-python = ">=3.9"\n'
        'dependencies = ["homefree", "way"]\n'
    )
    uv = [make.tool("uv"), "run", "-q", "--no-index", "--find-links", make.wheels]
    uv += ["--python", make.python, "--project", directory]
    places = {"UV_CACHE_DIR": make.cache, "UV_PROJECT_ENVIRONMENT": directory / "e"}
    return Place([*uv, "python"], [*uv, "homefree"], **places)


@way("`pip install`, system's site")
def _(make):
    system = make.system(make.homefree, make.module)
    return Place(system, [system.parent / "homefree"])


@way("the same, seen from `venv --system-site-packages`")
def _(make):
    system = make.system(make.homefree, make.module)
    python = make.environment(
        make.directory(), "--system-site-packages", "--without-pip", python=system
    )
    return Place(python, [python, "-m", "homefree"])


@way("`pip install --user`")
def _(make):
    directory = make.directory()
    make.install(
        make.system(), make.homefree, make.module, options=["--user"], PYTHONUSERBASE=directory
    )
    return Place(make.system(), [directory / "bin/homefree"], PYTHONUSERBASE=directory)


@way("`pip install --target DIR`, `PYTHONPATH=DIR`")
def _(make):
    directory = make.directory()
    make.both(make.python, ["--target", directory])
    return Place(make.python, [make.python, "-m", "homefree"], PYTHONPATH=directory)


@way("homefree in the system's site, the module in `venv --system-site-packages`")
def _(make):
    system = make.system(make.homefree)
    python = make.environment(
        make.directory(), "--system-site-packages", "--without-pip", python=system
    )
    make.install(python, make.module)
    return Place(python, [system.parent / "homefree"])


@way("homefree in the system's site, the module in the user's")
def _(make):
    directory = make.directory()
    system = make.system(make.homefree)
    make.install(system, make.module, options=["--user"], PYTHONUSERBASE=directory)
    return Place(system, [system.parent / "homefree"], PYTHONUSERBASE=directory)


@way("two directories on `PYTHONPATH`")
def _(make):
    directory = make.directory()
    make.install(make.python, make.homefree, options=["--target", directory / "one"])
    make.install(make.python, make.module, options=["--target", directory / "two"])
    both = f"{directory}/two:{directory}/one"
    return Place(make.python, [make.python, "-m", "homefree"], PYTHONPATH=both)


@way("the module with `pip install -e`, setuptools")
def _(make):
    directory = make.directory()
    python = make.environment(directory / "e")
    make.install(python, make.homefree)
    source = shutil.copytree(HERE / "module", directory / "source")
    make.install(python, source, options=["-e"], isolated=False)
    return Place(python, [directory / "e/bin/homefree"])


@way("the module with `pip install -e --no-build-isolation`, meson-python")
def _(make):
    directory = make.directory()
    python = make.environment(directory / "e")
    make.fetch(python, "meson-python", "ninja", "pkgconf < 2.5")
    make.install(python, make.homefree)
    source = directory / "source"
    shutil.copytree(HERE / "module/way", source / "way")
    (source / "pyproject.toml").write_text(MESON_PROJECT)
    (source / "meson.build").write_text(MESON_BUILD)
    path = f"{directory}/e/bin:{os.environ['PATH']}"
    make.install(python, source, options=["--no-build-isolation", "-e"], isolated=False, PATH=path)
    silent = "libhomefree.so.1: cannot open shared object file"
    return Place(python, [directory / "e/bin/homefree"], PATH=path, silent=silent)


@way("homefree with `pip install -e --no-build-isolation`")
def _(make):
    """From a copy of the tree: building writes into it."""
    directory = make.directory()
    python = make.environment(directory / "e")
    make.fetch(python, "meson-python", "meson", "ninja")
    source = make.work / "homefree"
    source.mkdir(exist_ok=True)
    tree = subprocess.run(["git", "-C", ROOT, "archive", "HEAD"], capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", source], input=tree.stdout, check=True)
    archives = ROOT / "subprojects/packagecache"
    if archives.is_dir():
        shutil.copytree(archives, source / "subprojects/packagecache", dirs_exist_ok=True)
    path = f"{directory}/e/bin:{os.environ['PATH']}"
    options = ["--no-build-isolation", f"-Csetup-args=-Djemalloc_build={ROOT}/build", "-e"]
    make.install(python, source, options=options, isolated=False, PATH=path)
    make.install(python, make.module)
    return Place(python, [directory / "e/bin/homefree"], PATH=path)


@way("read-only site-packages, no home directory")
def _(make):
    directory = make.directory()
    python = make.environment(directory / "e")
    make.both(python)
    return Place(
        python, [directory / "e/bin/homefree"], read_only=directory / "e", HOME=directory / "e"
    )


@way("a virtual environment that was moved")
def _(make):
    directory = make.directory()
    make.both(make.environment(directory / "before"))
    (directory / "before").rename(directory / "after")
    python = directory / "after/bin/python"
    return Place(python, [directory / "after/bin/homefree"])


@way("a link to a virtual environment, to its Python, and from another directory")
def _(make):
    directory = make.directory()
    python = make.environment(directory / "e")
    make.both(python)
    (directory / "link").symlink_to(directory / "e")
    yield Place(directory / "link/bin/python", [directory / "link/bin/homefree"])
    (directory / "e/bin/again").symlink_to("python")
    yield Place(directory / "e/bin/again", [directory / "e/bin/homefree"])
    yield Place("e/bin/python", [directory / "e/bin/../bin/homefree"], cwd=directory)


@way("`python -I`, `-P`, `-s -E`, `PYTHONSAFEPATH`")
def _(make):
    directory = make.directory()
    python = make.environment(directory)
    make.both(python)
    for words in (["-I"], ["-s", "-E"], ["-S", "-c", SITE], ["-P"]):
        version = run(python, "-c", "import sys; print(sys.version_info >= (3, 11))").strip()
        if "-P" not in words or version == "True":
            yield Place([python, *words], [directory / "bin/homefree"], probe="-c" not in words)
    yield Place(python, [directory / "bin/homefree"], PYTHONSAFEPATH="1")


def pyinstaller(make, *options):
    directory = make.directory()
    python = make.environment(directory / "e", python=make.tool("python"))
    make.share_tools(python)
    make.both(python)
    run(
        *(python, "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN", *options),
        *("--distpath", directory / "dist", "--workpath", directory / "b", "--specpath", directory),
        HERE / "probe.py",
        PYINSTALLER_CONFIG_DIR=make.cache / "pyinstaller",
    )
    shutil.rmtree(directory / "e")
    return directory / "dist/probe"


@way("PyInstaller, one directory")
def _(make):
    return Place(pyinstaller(make) / "probe", probe=False)


@way("PyInstaller, one file")
def _(make):
    return Place(pyinstaller(make, "--onefile"), probe=False)


@way("`python -m zipapp`")
def _(make):
    directory = make.directory()
    make.install(make.python, make.homefree, make.module, options=["--target", directory / "app"])
    shutil.copy2(HERE / "probe.py", directory / "app/__main__.py")
    run(make.python, "-m", "zipapp", directory / "app", "-o", directory / "app.pyz")
    return Place([make.python, directory / "app.pyz"], [make.python, "-m", "homefree"], probe=False)


@way("shiv")
def _(make):
    directory = make.directory()
    run(
        *(make.tool("shiv"), "-q", "--no-index", "--find-links", make.wheels, "-p", make.python),
        *("-o", directory / "app.pyz", "homefree", "way"),
    )
    app = {"SHIV_ROOT": directory / "unpacked"}
    python = [make.python, directory / "app.pyz"]
    return Place(python, [*python, "-m", "homefree"], **app)


@way("pex, also `--venv`")
def _(make):
    for options in ([], ["--venv"]):
        yield pex(make, *options)


@way("`pex --venv --venv-site-packages-copies`")
def _(make):
    return pex(make, "--venv", "--venv-site-packages-copies")


def pex(make, *options):
    directory = make.directory()
    run(
        *(make.tool("pex"), "--no-index", "--find-links", make.wheels, *options),
        *("--python", make.python, "-o", directory / "app.pex", "homefree", "way"),
        PEX_ROOT=make.cache / "pex",
    )
    python = [make.python, directory / "app.pex"]
    return Place(python, [*python, "-m", "homefree"], PEX_ROOT=make.cache / "pex")


# ---- trying ----


def probe(place, check, directory, command=None, **more):
    """Result: the last line of what a process said that did one check; "ok" where all is well."""
    environment = commands.environment(
        **{
            "HOMEFREE_PROBE_PYTHON": "\n".join(place.python),
            "HOMEFREE_PROBE_COMMAND": "\n".join(map(str, command or place.command or ())),
            "HOME": directory / "home",
            "XDG_CACHE_HOME": "",
            **more,
            **place.environment,
        }
    )
    words = [*place.python, *place.probe, check]
    if place.read_only and os.getuid() == 0:
        # Permissions do not stop root.
        script = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" "$0" && exec "$@"'
        words = ["unshare", "--mount", "sh", "-c", script, str(place.read_only), *words]
    elif place.read_only:
        run("chmod", "-R", "a-w", place.read_only)
    done = subprocess.run(
        words,
        cwd=place.cwd or directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    if place.read_only:
        run("chmod", "-R", "u+w", place.read_only)
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    # PyInstaller's last line is its own.
    lines = [line for line in lines if "Failed to execute script" not in line] or ["no output"]
    return "ok" if done.returncode == 0 and lines[-1] == "ok" else lines[-1]


def cells(place, directory):
    """What the table says about an installation: a cell for each column. Anything that is not one
    of the words below is what went wrong."""
    said = probe(place, "package", directory)
    if "is an archive, from which Python cannot import" in said:
        return ["no"] * 4
    found = ["yes" if said == "ok" else said]

    said = probe(place, "module", directory)
    if said != "ok" and (REMEDY in said or place.silent in said):
        after = probe(place, "after", directory)
        said = "ok" if after == "ok" else after
        found.append(AFTER if after == "ok" else after)
    else:
        found.append("yes" if said == "ok" else said)

    if not place.command:
        return [*found, "no", "no"]
    said = probe(place, "command", directory)
    if "No such file or directory" in said:
        again = probe(place, "command", directory, command=[*place.python, "-m", "homefree"])
        found.append("`python -m homefree`" if again == "ok" else again)
    else:
        found.append("yes" if said == "ok" else said)

    said = probe(place, "load", directory)
    if "HOMEFREE_BUILD_DIR" in said:
        again = probe(place, "load", directory, HOMEFREE_BUILD_DIR=directory / "compiled")
        found.append("with `HOMEFREE_BUILD_DIR`" if again == "ok" else again)
    else:
        found.append("yes" if said == "ok" else said)
    return found


def table(guide):
    """The guide's table: where it begins and ends, and its rows by their first cell."""
    start = guide.index(HEAD)
    end = guide.index("\n\n", start) + 1
    lines = guide[start:end].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return start, end, {row[0]: row[1:] for row in rows}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--wheel", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/long/publishing")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    options.wheel = options.wheel or built_wheel()
    if options.wheel is None:
        return 77
    try:
        make = Maker(options)
    except Failed as error:
        print(f"cannot prepare: {error}")
        return 77
    guide = GUIDE.read_text()
    start, end, promised = table(guide)
    unknown = set(promised) ^ set(WAYS)
    if unknown and not options.write:
        print(f"the guide's table and this program differ in: {', '.join(sorted(unknown))}")
        return 1
    wrong = tried = 0
    ways = list(WAYS.items())
    if options.seconds is not None:
        random.shuffle(ways)
    began = time.monotonic()
    for name, function in ways:
        if options.words and not any(word in name for word in options.words):
            continue
        if options.seconds is not None and time.monotonic() - began > options.seconds:
            break
        outcomes = set()
        try:
            places = function(make)
            for place in [places] if isinstance(places, Place) else places:
                with tempfile.TemporaryDirectory(dir=make.work) as directory:
                    outcomes.add(tuple(cells(place, pathlib.Path(directory))))
        except (Failed, subprocess.TimeoutExpired) as error:
            outcomes.add((str(error),))
        finally:
            make.clean()
        tried += 1
        outcome = list(outcomes.pop()) if len(outcomes) == 1 else [f"they differ: {outcomes}"]
        good = outcome == promised.get(name) or (options.write and len(outcome) == 4)
        wrong += not good
        print(f"{name}: {' | '.join(outcome)}", flush=True)
        if not good:
            print(
                f"    but the guide has: {' | '.join(promised.get(name, ['nothing']))}", flush=True
            )
        promised[name] = outcome
    rows.row(
        "ways to install",
        f"{tried} ways, {wrong} not as the guide says",
        "failed" if wrong else "passed",
    )
    if options.write:
        lines = [HEAD, "|---|---|---|---|---|"]
        lines += [f"| {name} | {' | '.join(promised[name])} |" for name in WAYS if name in promised]
        GUIDE.write_text(guide[:start] + "\n".join(lines) + "\n" + guide[end:])
    print(f"{tried} ways, {wrong} not as the guide says")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
