"""The interpreters of this machine, and code that runs in them under `homefree run --diagnose`."""

import concurrent.futures
import os
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parents[1] / "support"))
from diagnosis import Diagnosis  # noqa: E402
from interpreters import interpreters, number  # noqa: E402

PRELUDE = (HERE / "domains_prelude.py").read_text(encoding="utf-8")
# What a diagnosed interpreter must not inherit from Meson and this machine.
FOREIGN = ("PYTHON", "MALLOC_", "LD_", "HOMEFREE_")


class Version(NamedTuple):
    major: int
    minor: int
    # Its mem and object domains are mimalloc's, which knows no places and does not tell them apart.
    free_threaded: bool


def pythons(oldest=(3, 9)):
    """[(path, version)]"""
    found = [
        (path, Version(*number(text)[:2], text.endswith("t"))) for path, text in interpreters()
    ]
    return [one for one in found if one[1] >= oldest]


def environment(**more):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", **more}


def run_python(
    arguments, path, code, directory, *, flags=(), mode="report", prelude=PRELUDE, **more
):
    """The code's diagnosis. It must print a line "done" as its last one."""
    return Diagnosis(
        arguments.homefree,
        [path, "-s", "-W", "ignore", *flags, "-c", prelude + code, arguments.library],
        directory=directory,
        mode=mode,
        env=environment(**more),
    )


def each(work, tasks):
    """[work(*task)], side by side."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda task: work(*task), tasks))


def side(finding, name):
    """(function, symbol) of a finding's side."""
    place = finding[name] or {}
    return place.get("function"), place.get("symbol")
