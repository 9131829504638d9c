#!/usr/bin/env python3
"""How real extension modules load in interpreters with a GIL of their own, whether they work, and
what they leave.

usage: interpreter_modules.py [--build DIRECTORY] [--only NAME,…] [--python VERSION,…] [--write]
           [SECONDS]

    --build DIRECTORY   what `ninja -C build` has built (build); what is installed for a row is in
                     DIRECTORY/long/interpreters while the row is tried
    --only NAME,…    these rows of libraries.py alone
    --python VERSION,…   these CPythons alone
    --write          adds the outcomes to outcomes.json, and writes README.md from it: the table

For each CPython from 3.12 on that has a GIL, of pyenv or built by
tests/support/debian-cpython.sh, and each library of libraries.py: what is imported is loaded
by Python ("native") or as private copies; then a piece of real work. Once in one interpreter after
the other, and twice in two at the same time; all interpreters end before the process does, which
has to end well. Then in an Executor that is made and ended again and again: what the process has
grown by. tests/interpreter_modules/ has the same for NumPy alone.

Exit status: 0 every row is as expected, 1 one is not, 77 there is no such CPython.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import commands  # noqa: E402
from interpreters import built, number, with_gil  # noqa: E402
from libraries import LIBRARIES  # noqa: E402
from rows import row  # noqa: E402

GUEST = ROOT / "tests/interpreter_modules/guest.py"
OUTCOMES = HERE / "outcomes.json"
TIMEOUT = 300
REFUSES = "homefree refuses to load"
WARM, CYCLES = 2, 5

CYCLES_OF = f"""
import json, os, sys
import homefree
from homefree.interpreters import Executor, leaks

def where(address):
    return homefree.owner_of(address).kind

def use():
    exec(compile(sys.argv[1] if len(sys.argv) > 1 else os.environ["HOMEFREE_TEST_CODE"], "code",
                 "exec"), {{"where": where, "__name__": "__main__"}})

def own():
    homefree.trim()
    with open("/proc/self/smaps_rollup") as lines:
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))

def cycle():
    with Executor(1) as executor:
        executor.submit(use).result()

if __name__ == "__main__":
    for _ in range({WARM}):
        cycle()
    before = own()
    for _ in range({CYCLES}):
        cycle()
    grown = (own() - before) / {CYCLES}
    keeps = {{os.path.basename(row.file): row.why for row in leaks() if row.cycle > 1 << 19}}
    print(json.dumps([round(grown), keeps]))
"""


class Place:
    """A CPython, and what is installed for the row that is tried in it."""

    def __init__(self, build, python, text):
        self.build, self.python, self.text = build, python, text
        self.directory = build / "long/interpreters"
        self.directory.mkdir(parents=True, exist_ok=True)

    def pip(self):
        """The interpreter of a virtual environment that has pip."""
        environment = self.directory / f"pip-{self.text}"
        if not (environment / "ready").exists():
            subprocess.run([self.python, "-m", "venv", "--clear", environment], check=True)
            (environment / "ready").touch()
        return environment / "bin/python"

    def install(self, library, target):
        """Installs what a library needs. Result: what went wrong."""
        if library.needs == "nothing":
            return ""
        if library.needs == "examples":
            return self.examples(target)
        needs = library.needs.split() or [library.name]
        done = subprocess.run(
            [
                *(self.pip(), "-m", "pip", "install", "-q", "--only-binary=:all:"),
                *("--cache-dir", self.directory / "cache", "--target", target, *needs),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        lines = done.stderr.strip().splitlines() or ["nothing said"]
        return "" if done.returncode == 0 else lines[-1]

    def examples(self, target):
        """Two of our examples, built for this CPython."""
        code = (
            "import sys, homefree.extension as e\ne.build(sys.argv[1], [sys.argv[2]], sys.argv[3])"
        )
        for name, source in ("greet", "minimal/greet.cc"), ("words", "jit_cached/words.c"):
            subprocess.run(
                [self.python, "-c", code, name, ROOT / "examples" / source, target],
                env={**os.environ, "PYTHONPATH": str(self.build / "python")},
                check=True,
            )
        return ""

    def run(self, target, *words, **variables):
        """What a program of this CPython prints, and what went wrong."""
        path = os.pathsep.join(map(str, [target, self.build / "python"]))
        variables = {"PYTHONPATH": path, "MPLCONFIGDIR": target, **variables}
        status, said, errors = commands.run(
            *(self.python, "-s", "-W", "ignore", *words),
            seconds=TIMEOUT,
            cwd=target,
            env=commands.environment(("PYTHON", "LD_"), **variables),
            errors=subprocess.PIPE,
        )
        if status == 0:
            return said, ""
        if status is None:
            return "", "hangs"
        lines = errors.strip().splitlines() or ["nothing said"]
        said = next((line for line in lines if REFUSES in line), lines[-1])
        return "", f"exit status {status}: {said[:300]}"

    def load(self, target, library, threads):
        """(native, private, what went wrong) of the library's modules."""
        said, wrong = self.run(target, GUEST, str(threads), "2", library.code)
        if wrong:
            return 0, 0, wrong
        counted = tuple(library.counted.split() or [library.name])
        found = [
            how
            for name, how in json.loads(said).items()
            if counted == ("everything",) or name.partition(".")[0] in counted
        ]
        return found.count("native"), found.count("private"), ""

    def leaves(self, target, library):
        """(KiB that a cycle of an Executor leaves, {file: why it keeps interpreters' memory}, what
        went wrong)."""
        program = target / "homefree_cycles.py"
        program.write_text(CYCLES_OF)
        said, wrong = self.run(target, program, HOMEFREE_TEST_CODE=library.code)
        return *json.loads(said or "[0, {}]"), wrong

    def version(self, target, library):
        name = library.name.split()[0].replace("_", "-")
        code = f"import importlib.metadata as m; print(m.version({name!r}))"
        return self.run(target, "-c", code)[0].strip()


