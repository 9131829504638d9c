#!/usr/bin/env python3
"""Memory crosses between interpreters in all directions: `homefree test --interpreters` on NumPy's
arrays, memoryviews, bytes, Arrow's data, DLPack's tensors and capsules, under each CPython from
3.12 on that has NumPy (build/wheels). No cell may die, leak or hang, but for NumPy's own DLPack
capsules: their deleter drops an array, which belongs to the interpreter that made it.

usage: between.py BUILD SECONDS
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODULE = """
import numpy


def array():
    return numpy.arange(100_000, dtype="f8").reshape(250, 400)


def small_array():
    return numpy.arange(3)


def strided_array():
    return array()[::2, ::3]


def fortran_array():
    return numpy.asfortranarray(array())


def structured_array():
    return numpy.zeros(1000, dtype=[("name", "U10"), ("value", "f4")])


def arrays():
    return [array(), array().T, numpy.float32(3.5), "text"]


def masked_array():
    return numpy.ma.masked_less(numpy.arange(1000), 100)


def view_of_array():
    return memoryview(array())


def view_of_bytes():
    return memoryview(b"bytes " * 20_000)


def view_of_bytearray():
    return memoryview(bytearray(b"bytes " * 20_000)).cast("H")


def some_bytes():
    return b"bytes " * 20_000


def text():
    return "text \\u2192 " * 10_000


try:
    import pyarrow
except ImportError:
    pass
else:

    def arrow_array():
        return pyarrow.array(range(10_000))

    def arrow_table():
        return pyarrow.table({"a": range(10_000), "b": ["x"] * 10_000})

    def arrow_in_capsule():
        return pyarrow.array(range(10_000)).__arrow_c_array__()[1]


try:
    import pandas
except ImportError:
    pass
else:

    def frame():
        return pandas.DataFrame({"a": range(10_000), "b": numpy.ones(10_000)})
"""
NUMPYS = "__dlpack__"
BETWEEN = {
    "main to sub",
    "sub to main",
    "sub to sub",
    "maker back",
    "maker ended",
    "taker ended",
    "maker first",
    "taker first",
}


def pythons(build):
    """Those with NumPy."""
    for directory in sorted((build / "wheels").glob("cpython-3.*")):
        python = directory / "bin/python"
        version = tuple(map(int, directory.name.rpartition("-")[2].rstrip("t").split(".")))
        if version < (3, 12) or directory.name.endswith("t"):
            continue
        if subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0:
            yield directory.name, python


def judge(name, document):
    """Prints what went wrong and a line for the kinds; whether nothing did."""
    cells = [cell for cell in document["cells"] if cell["condition"] in BETWEEN]
    bad = [cell for cell in cells if cell["result"] not in ("ok", "skipped")]
    known = [cell for cell in bad if NUMPYS in cell["crossing"] and cell["result"] == "died"]
    bad = [cell for cell in bad if cell not in known]
    silent = [cell for cell in cells if cell["result"] == "ok" and not cell["freed"]]
    for cell in bad + known + silent:
        print(
            f"{name}: {cell['crossing']} / {cell['condition']}: {cell['result']} "
            f"{cell['signal'] or ''} {cell['message']}; allocated by {cell['allocated']}, "
            f"freed by {cell['freed']}"
        )
    crossings = {cell["crossing"] for cell in cells}
    crossed = {cell["crossing"] for cell in cells if cell["result"] == "ok"}
    skipped = sorted({cell["message"] for cell in cells if cell["result"] == "skipped"})
    print(
        f"{name}: {len(cells)} cells, {len(crossed)} of {len(crossings)} crossings cross: "
        f"{len(bad)} bad, {len(known)} of NumPy's capsules; "
        f"skipped: {'; '.join(skipped) or 'none'}",
        flush=True,
    )
    return cells and not bad and not silent


def main():
    build, seconds = Path(sys.argv[1]).resolve(), float(sys.argv[2])
    end, ran, good = time.monotonic() + seconds, 0, True
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "crossers.py").write_text(MODULE)
        for name, python in pythons(build):
            if ran and time.monotonic() > end:
                break
            done = subprocess.run(
                [
                    build / "loader/command/homefree",
                    "test",
                    "--python",
                    python,
                    "--json",
                    "--interpreters",
                    "--timeout",
                    "120",
                    "--only",
                    "/ homefree first",
                    "crossers",
                ],
                cwd=directory,
                env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(build / "python")},
                stdout=subprocess.PIPE,
                text=True,
            )
            if done.returncode not in (0, 1):
                print(f"{name}: homefree test ended with {done.returncode}")
                good = False
                continue
            ran += 1
            good = bool(judge(name, json.loads(done.stdout))) and good
    if ran == 0:
        print("no CPython from 3.12 on with NumPy")
        return 77
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
