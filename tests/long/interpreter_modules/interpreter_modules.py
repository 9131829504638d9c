#!/usr/bin/env python3
"""How real extension modules load in interpreters with a GIL of their own, and whether they work.

usage: interpreter_modules.py [--build DIRECTORY] [--only NAME,…] [--write] [SECONDS]

    --build DIRECTORY   what `ninja -C build` has built (build); environments are kept in
                     DIRECTORY/long/interpreters
    --only NAME,…    these rows alone
    --write          writes README.md beside this file: the table

For each CPython from 3.12 on that has a GIL, of pyenv or built by
tests/support/debian-cpython.sh, and each library: what is imported is loaded
by Python ("native") or as private copies; then a small computation. Once in one interpreter after
the other, and twice in two at the same time; all interpreters end before the process does, which
has to end well. tests/interpreter_modules/ has the same for NumPy alone.

Exit status: 0 every row is as expected, 1 one is not, 77 there is no such CPython.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from interpreters import built, interpreters, number  # noqa: E402
from rows import row  # noqa: E402

GUEST = ROOT / "tests/interpreter_modules/guest.py"
NUMPY = """
import numpy as np
array = np.arange(100000.0) + 1
assert array.sum() == 5000050000.0 and where(array.ctypes.data) == "heap"
assert np.linalg.inv(np.eye(3) * 2)[0, 0] == 0.5
"""
# (row, environment, package whose modules are counted, code)
LIBRARIES = [
    ("numpy 1.26", "old", "numpy", NUMPY),
    ("numpy", "new", "numpy", NUMPY),
    (
        "pyarrow",
        "new",
        "pyarrow",
        """
import numpy as np, pyarrow as pa, pyarrow.compute as pc
assert pc.sum(pa.array(range(1000))).as_py() == 499500
assert pa.array(np.arange(9)).to_numpy().sum() == 36
assert pa.table({"a": [1, 2]}).num_rows == 2
""",
    ),
    (
        "pandas",
        "new",
        "pandas",
        """
import pandas as pd
frame = pd.DataFrame({"a": [1, 1, 2], "b": [1.0, 2.0, 3.0]})
assert frame.groupby("a").b.sum().tolist() == [3.0, 3.0]
""",
    ),
    (
        "polars",
        "new",
        "_polars_runtime_32",
        """
import polars as pl
frame = pl.DataFrame({"a": [1, 1, 2], "b": [1.0, 2.0, 3.0]})
assert frame.group_by("a").sum().height == 2
""",
    ),
    (
        "scipy",
        "new",
        "scipy",
        """
import numpy as np, scipy.linalg, scipy.optimize
assert abs(scipy.optimize.brentq(lambda x: x * x - 2, 0, 2) ** 2 - 2) < 1e-9
assert scipy.linalg.svd(np.eye(4))[1].sum() == 4
""",
    ),
    (
        "lxml",
        "new",
        "lxml",
        """
from lxml import etree
assert etree.fromstring("<a><b>1</b></a>").xpath("string(b)") == "1"
""",
    ),
    (
        "orjson",
        "new",
        "orjson",
        'import orjson\nassert orjson.loads(orjson.dumps({"a": [1]})) == {"a": [1]}\n',
    ),
    (
        "pydantic_core",
        "new",
        "pydantic_core",
        """
from pydantic_core import SchemaValidator
assert SchemaValidator({"type": "int"}).validate_python("3") == 3
""",
    ),
    (
        "cffi",
        "new",
        "_cffi_backend",
        """
import cffi
ffi = cffi.FFI()
ffi.cdef("int abs(int);")
assert ffi.dlopen(None).abs(-3) == 3
""",
    ),
    (
        "markupsafe",
        "new",
        "markupsafe",
        'import markupsafe\nassert markupsafe.escape("<") == "&lt;"\n',
    ),
    (
        "examples/minimal",
        "examples",
        "greet",
        'import greet\nassert greet.greet("you") == "Hello, you!"\n',
    ),
    (
        "examples/jit_cached",
        "examples",
        "words",
        'import words\nassert words.sort("b a").split() == ["a", "b"]\n',
    ),
    (
        "standard library",
        "new",
        "",
        """
