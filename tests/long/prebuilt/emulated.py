"""The wheel of another machine, in an emulator: prints a line that says what answered."""

import os
import pathlib
import sys

import homefree

installed = homefree.install()
kind = homefree.owner_of(bytes(100_000)).kind
if kind != "heap":
    sys.exit(f"owner_of() says {kind!r}, not 'heap'")
if homefree.owner_of(bytes(10)).kind != "pymalloc":
    sys.exit("owner_of() does not know pymalloc's block")
exec(pathlib.Path(__file__).with_name("five.py").read_text())
print(f"{os.uname().machine}, Python {sys.version.split()[0]}: {installed}")
