#!/usr/bin/env python3
"""packaging/vcpkg, by a double of vcpkg, and packaging/consumer against what it installs.

usage: vcpkg.py [--work DIRECTORY]

vcpkg is not within reach of a machine that sees package indexes alone, so vcpkg_double.cmake beside
this file stands for the commands that a portfile calls. What vcpkg itself checks after a build is
not checked. Takes some minutes. Exit status: 0 all went well, 1 something failed.
"""

import argparse
import json
import pathlib
import shutil

from release import ROOT, commands, run, unpacked

HERE = pathlib.Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/long/publishing")
    work = parser.parse_args().work.resolve() / "vcpkg"
    shutil.rmtree(work, ignore_errors=True)
    packaging = unpacked(work) / "packaging"
    manifest = json.loads((packaging / "vcpkg/vcpkg.json").read_text())
    words = [f"-DPORT={manifest['name']}", f"-DVERSION={manifest['version']}", f"-DWORK={work}"]
    words += [f"-DPORT_DIRECTORY={packaging / 'vcpkg'}", "-P", HERE / "vcpkg_double.cmake"]
    run("cmake", *words)
    # vcpkg lays packages together in a directory of its own.
    installed = work / "installed"
    (work / "packages").rename(installed)
    for name in "copyright", "usage":
        assert (installed / "share/homefree" / name).stat().st_size > 0, name
    variables = commands.environment(
        CMAKE_PREFIX_PATH=installed, PKG_CONFIG_PATH=installed / "lib/pkgconfig"
    )
    run(packaging / "consumer/try.sh", work / "consumer", env=variables)
    print("built by a double of vcpkg, and used by a project of CMake and one of Meson")


if __name__ == "__main__":
    main()
