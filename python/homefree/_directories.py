# SPDX-License-Identifier: BSD-2-Clause
"""The directories of this installation's C side, for build systems.

All of them return absolute paths, raise FileNotFoundError if this copy of the package has no such
directory, and may be called from any thread. Since 1.0.
"""

import os

from . import _paths


def _directory(path, what):
    found = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), path))
    if not path or not os.path.isdir(found):
        raise FileNotFoundError(
            f"homefree: this copy of the package has no {what}; install homefree with "
            "`meson install` or from its wheel, and import that"
        )
    return found


def get_include() -> str:
    """The directory that contains homefree/homefree.h, for a compiler's -I. FileNotFoundError if
    missing."""
    return _directory(_paths.INCLUDE, "headers")


def get_library_dir() -> str:
    """The directory of libhomefree.so, for a linker's -L. FileNotFoundError if missing."""
    return _directory(_paths.LIBRARY, "library")


def get_cmake_dir() -> str:
    """The directory of homefree-config.cmake, for CMake's homefree_DIR or CMAKE_PREFIX_PATH.
    FileNotFoundError if missing."""
    return _directory(_paths.CMAKE, "CMake files")


def get_pkgconfig_dir() -> str:
    """The directory of homefree.pc, for PKG_CONFIG_PATH. FileNotFoundError if missing."""
    return _directory(_paths.PKGCONFIG, "pkg-config files")


def get_missing_dir() -> str:
    """The directory of the stub libhomefree.so.1, which a wheel puts beside its module and last in
    the module's RUNPATH. Without homefree, importing the module then fails with an ImportError that
    says to install it. FileNotFoundError if missing."""
    return _directory(_paths.MISSING, "stub for wheels")
