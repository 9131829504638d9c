"""Which state of the tree is tested."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def commit(*question):
    """What `git QUESTION` answers about the tree, usually the commit's name. "no commit" where git
    is not installed, or the tree has no history."""
    command = ["git", "-C", ROOT, *(question or ("rev-parse", "HEAD"))]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "no commit"
    return found.stdout.strip() or "no commit"
