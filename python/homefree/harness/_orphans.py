# SPDX-License-Identifier: BSD-2-Clause
"""Processes that the module under test starts and that leave their process group, as daemons do:
they come to the controller when their parent ends, and end with the run."""

import contextlib
import os
import signal
import time

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_SECONDS = 2


def adopt():
    """From now on, orphans among this process's descendants become its children."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def _children():
    """Numbers of this process's children."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
            if parent == os.getpid():
                found.append(int(name))
    return found


def end():
    """Ends all children, and then theirs, which come here as well. Once all hosts have ended."""
    limit = time.monotonic() + _SECONDS
    while time.monotonic() < limit:
        children = _children()
        if not children:
            return
        for child in children:
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
        for child in children:
            with contextlib.suppress(OSError):
                os.waitpid(child, 0)
