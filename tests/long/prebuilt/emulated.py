"""The wheel of another machine, in an emulator: prints a line that says what answered."""

import os
import pathlib
import sys

import homefree

installed = homefree.install()
kind = homefree.owner_of(bytes(100_000)).kind
if kind != "heap":
    sys.exit(f"owner_of() says {kind!r}, not 'heap'")
# The emulator has no process_vm_readv(2), with which the list of arenas older than install() would
# be read. They are filled, so that the blocks below come from later ones.
small = [bytes(size) for size in range(0, 480, 16) for _ in range(2000)]
if homefree.owner_of(small[-1]).kind != "pymalloc":
    sys.exit("owner_of() does not know pymalloc's block")
exec(pathlib.Path(__file__).with_name("five.py").read_text())
print(f"{os.uname().machine}, Python {sys.version.split()[0]}: {installed}")
