# SPDX-License-Identifier: BSD-2-Clause
"""What compilers there are, and telling one from another that took its place.

_versions caches answers for the life of the process. Threads: any; two may ask the same compiler.
"""

import hashlib
import shlex
import subprocess

from ._errors import BuildError
from ._files import identity, which

# What each variable names, and the remedy if it is missing.
_COMPILERS = {
    "CC": ("C compiler", "install one (on Debian and Ubuntu: build-essential), or set CC"),
    "CXX": ("C++ compiler", "install one (on Debian and Ubuntu: build-essential), or set CXX"),
    "CUDACXX": ("CUDA compiler", "install CUDA's toolkit, or set CUDA_HOME or CUDACXX"),
}


def words_of(request, variable):
    """The words of the request's command for a variable. BuildError if it cannot be run."""
    command = request.compilers[variable]
    if which(command) is None:
        kind, remedy = _COMPILERS[variable]
        raise BuildError(
            f"homefree cannot build {request.name!r}: there is no {kind}: {command!r} was not "
            f"found; {remedy}",
            name=request.name,
        )
    return shlex.split(command)


_versions = {}


def version(command, path):
    """A hash of a compiler's answer to --version. Each compiler is asked once per process."""
    key = command, path, identity(path)
    if key not in _versions:
        done = subprocess.run(
            [*shlex.split(command), "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        _versions[key] = hashlib.sha256(done.stdout).hexdigest()
    return _versions[key]
