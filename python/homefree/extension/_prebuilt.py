# SPDX-License-Identifier: BSD-2-Clause
"""Modules that a wheel ships: prebuilt= of load(). Beside each lies the record <file>.sources that
build() writes: the line FIRST, then a line for each source with its SHA-256 and its name.

Nothing here keeps state. Threads: any.
"""

import os
import sys

from .. import _homefree
from .._importing import suffixes

FIRST = "homefree-sources 1"


def _directories_of(package):
    """The directories of a package: the module, or its name."""
    if isinstance(package, str):
        from importlib.util import find_spec

        try:
            spec = find_spec(package)
        except (ImportError, ValueError):
            spec = None
        return list(spec.submodule_search_locations or ()) if spec else []
    return list(package.__path__)


def _candidates(name, prebuilt):
    """The files to look at, and how to describe the place in a message."""
    last = name.rpartition(".")[2]
    if hasattr(prebuilt, "__path__"):
        places, what = _directories_of(prebuilt), f"the package {prebuilt.__name__}"
    else:
        path = os.fsdecode(prebuilt)
        dotted = isinstance(prebuilt, str) and all(part.isidentifier() for part in path.split("."))
        if dotted and not os.path.exists(path):
            places, what = _directories_of(path), f"the package {path}"
        else:
            places, what = [os.path.abspath(path)], os.path.abspath(path)
    files = []
    for place in places:
        if not os.path.isdir(place):
            files.append(place)
            continue
        own = [f"{place}/{last}{suffix}" for suffix in suffixes()]
        files += [path for path in own if os.path.exists(path)]
        # Those for other Pythons only give the reason why none was used.
        files += sorted(
            f"{place}/{file}"
            for file in os.listdir(place)
            if file.startswith(last + ".") and file.endswith(".so")
        )
    return dict.fromkeys(files), what


def _unfit(path, sources):
    """The reason why a file cannot be used, or None."""
    # "name.cpython-312-x86_64-linux-gnu.so", "name.abi3.so", "name.abi3t.so", "name.so"
    tag = os.path.basename(path).partition(".")[2]
    if "." + tag not in suffixes():
        own = suffixes()[0].split(".")[1]
        return f"it is built for another Python ({tag.rpartition('.')[0] or tag}), this is {own}"
    try:
        with open(path, "rb") as file, open(_homefree.__file__, "rb") as own:
            head, wanted = file.read(20), own.read(20)
    except OSError as error:
        return error.strerror
    if head[:4] != b"\x7fELF" or len(head) < 20:
        return "it is not a shared object"
    # Word size, byte order, machine.
    if head[4:6] != wanted[4:6] or head[18:20] != wanted[18:20]:
        return "it is built for another machine"
    return _changed(path, sources)


def _changed(path, sources):
    """The reason if a source differs from what the module was built from. None if all are the
    same, or nothing says what they were."""
    sources = [source for source in sources if os.path.exists(source)]
    if not sources:
        return None
    try:
        with open(path + ".sources", encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().split("\n")
    except OSError:
        return None
    if lines[0] != FIRST:
        return None
    from ._files import Hashes

    hashes = Hashes()
    known = dict(line.split(" ", 1)[::-1] for line in lines[1:] if " " in line)
    for source in sources:
        if known.get(os.path.basename(source)) != hashes.of(source):
            return f"{source} is not what it was built from"
    return None


def find(name, sources, prebuilt, verbose):
    """The path of a prebuilt module that fits, or None to compile the sources.

    ImportError if the sources are missing too.
    """
    files, what = _candidates(name, prebuilt)
    reasons = []
    for path in files:
        reason = _unfit(path, sources)
        if reason is None:
            return path
        reasons.append(f"{path}: {reason}")
    why = "; ".join(reasons) or f"there is none in {what}"
    if not any(os.path.exists(source) for source in sources):
        raise ImportError(
            f"homefree cannot load {name!r}: no prebuilt module fits ({why}), and its sources are "
            "missing; install the package for this Python, or build it from its sources",
            name=name,
        )
    if verbose:
        print(f"homefree: no prebuilt {name} fits ({why}); building it", file=sys.stderr)
    return None
