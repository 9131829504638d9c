#!/usr/bin/env python3
"""packaging/conan, by `conan create`, with packaging/consumer as its test_package.

usage: conan.py [--work DIRECTORY]

Conan comes from the package index. Its own index of recipes need not be within reach: Meson and
pkg-config are this machine's, which the profile says. Takes some minutes. Exit status: 0 all went
well, 1 something failed.
"""

import argparse
import pathlib
import re
import shutil
import sys

from release import ROOT, commands, run, unpacked

PROFILE = """
include(default)

[platform_tool_requires]
meson/1.99
pkgconf/2.0
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/long/publishing")
    options = parser.parse_args()
    tools = options.work.resolve() / "conan-tools"
    if not (tools / "ready").exists():
        run(sys.executable, "-m", "venv", tools)
        run(tools / "bin/pip", "install", "-q", "conan ~= 2.4")
        (tools / "ready").touch()
    work = options.work.resolve() / "conan"
    shutil.rmtree(work, ignore_errors=True)
    packaging = unpacked(work) / "packaging"
    environment = commands.environment(CONAN_HOME=work / "home")

    def conan(*words):
        return run(tools / "bin/conan", *words, env=environment)

    conan("profile", "detect")
    (work / "profile").write_text(PROFILE)
    version = packaging.parent.name.partition("-")[2]
    words = ["--version", version, "--no-remote", "--profile", work / "profile"]
    words += ["--test-folder", packaging / "consumer"]
    said = conan("create", packaging / "conan", *words)
    # CTest's line, and Meson's.
    if "100% tests passed" not in said or not re.search(r"Ok: +1\b", said):
        sys.exit(f"conan: the consumer was not tested\n{said[-6000:]}")
    print(
        "homefree's package: made by conan create, and used by a project of CMake and one of Meson"
    )


if __name__ == "__main__":
    main()
