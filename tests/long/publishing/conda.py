#!/usr/bin/env python3
"""The conda recipes of homefree (packaging/conda) and of a module (examples/packages/conda), built,
installed and tested by rattler-build.

usage: conda.py [--build BUILD] [--work DIRECTORY]

rattler-build comes from the package index. A conda channel need not be within reach: the packages
that the recipes need are stand-ins in a channel of this test's own. `python` is a copy of this
CPython, `pip`, `setuptools` and `pybind11` are wheels, and the compilers, CMake, Meson, ninja, make
and pkg-config are empty, so that this machine's are used. jemalloc is taken from BUILD. Exit
status: 0 all went well, 1 something failed.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

from release import ROOT, run, unpacked

COMPILERS = ("gcc-here_linux-64", "gxx-here_linux-64", "sysroot-here_linux-64")
EMPTY = (*COMPILERS, "cmake", "make", "meson", "ninja", "pkg-config")
VARIANTS = {"c_compiler": ["gcc-here"], "cxx_compiler": ["gxx-here"], "c_stdlib": ["sysroot-here"]}


def stand_ins(channel, work):
    """The packages of the channel."""
    import rattler_build

    def package(name, version, content, depends=()):
        rattler_build.assemble_package(
            name,
            version,
            "linux-64",
            "0",
            channel / "linux-64",
            files_dir=content,
            depends=list(depends),
            compression_level=1,
            archive_type=rattler_build.ArchiveType.TarBz2,
        )

    (work / "empty/share").mkdir(parents=True)
    (work / "empty/share/stand-in").write_text("\n")
    for name in EMPTY:
        package(name, "1.0", work / "empty")

    version = "python{}.{}".format(*sys.version_info)
    python = work / "python"
    without = shutil.ignore_patterns(
        *("test", "tests", "idlelib", "turtledemo", "tkinter", "lib2to3", "config-*", "ensurepip"),
        *("site-packages", "dist-packages", "__pycache__"),
    )
    base = pathlib.Path(sys.base_prefix)
    shutil.copytree(base / "lib" / version, python / "lib" / version, ignore=without)
    for library in (base / "lib").glob("libpython3*.so*"):
        shutil.copy2(library, python / "lib", follow_symlinks=False)
    shutil.copytree(base / "include" / version, python / "include" / version)
    (python / "bin").mkdir()
    shutil.copy2(os.path.realpath(sys._base_executable), python / "bin" / version)
    for link in "python", "python3":
        (python / "bin" / link).symlink_to(version)
    package("python", "{}.{}.{}".format(*sys.version_info), python)

    for name in "pip", "setuptools", "pybind11":
        site = work / name / "lib" / version / "site-packages"
        run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", site, name)
        package(name, "1.0", work / name, ["python"])


def inside(options):
    """Runs where rattler-build is installed."""
    import rattler_build

    work = options.work / "conda"
    shutil.rmtree(work, ignore_errors=True)
    channel = work / "channel"
    (channel / "linux-64").mkdir(parents=True)
    print("making the channel …", flush=True)
    stand_ins(channel, work)
    tree = unpacked(work)
    (tree / ".gitignore").unlink()  # nothing in a recipe's source is to be ignored
    for recipe in "packaging/conda", "examples/packages/conda":
        print(f"building {recipe} …", flush=True)
        file = tree / recipe / "recipe.yaml"
        if options.build:
            text = file.read_text()
            more = f"meson setup build -Djemalloc_build={options.build.resolve()} "
            file.write_text(text.replace("meson setup build ", more))
        try:
            rattler_build.build_recipes(
                [file],
                channel=[channel.as_uri()],
                variant_overrides=VARIANTS,
                output_dir=channel,
                package_format="tar-bz2:1",
                test="native",
                use_sharded=False,
            )
        except rattler_build.RattlerBuildError as error:
            log = channel / "rattler-build-log.txt"
            said = log.read_text()[-4000:] if log.exists() else ""
            sys.exit(f"{said}\nconda: failed: {recipe}: {error}")
    print("homefree's package and the module's: built, installed and tested by rattler-build")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/long/publishing")
    parser.add_argument("--inside", action="store_true")
    options = parser.parse_args()
    if options.inside:
        inside(options)
        return 0
    # It needs the copy of a CPython of its own, which Debian's is not.
    tools = options.work / "rattler"
    if not (tools / "ready").exists():
        run(sys.executable, "-m", "venv", tools)
        run(tools / "bin/pip", "install", "-q", "py-rattler-build < 0.75")
        (tools / "ready").touch()
    words = [tools / "bin/python", __file__, "--inside", "--build", options.build, "--work"]
    return subprocess.run([*words, options.work]).returncode


if __name__ == "__main__":
    sys.exit(main())
