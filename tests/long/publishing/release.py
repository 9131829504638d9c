"""A release before there is one: a source archive of the commit, and recipes that build it."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/support"))
import commands  # noqa: E402


def run(*command, **more):
    """Runs a command with its output in a file that is shown if it fails."""
    status, output = commands.run(*command, **more)
    if status != 0:
        sys.exit(f"failed: {' '.join(map(str, command))}\n{output[-6000:]}")
    return output


def unpacked(work):
    """The archive, made and unpacked in a directory; packaging/ in it takes the archive from its
    file. Result: the unpacked tree."""
    work = work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    making = 'root=$1; . "$root/tests/support/prepare.sh"; homefree_source_archive "$2"'
    run("sh", "-euc", making, "sh", ROOT, work)
    (archive,) = work.glob("homefree-*.tar.gz")
    subprocess.run(["tar", "-xzf", archive, "-C", work], check=True)
    tree = archive.with_name(archive.name[: -len(".tar.gz")])
    run(sys.executable, tree / "release/version", "--archive", archive.as_uri(), archive)
    return tree
