"""Writes compile commands for clang-tidy: of each source file of the rooms, those that make a part
of homefree. clang-tidy looks at a file as often as it has commands, and tests compile many of our
files again.

usage: tidy_commands.py SOURCE-DIRECTORY BUILD-DIRECTORY OUTPUT-DIRECTORY

Prints the files, each with a NUL after it, the largest first: they take the longest.
"""

import collections
import json
import pathlib
import sys

ROOMS = ("alloc", "shim", "loader", "satellites")


def macros(command):
    """What can make one compilation of a file differ from another."""
    return frozenset(word for word in command["command"].split() if word.startswith(("-D", "-U")))


def main():
    source, build, output = map(pathlib.Path, sys.argv[1:])
    source = source.resolve()
    of_file = collections.defaultdict(list)
    for command in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        file = (pathlib.Path(command["directory"]) / command["file"]).resolve()
        if file.is_relative_to(source) and file.relative_to(source).parts[0] in ROOMS:
            of_file[file].append(command)
    chosen = []
    for commands in of_file.values():
        own = [one for one in commands if not one["output"].startswith("tests/")] or commands[:1]
        chosen += {macros(one): one for one in own}.values()
    (output / "compile_commands.json").write_text(json.dumps(chosen), encoding="utf-8")
    for file in sorted(of_file, key=lambda file: -file.stat().st_size):
        print(file, end="\0")


if __name__ == "__main__":
    main()
