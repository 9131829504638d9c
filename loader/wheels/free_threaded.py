#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Makes wheels for free-threaded CPythons of one for all that have a GIL: the same files, but for
the extension, which the build has compiled for them too (Meson's option free_threaded).

usage: free_threaded.py WHEEL BUILD-DIRECTORY OUTPUT-DIRECTORY

The build directory is that of the wheel. Prints the path of each wheel that is made.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python/backend"))
import wheel_file  # noqa: E402

EXTENSIONS = ("homefree/_homefree", "homefree/harness/_unload")
SHARED = ".abi3.so"


def suffixes(build):
    """The ends of the extension's file names in the build directory, but for the shared one."""
    directory, name = (build / "python" / EXTENSIONS[0]).parent, "_homefree"
    found = [path.name[len(name) :] for path in directory.glob(name + ".cpython-*.so")]
    return sorted(found)


def make(wheel, build, output, suffix):
    version = re.match(r"\.cpython-(3\d+t)-", suffix)[1]
    tags = f"cp{version[:-1]}-cp{version}"
    files = wheel_file.read(wheel)
    for name in EXTENSIONS:
        member, _ = files.pop(name + SHARED)
        member.filename = name + suffix
        files[member.filename] = member, (build / "python" / member.filename).read_bytes()
    path = wheel_file.tag(output / wheel.name, files, r"cp\d+-abi3", tags)
    wheel_file.write(path, files)
    return path


def main():
    wheel, build, output = map(pathlib.Path, sys.argv[1:])
    output.mkdir(parents=True, exist_ok=True)
    for suffix in suffixes(build):
        print(make(wheel, build, output, suffix))


if __name__ == "__main__":
    main()
