"""Where the command `homefree` lies: beside this package, or where a wheel's scripts are."""

import os
import sysconfig

from . import _paths


def _is_program(path):
    """An ELF file that may be run. A script of that name would only come back here."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF" and os.access(path, os.X_OK)
    except OSError:
        return False


def find():
    """The path of the command. FileNotFoundError where this installation has none."""
    here = os.path.dirname(os.path.abspath(__file__))
    folders = [os.path.join(here, _paths.BIN)] if _paths.BIN else []
    schemes = [None, "posix_user", "venv"]
    for scheme in schemes:
        try:
            folders.append(
                sysconfig.get_path("scripts", scheme) if scheme else sysconfig.get_path("scripts")
            )
        except KeyError:  # a scheme that this Python does not have
            continue
    for folder in folders:
        path = os.path.normpath(os.path.join(folder, "homefree"))
        if _is_program(path):
            return path
    raise FileNotFoundError(
        "homefree: the command belongs to this package and was not found in "
        f"{', '.join(os.path.normpath(folder) for folder in folders)}; install homefree with "
        "`meson install` or from its wheel"
    )
