"""What a benchmark's document says of the machine that measured it."""

import contextlib
import datetime
import os
import platform
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Above this, other work disturbs the figures: the tables say so.
QUIET_LOAD = 0.5


def processor():
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return (
            next(line for line in lines if line.startswith("model name")).split(":", 1)[1].strip()
        )
    return platform.machine()


def machine():
    load = os.getloadavg()[0]
    noise = "" if load < QUIET_LOAD else ", busy: read the figures with that in mind"
    commit = ""
    with contextlib.suppress(OSError):  # no git
        commit = subprocess.run(
            ["git", "-C", ROOT, "describe", "--always", "--dirty", "--exclude=*"],
            capture_output=True,
            text=True,
        ).stdout.strip()
    return {
        "processor": f"{processor()}, {len(os.sched_getaffinity(0))} processors",
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "date": datetime.date.today().isoformat(),
        "commit": commit or "unknown",
        "load at the start": f"{load:.2f}{noise}",
    }
