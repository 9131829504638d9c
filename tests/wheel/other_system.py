"""Runs a module or code as if this were macOS or Windows: sys.platform is faked, and what the
system's Python lacks is taken away once the standard library has been imported, which would ask for
its own parts. Nothing else of those systems is here.

usage: other_system.py darwin|win32 -m MODULE [ARGUMENT...] | -c CODE
"""

import argparse  # noqa: F401, the standard library's modules for this system
import bz2  # noqa: F401
import importlib.metadata  # noqa: F401
import json  # noqa: F401
import lzma  # noqa: F401
import os
import runpy
import select
import selectors  # noqa: F401
import shutil  # noqa: F401
import signal  # noqa: F401
import subprocess  # noqa: F401
import sys
import tarfile  # noqa: F401
import tempfile  # noqa: F401
import xml.etree.ElementTree  # noqa: F401
import zipfile  # noqa: F401

NEITHER = "memfd_create confstr sched_getaffinity"
WINDOWS = """
    fork pread pwrite posix_spawn fchmod fork_exec geteuid getuid uname O_CLOEXEC O_NONBLOCK
    O_NOCTTY mkfifo sysconf
"""


def become(platform):
    sys.platform = platform
    away = NEITHER.split() + (WINDOWS.split() if platform == "win32" else [])
    for name in away:
        if hasattr(os, name):
            delattr(os, name)
    if platform == "win32":
        for name in ("fcntl", "resource", "termios", "pwd", "grp"):
            sys.modules[name] = None
        del select.poll, select.epoll


def main():
    _, platform, how, what, *arguments = sys.argv
    sys.argv = [what, *arguments]
    sys.path[0] = ""  # not this directory
    become(platform)
    if how == "-c":
        exec(what, {"__name__": "__main__"})
    else:
        runpy.run_module(what, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
