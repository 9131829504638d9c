"""Meson's install script: compiles the installed package and its subpackages to bytecode.

usage: compile.py PACKAGE-FOLDER
"""

import compileall
import os
import sys

folder = sys.argv[1]
root = os.environ.get("DESTDIR", "")
compileall.compile_dir(root + folder, ddir=folder, quiet=1)
