"""An object with two allocators: `homefree doctor` lists each with what it has mapped itself.

usage: test_both.py HOMEFREE HOST BOTH
"""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
from glibc import needs_names_of_modules  # noqa: E402

needs_names_of_modules()
command, host, both = map(os.path.abspath, sys.argv[1:])
environment = {k: v for k, v in os.environ.items() if k != "HOMEFREE_CONF"}
done = subprocess.run(
    [command, "doctor", "--", host, both],
    env=environment,
    capture_output=True,
    text=True,
    timeout=100,
    check=False,
)
lines = [line for line in done.stdout.splitlines() if both in line and " mapped" in line]
print(done.stdout, done.stderr)
assert len(lines) == 2, lines
for line, name, mapped in zip(lines, ("mimalloc", "rpmalloc"), ("192.0 MiB", "24.0 MiB")):
    assert line.split()[0] == name and line.endswith(f", {mapped} mapped"), lines