def attempt(place, library):
    """What a library does in a CPython, for OUTCOMES."""
    with tempfile.TemporaryDirectory(dir=place.directory) as target:
        target = Path(target)
        wrong = place.install(library, target)
        if wrong:
            return {"files": wrong}
        native, private, alone = place.load(target, library, 1)
        if REFUSES in alone:
            return {"version": place.version(target, library), "refused": True}
        *_, beside = place.load(target, library, 2)
        leaves, keeps, ends = place.leaves(target, library)
        return {
            "version": place.version(target, library),
            "native": native,
            "private": private,
            "wrong": {
                how: said
                for how, said in (("alone", alone), ("two", beside), ("cycles", ends))
                if said
            },
            "leaves": leaves,
            **({"keeps": keeps} if keeps else {}),
        }


HEAD = """# Extension modules in interpreters with a GIL of their own

Written by `interpreter_modules.py --write`. Each library was installed from PyPI alone, imported,
and did [a piece of real work](libraries.py) in interpreters one after the other, and in two at a
time, twice each; all of them ended before the process, which ended well. The modules are the
library's: private copies, and those that Python loaded itself
([why](../../../docs/interpreters.md#extension-modules)). "Leaves" is by how much an Executor that
does the same and ends lets the process grow each time, after the first ones.

| library | modules | works in CPython | leaves | remarks |
|---|---|---|---|---|
"""
TAIL = """
A library that leaves megabytes keeps the interpreter's memory, for the reason that
`homefree.interpreters.leaks()` gives of its module
([details](../../../docs/interpreters.md#what-an-ended-interpreter-leaves)). What is less than half
a megabyte is what modules take from `malloc` and never free, and the measurement's own noise, a few
hundred KB on a busy machine. Interpreters that are kept leave nothing. Where fewer figures than
CPythons are given, the outcome is an earlier one, of imports and work alone, some with an earlier
version of the library.
"""


def size(kib):
    return f"{kib / 1000:.1f} MB" if kib >= 1000 else f"{max(kib, 0)} KB"


def cells(library, outcomes):
    """A library's row. outcomes: {CPython: of attempt()}."""
    tried = {text: one for text, one in outcomes.items() if "files" not in one}
    works = [text for text, one in tried.items() if not one.get("wrong") and "refused" not in one]
    modules, left = [], []
    for text in works:
        native, private = tried[text]["native"], tried[text]["private"]
        counts = [(private, "private"), (native, "native")]
        modules.append(", ".join(f"{count} {how}" for count, how in counts if count))
        if "leaves" in tried[text]:
            left.append(size(tried[text]["leaves"]))
    remarks = [f"no files for {text}" for text in outcomes if text not in tried]
    for text, one in tried.items():
        remarks += ["[refused](../../../docs/interpreters.md#what-is-left)"] * ("refused" in one)
        remarks += [f"{text}, {how}: {said}" for how, said in one.get("wrong", {}).items()]
        remarks += [f"keeps: {why}" for why in one.get("keeps", {}).values()]
    if library.remark:
        remarks.append(library.remark)
    version = next((one["version"] for one in reversed(tried.values())), "")
    name = library.name.split()[0] if version else library.name
    return [
        f"{name} {version}".strip(),
        "; ".join(dict.fromkeys(modules)),
        ", ".join(works),
        left[0] if len(set(left)) == 1 else ", ".join(left),
        "; ".join(dict.fromkeys(remarks)),
    ]


def write(library=None, text=None, outcome=None):
    """Adds an outcome to OUTCOMES, and writes the table."""
    outcomes = json.loads(OUTCOMES.read_text()) if OUTCOMES.exists() else {}
    if library is not None:
        outcomes.setdefault(library.name, {})[text] = outcome
    each = (f"{json.dumps(name)}: {json.dumps(one)}" for name, one in outcomes.items())
    OUTCOMES.write_text("{\n" + ",\n".join(each) + "\n}\n")
    lines = [
        "| " + " | ".join(cells(one, dict(sorted(outcomes[one.name].items())))) + " |"
        for one in LIBRARIES
        if one.name in outcomes
    ]
    text = HEAD + "\n".join(lines) + "\n" + TAIL
    (HERE / "README.md").write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--only", default="")
    parser.add_argument("--python", default="")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("seconds", nargs="?", type=float, default=3600)
    options = parser.parse_args()
    only, versions = (set(filter(None, text.split(","))) for text in (options.only, options.python))
    end = time.monotonic() + options.seconds
    places = [
        Place(options.build.resolve(), path, text)
        for path, text in sorted(with_gil(), key=lambda one: number(one[1]))
        if number(text) >= (3, 12) and (".pyenv" in path.parts or built() in path.parents)
        if not versions or text in versions
    ]
    if not places:
        print("no CPython from 3.12 on; tests/support/debian-cpython.sh builds one")
        return 77
    tried = failures = 0
    for library in LIBRARIES:
        for place in places:
            if (only and library.name not in only) or time.monotonic() > end:
                continue
            outcome = attempt(place, library)
            print(library.name, place.text, outcome, sep="\t", flush=True)
            tried += 1
            failures += bool(outcome.get("wrong"))
            if options.write:
                write(library, place.text, outcome)
        shutil.rmtree(places[0].directory / "cache", ignore_errors=True)
    row("extension modules in interpreters", f"{tried - failures} of {tried} fine",
        f"failed: {failures}" if failures else "passed")  # fmt: skip
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
