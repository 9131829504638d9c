#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Makes wheels for free-threaded CPythons of one for all that have a GIL: the same files, but for
the extension, which the build has compiled for them too (Meson's option free_threaded).

usage: free_threaded.py WHEEL BUILD-DIRECTORY OUTPUT-DIRECTORY

The build directory is that of the wheel. Prints the path of each wheel that is made.
"""

import base64
import hashlib
import pathlib
import re
import sys
import zipfile

EXTENSIONS = ("homefree/_homefree", "homefree/harness/_unload")
SHARED = ".abi3.so"


def suffixes(build):
    """The ends of the extension's file names in the build directory, but for the shared one."""
    directory, name = (build / "python" / EXTENSIONS[0]).parent, "_homefree"
    found = [path.name[len(name) :] for path in directory.glob(name + ".cpython-*.so")]
    return sorted(found)


def record(files, path):
    lines = []
    for name, (_, data) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join([*lines, f"{path},,\n"]).encode()


def make(wheel, build, output, suffix):
    version = re.match(r"\.cpython-(3\d+t)-", suffix)[1]
    tags = f"cp{version[:-1]}-cp{version}"
    with zipfile.ZipFile(wheel) as archive:
        files = {one.filename: (one, archive.read(one)) for one in archive.infolist()}
    for name in EXTENSIONS:
        member, _ = files.pop(name + SHARED)
        member.filename = name + suffix
        files[member.filename] = member, (build / "python" / member.filename).read_bytes()
    (info,) = (name.rpartition("/")[0] for name in files if name.endswith(".dist-info/WHEEL"))
    member, text = files[f"{info}/WHEEL"]
    text, count = re.subn(rb"(?m)^Tag: cp\d+-abi3-", f"Tag: {tags}-".encode(), text)
    assert count, text
    files[f"{info}/WHEEL"] = member, text
    member, _ = files.pop(f"{info}/RECORD")
    files[f"{info}/RECORD"] = member, record(files, f"{info}/RECORD")
    path = output / re.sub(r"-cp\d+-abi3-", f"-{tags}-", wheel.name)
    assert path.name != wheel.name, path
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in files.values():
            archive.writestr(member, data)
    return path


def main():
    wheel, build, output = map(pathlib.Path, sys.argv[1:])
    output.mkdir(parents=True, exist_ok=True)
    for suffix in suffixes(build):
        print(make(wheel, build, output, suffix))


if __name__ == "__main__":
    main()
