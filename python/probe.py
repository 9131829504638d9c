# SPDX-License-Identifier: BSD-2-Clause
"""Tells Meson about the Python that the package is installed for. Meson runs it when configuring,
because Meson 1.0 does not know every newer Python.

usage: probe.py PREFIX LIBDIR

Prints a line for each of: the directory of Python.h (empty if it is missing or the Python too old);
the site directory under PREFIX; the relative paths from the package's directory there to LIBDIR and
to PREFIX; this Python's own prefix if it does not search that site directory, else an empty line;
and the end of an extension's file name: "abi3.so", which every CPython with a GIL loads, or that of
this version if it is free-threaded.
"""

import os
import sys
import sysconfig


def site(prefix):
    """The directory in which this Python searches extension packages installed under prefix."""
    schemes = sysconfig.get_scheme_names()
    if "posix_local" in schemes and prefix == "/usr/local":
        return sysconfig.get_path("platlib", "posix_local", {"base": "/usr", "platbase": "/usr"})
    scheme = "deb_system" if "deb_system" in schemes and prefix == "/usr" else "posix_prefix"
    return sysconfig.get_path("platlib", scheme, {"base": prefix, "platbase": prefix})


def main():
    prefix, libdir = sys.argv[1:]
    include = sysconfig.get_path("include")
    if not os.path.exists(os.path.join(include, "Python.h")) or sys.version_info < (3, 9):
        include = ""
    package = os.path.join(site(prefix), "homefree")
    print(include)
    print(site(prefix))
    print(os.path.relpath(os.path.join(prefix, libdir), package))
    print(os.path.relpath(prefix, package))
    print("" if os.path.realpath(site(prefix)) in map(os.path.realpath, sys.path) else sys.prefix)
    free_threaded = sysconfig.get_config_var("Py_GIL_DISABLED")
    print(sysconfig.get_config_var("EXT_SUFFIX")[1:] if free_threaded else "abi3.so")


if __name__ == "__main__":
    main()
