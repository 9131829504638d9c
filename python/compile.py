# SPDX-License-Identifier: BSD-2-Clause
"""Meson's install script: compiles the installed package and its subpackages to bytecode.

usage: compile.py PACKAGE-DIRECTORY
"""

import compileall
import os
import sys

directory = sys.argv[1]
root = os.environ.get("DESTDIR", "")
compileall.compile_dir(root + directory, ddir=directory, quiet=1)
