# SPDX-License-Identifier: BSD-2-Clause
"""`homefree inspect --environment` of objects for macOS and for Windows: what those of one platform
would do to each other in one process. What each does to all (a malloc zone, patched functions)
stands; what is true of it alone is left out.

State: none.
"""

import os
import re

from .inspect_platforms import REMEDIES

_COPIES = {
    "OpenMP": re.compile(r"lib(gomp|omp|iomp5)\b|lib(iomp5md|omp140)|vcomp\d+"),
    "the C++ runtime": re.compile(r"lib(stdc|c)\+\+\.|msvcp\d+\b(?!_)"),
    "OpenBLAS": re.compile(r"lib(scipy_)?openblas"),
    "OpenSSL": re.compile(r"libcrypto\b"),
    "protobuf": re.compile(r"libprotobuf\b"),
    "oneTBB": re.compile(r"(lib)?tbb(12)?\."),
}
_LLVMS_OPENMP = re.compile(r"lib(omp|iomp5|iomp5md|omp140)\b")


def judge(files, add):
    """add(rule, file, message) makes a finding."""
    for platform in ("macOS", "Windows"):
        chosen = [file for file in files if file["platform"] == platform]
        for file in chosen:
            file["findings"] = [one for one in file["findings"] if one["severity"] != "note"]
        if len(chosen) > 1:
            _slots(chosen, add)
            _allocators(chosen, add)
            _runtimes(chosen, add)
            _copies(chosen, add)


def _whose(file):
    return file["package"] or os.path.basename(file["path"])


def _slots(files, add):
    """Two allocators that use one slot: the second takes the first's heap for its own."""
    users = {}
    for file in files:
        for machine in file["machine"].split(", "):
            for slot in file["tls_slots"]:
                users.setdefault((machine, slot), []).append(file)
    clashes = {}
    for (_, slot), found in users.items():
        for file in found if len(found) > 1 else ():
            slots, others = clashes.setdefault(id(file), (set(), set()))
            slots.add(slot)
            others.update(_whose(one) for one in found if one is not file)
    for file in files:
        if id(file) in clashes:
            slots, others = clashes[id(file)]
            slots = " and ".join(map(str, sorted(slots)))
            message = f"its mimalloc uses each thread's slot {slots}, as does that of "
            add("tls-slot-clash", file, message + ", ".join(sorted(others)))


def _allocators(files, add):
    found = [(file, one) for file in files for one in file["allocators"]]
    for file, one in found if len(found) > 1 else ():
        same = sum(other["name"] == one["name"] for _, other in found)
        message = f"it contains {one['name']}"
        if one["version"]:
            message += f" {one['version']}"
        add("several-allocators", file, message + (f", one of {same} here" if same > 1 else ""))
        file["findings"][-1]["remedy"] = REMEDIES["several-allocators"]


def _runtimes(files, add):
    runtimes = sorted({name for file in files for name in file["runtimes"]})
    if len(runtimes) < 2:
        return
    for file in files:
        other = [name for name in file["runtimes"] if name != "ucrt"]
        if other:
            message = f"its C runtime: {', '.join(other)}; here are {', '.join(runtimes)}"
            add("several-c-runtimes", file, message)


def _copies(files, add):
    for what, form in _COPIES.items():
        found = [file for file in files if form.match(_base(file))]
        for file in found if len(found) > 1 else ():
            add("several-copies", file, f"one of {len(found)} copies of {what}")
    found = [file for file in files if _LLVMS_OPENMP.match(_base(file))]
    for file in found if len(found) > 1 else ():
        message = f"one of {len(found)} runtimes of LLVM's or Intel's OpenMP"
        others = {name for other in found if other is not file for name in other["joined"]}
        if others.intersection(file["joined"]):
            # infomap 588, pytorch 121101: the other's functions do not find its threads.
            message += ", and has functions that dyld takes from another of them (weak names)"
        add("several-openmps", file, message)


def _base(file):
    return os.path.basename(file["path"]).lower()
