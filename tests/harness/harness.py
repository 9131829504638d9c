"""Runs `homefree test`, for the tests in this directory."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

COMMAND, PACKAGE, MODULES = (pathlib.Path(one) for one in map(os.path.abspath, sys.argv[1:4]))
del sys.argv[1:4]


def environment():
    found = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HOMEFREE_", "LD_PRELOAD", "MALLOC_PERTURB_"))
    }
    return {**found, "PYTHONPATH": str(PACKAGE)}


def run(*arguments, directory=MODULES, timeout=120, **more):
    """The finished process of `homefree test` with arguments, run in a directory."""
    return subprocess.run(
        [COMMAND, "test", "--python", sys.executable, *arguments],
        cwd=directory,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        **more,
    )


def document(*arguments, directory=MODULES):
    """(exit status, document) of a run with --json."""
    done = run("--json", *arguments, directory=directory)
    if done.returncode not in (0, 1):
        raise AssertionError(f"exit status {done.returncode}: {done.stderr}")
    return done.returncode, json.loads(done.stdout)


def results(found):
    """{crossing: {(host, condition): cell}} of a document."""
    table = {}
    for cell in found["cells"]:
        place = cell["host"], cell["condition"]
        table.setdefault(cell["crossing"], {})[place] = cell
    return table


def scratch(test):
    """A directory that goes with a test."""
    directory = tempfile.TemporaryDirectory(prefix="homefree-harness-")
    test.addCleanup(directory.cleanup)
    return pathlib.Path(directory.name)
