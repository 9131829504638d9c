# SPDX-License-Identifier: BSD-2-Clause
"""Finding the command `homefree`: beside this package, or among the scripts of a wheel."""

import os
import sysconfig

from . import _paths


def _is_program(path):
    """Whether a file is an executable ELF file. A script of that name would call this again."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF" and os.access(path, os.X_OK)
    except OSError:
        return False


def find() -> str:
    """The path of the command. FileNotFoundError if this installation has none. Threads: any."""
    here = os.path.dirname(os.path.abspath(__file__))
    directories = [os.path.join(here, _paths.BIN)] if _paths.BIN else []
    schemes = [None, "posix_user", "venv"]
    for scheme in schemes:
        try:
            directories.append(
                sysconfig.get_path("scripts", scheme) if scheme else sysconfig.get_path("scripts")
            )
        except KeyError:  # this Python does not have the scheme
            continue
    for directory in directories:
        path = os.path.normpath(os.path.join(directory, "homefree"))
        if _is_program(path):
            return path
    raise FileNotFoundError(
        "homefree: the command, which is a part of this package, was not found in "
        f"{', '.join(os.path.normpath(directory) for directory in directories)}; install homefree "
        "with `meson install` or from its wheel"
    )
