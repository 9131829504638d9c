# SPDX-License-Identifier: BSD-2-Clause
"""The members of a package as a tree, for people and for importlib.resources. Nothing here keeps
state beyond what it is given."""

from __future__ import annotations

import io

from ._names import matches


class Directory:
    """A directory of a package, or a file in it. name: the last part of its path. is_dir: whether
    it is a directory. children: {name: Directory}. str() draws it. Since 1.0."""

    def __init__(self, name: str, is_dir: bool) -> None:
        self.name: str = name
        self.is_dir: bool = is_dir
        self.children: dict[str, Directory] = {}

    def has_file(self, path: str) -> bool:
        """Whether there is a file with that path, which has slashes. Since 1.0."""
        found = self
        for part in path.split("/"):
            found = found.children.get(part)
            if found is None:
                return False
        return not found.is_dir

    def _lines(self, indent):
        yield self.name
        # Directories first, as listings have them.
        children = sorted(self.children.values(), key=lambda one: (not one.is_dir, one.name))
        for child in children:
            is_last = child is children[-1]
            start, rest = ("└── ", "    ") if is_last else ("├── ", "│   ")
            lines = child._lines(indent + rest)
            yield f"{indent}{start}{next(lines)}"
            yield from lines

    def __str__(self) -> str:
        return "\n".join(self._lines("")) + "\n"

    def __repr__(self) -> str:
        return f"<{'directory' if self.is_dir else 'file'} {self.name!r} of a package>"


def covered(patterns, path):
    """Whether a pattern stands for a path. `*` in a pattern stands for any characters of a part, a
    part `**` for any number of parts."""
    return any(matches(one, path, "/") for one in patterns)


def tree(name, members, include=("**",), exclude=()):
    """A Directory of the members whose paths a pattern stands for."""
    root = Directory(name, True)
    for member in members:
        if not covered(include, member) or covered(exclude, member):
            continue
        at = root
        *directories, last = member.split("/")
        for directory in directories:
            at = at.children.setdefault(directory, Directory(directory, True))
        at.children[last] = Directory(last, False)
    return root


class Traversable:
    """A directory or a file of a package, for importlib.resources.files()."""

    def __init__(self, members, read, path):
        self._members, self._read, self._path = members, read, path

    @property
    def name(self):
        return self._path.rpartition("/")[2]

    def is_file(self):
        return self._path in self._members

    def is_dir(self):
        return any(one.startswith(self._path + "/") for one in self._members)

    def iterdir(self):
        start = self._path + "/"
        found = (one[len(start) :] for one in self._members if one.startswith(start))
        return iter([self / one for one in sorted({one.partition("/")[0] for one in found})])

    def joinpath(self, *names):
        return Traversable(self._members, self._read, "/".join([self._path, *map(str, names)]))

    __truediv__ = joinpath

    def read_bytes(self):
        return self.open("rb").read()

    def read_text(self, encoding="utf-8", errors="strict"):
        return self.open("r", encoding=encoding, errors=errors).read()

    def open(self, mode="r", *, encoding="utf-8", errors="strict", **_):
        if not self.is_file():
            raise FileNotFoundError(f"the package has no file {self._path}")
        file = io.BytesIO(self._read(self._path))
        return file if "b" in mode else io.TextIOWrapper(file, encoding=encoding, errors=errors)

    def __repr__(self):
        return f"<{self._path!r} of a package>"


def resource_reader(*place):
    """For importlib.resources, in all of its forms since 3.9."""
    try:
        from importlib.resources.abc import TraversableResources  # 3.11 and later
    except ImportError:
        from importlib.abc import TraversableResources

    class ResourceReader(TraversableResources):
        def files(self):
            return Traversable(*place)

    return ResourceReader()
