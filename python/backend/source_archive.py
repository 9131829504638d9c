#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Makes a source archive the same wherever it is made: `meson dist` runs this before it packs the
files. What homefree does not build of its subprojects is left out, as is what autoconf keeps for
itself; times and permissions are those of the commit.

The build backend has the time from here, too. State: none.
"""

import os
import pathlib
import shutil
import subprocess

# Of Zydis and Zycore: what their meson.build here reads, and their licences.
_DECODER = {"LICENSE", "README.md", "include", "meson.build", "src"}


def date(root):
    """When the tree was committed, in seconds. An unpacked source archive has that time itself; a
    clone where git is missing, or does not trust its owner, the time at which it was made."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    if (root / ".git").exists() and shutil.which("git"):
        command = ["git", "-C", str(root), "log", "-1", "--format=%ct"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return int(done.stdout)
    return int((root / "pyproject.toml").stat().st_mtime)


def _leave_out(subprojects):
    for cache in subprojects.glob("*/autom4te.cache"):
        shutil.rmtree(cache)
    for directory in subprojects.glob("zyantific-*"):
        for path in directory.iterdir():
            if path.name not in _DECODER:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def main():
    root = pathlib.Path(os.environ["MESON_PROJECT_DIST_ROOT"])
    when = date(pathlib.Path(os.environ["MESON_PROJECT_SOURCE_ROOT"]))
    _leave_out(root / "subprojects")
    for path in [root, *root.rglob("*")]:
        if not path.is_symlink():
            runs = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if runs else 0o644)
        os.utime(path, (when, when), follow_symlinks=False)


if __name__ == "__main__":
    main()
