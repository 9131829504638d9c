"""A library that was found by a bare name is found by it again, also where it has another soname.

The dynamic linker knows a loaded object by the name that it was searched for. A caller's RUNPATH or
RPATH leads to it first; then the program, which has none, opens the same name, and a library that
needs it.

usage: test_bare_names.py PROGRAM LIBHOMEFREE PRELOAD DIAGNOSE NEEDS FOUND RENAMED RUNPATH RPATH …
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile

program, homefree, preload, diagnose, needs, found, renamed, *openers = map(
    os.path.abspath, sys.argv[1:10]
)

NAME = "found.so"


def no_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def answers(directory, lines, library, before=None):
    result = subprocess.run(
        [program],
        input="".join(line + "\n" for line in lines),
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "LD_LIBRARY_PATH": "",
            "LD_PRELOAD": library,
            "HOMEFREE_DIAGNOSE": f"mode:count,quiet:1,directory:{directory}",
        },
        timeout=60,
        preexec_fn=before,
    )
    assert result.returncode == 0, (result.returncode, result.stderr)
    return result.stdout.splitlines()


for library in (found, renamed):
    for opener in openers:
        with tempfile.TemporaryDirectory() as directory:
            os.mkdir(f"{directory}/one")
            shutil.copy(library, f"{directory}/one/{NAME}")
            here, needing = (shutil.copy(file, directory) for file in (opener, needs))
            lines = [
                f"-\t{NAME}",  # not found
                f"{here}\t{NAME}",  # found, and closed
                f"-\t{NAME}",  # not found
                f"-\t{needing}",  # what it needs is not found
                f"+{here}\t{NAME}",  # found, and kept
                f"-\t{NAME}",  # found by its name
                f"-\t{needing}",  # what it needs is found by its name
                f"{here}\t{NAME}",
            ]
            alone = answers(directory, lines, "")
            assert alone[5] == f"{directory}/one/{NAME}" != alone[2], alone
            assert alone[6] == needing != alone[3], alone
            for way in (homefree, preload, diagnose):
                said = answers(directory, lines, way)
                assert said == alone, (os.path.basename(opener), way, said, alone)
                # The name cannot be taught, and the process goes on: no SIGXFSZ.
                said = answers(directory, lines[:3], way, no_files)
                assert said == alone[:3], (os.path.basename(opener), way, said, alone)