import datetime, decimal, hashlib, json, sqlite3, ssl, zoneinfo, asyncio, ctypes, csv, lzma
assert hashlib.blake2b(b"", digest_size=8).hexdigest()
assert str(decimal.Decimal(1) / 8) == "0.125"
assert sqlite3.connect(":memory:").execute("select 1").fetchone() == (1,)
""",
    ),
]
# The old NumPy has no files for later CPythons.
LATEST = {"old": (3, 13)}
PACKAGES = {
    "old": ["numpy<2"],
    "new": [
        *("numpy", "pyarrow", "polars", "pandas", "scipy", "lxml"),
        *("orjson", "pydantic_core", "cffi", "markupsafe"),
    ],
}


def environment(build, python, text, name):
    """The interpreter of a virtual environment with what is needed, made when it is missing."""
    directory = build / "long/interpreters" / f"{name}-{text}"
    inside = directory / "bin/python"
    if not (directory / "ready").exists():
        subprocess.run([python, "-m", "venv", "--clear", directory], check=True)
        pip = [inside, "-m", "pip", "install", "-q", "--only-binary=:all:", *PACKAGES[name]]
        subprocess.run(pip, check=True)
        (directory / "ready").touch()
    return inside


def examples(build, python, text):
    """A directory with two of our examples, built for that CPython."""
    directory = build / "long/interpreters" / f"examples-{text}"
    directory.mkdir(parents=True, exist_ok=True)
    code = "import sys, homefree.extension as e\ne.build(sys.argv[1], [sys.argv[2]], sys.argv[3])"
    for name, source in ("greet", "minimal/greet.cc"), ("words", "jit_cached/words.c"):
        subprocess.run(
            [python, "-c", code, name, ROOT / "examples" / source, directory],
            env={**os.environ, "PYTHONPATH": str(build / "python")},
            check=True,
        )
    return directory


def try_one(build, python, package, code, threads, more=()):
    """(native, private, what went wrong) of the package's modules."""
    done = subprocess.run(
        [python, GUEST, str(threads), "2", code],
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "LD_"))},
            "PYTHONPATH": os.pathsep.join(map(str, [*more, build / "python"])),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["nothing said"]
        return 0, 0, f"exit status {done.returncode}: {lines[-1][:200]}"
    loaded = json.loads(done.stdout)
    found = [how for name, how in loaded.items() if not package or name.startswith(package)]
    return found.count("native"), found.count("private"), ""


def version_of(python, package):
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip()


HEAD = """# Extension modules in interpreters with a GIL of their own

Written by `tests/long/interpreter_modules/interpreter_modules.py --write`. Each library was
imported and used in interpreters one after the other, and in two at a time, twice each; all of them
ended before the process, which ended well. The figures count the library's extension modules: those
that Python loaded itself, and those that were private copies
([why](../../../docs/interpreters.md#extension-modules)).

| library | CPython | native | private copies | one after the other | two at a time |
|---|---|---|---|---|---|
"""
TAIL = """
NumPy 1.26 has no files for CPython 3.14. torch is not in the table: Debian's is built for CPython
3.11, which has one GIL for all interpreters, so there is no interpreter that it could be tried in.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("seconds", nargs="?", type=float, default=3600)
    options = parser.parse_args()
    build, only = options.build.resolve(), set(filter(None, options.only.split(",")))
    end = time.monotonic() + options.seconds
    pythons = sorted(
        (number(text), text, path)
        for path, text in interpreters()
        if number(text) >= (3, 12) and (".pyenv" in path.parts or built() in path.parents)
    )
    if not pythons:
        print("no CPython from 3.12 on; tests/support/debian-cpython.sh builds one")
        return 77
    lines, failures, tried = [], 0, 0
    for name, where, package, code in LIBRARIES:
        for _, text, path in pythons:
            if (only and name not in only) or time.monotonic() > end:
                continue
            if number(text)[:2] > LATEST.get(where, number(text)):
                continue
            if where == "examples":
                python, more = path, [examples(build, path, text)]
            else:
                python, more = environment(build, path, text, where), []
            native, private, wrong = try_one(build, python, package, code, 1, more)
            *_, beside = try_one(build, python, package, code, 2, more)
            version = version_of(python, name.split()[0])
            title = f"{name.split()[0]} {version}" if version else name
            cells = [title, text, native, private, wrong or "fine", beside or "fine"]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
            print(lines[-1], flush=True)
            tried += 1
            failures += bool(wrong or beside)
    row("extension modules in interpreters", f"{tried - failures} of {tried} fine",
        f"failed: {failures}" if failures else "passed")  # fmt: skip
    if options.write:
        text = HEAD + "\n".join(lines) + "\n" + TAIL
        (HERE / "README.md").write_text(text, encoding="utf-8")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
