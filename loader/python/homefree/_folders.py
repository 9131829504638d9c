"""Where the C side of this installation lies, for build systems."""

import os

from . import _paths


def _folder(path, what):
    found = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), path))
    if not path or not os.path.isdir(found):
        raise FileNotFoundError(
            f"homefree: this copy of the package has no {what}; install homefree with "
            "`meson install` or from its wheel, and import that"
        )
    return found


def get_include():
    """The folder to search for <homefree/homefree.h> (a compiler's -I)."""
    return _folder(_paths.INCLUDE, "headers")


def get_library_dir():
    """The folder of libhomefree.so (a linker's -L)."""
    return _folder(_paths.LIBRARY, "library")


def get_cmake_dir():
    """The folder of homefree-config.cmake, for CMake's homefree_DIR or CMAKE_PREFIX_PATH."""
    return _folder(_paths.CMAKE, "CMake files")


def get_pkgconfig_dir():
    """The folder of homefree.pc, for PKG_CONFIG_PATH."""
    return _folder(_paths.PKGCONFIG, "pkg-config files")


def get_missing_dir():
    """The folder of the libhomefree.so.1 for a wheel to have beside its module, and last in the
    module's RUNPATH: loading it fails with an ImportError that says to install homefree."""
    return _folder(_paths.MISSING, "stub for wheels")
