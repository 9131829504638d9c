"""The programs of docs/clusters.md, run by this Python: all print the same."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs/clusters.md"
ONE, EXECUTOR, DASK, RAY = range(1, 5)


def said(which):
    """The last line that a program prints; its log if it fails."""
    programs = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "walks.py").write_text(programs[0])
        Path(directory, "program.py").write_text(programs[which])
        done = subprocess.run(
            [sys.executable, "program.py"], cwd=directory, capture_output=True, text=True
        )
    lines = done.stdout.splitlines()
    return lines[-1] if done.returncode == 0 and lines else done.stdout + done.stderr
