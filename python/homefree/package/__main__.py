# SPDX-License-Identifier: BSD-2-Clause
"""python -m homefree.package show|verify FILE: what is in a package, and whether it is whole."""

import argparse
import sys

from ._package_errors import PackageError
from ._reader import Reader


def _show(reader, _):
    print(reader.file_structure(), end="")
    print(f"sha256 of the manifest: {reader.sha256}")
    print("needs:", ", ".join(reader.extern_modules()) or "nothing but the standard library")
    members = reader._manifest.members
    for name, member in sorted(members.items()):
        print(f"{member['kind']:10} {member['size']:12} {name}")


def _verify(reader, _):
    reader.verify()
    print(f"{reader.path} is whole; sha256 of the manifest: {reader.sha256}")


def main() -> int:
    """Returns an exit status: 0, 1 if the package is damaged, 3 if it cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m homefree.package", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, function, text in (
        ("show", _show, "show the members and what it needs; runs nothing of it"),
        ("verify", _verify, "compare the hash of every member"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("file", metavar="FILE")
        command.set_defaults(function=function)
    arguments = parser.parse_args()
    try:
        with Reader(arguments.file) as reader:
            arguments.function(reader, arguments)
    except PackageError as failed:
        print(failed, file=sys.stderr)
        return 1
    except OSError as failed:
        print(f"homefree: {arguments.file}: {failed.strerror}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
