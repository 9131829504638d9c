# SPDX-License-Identifier: BSD-2-Clause
"""Where a compiler looked for headers and did not find them: a file that appears there would be
read in place of another. The compiler does not report it, so the #include lines of what it read
are looked up again, in the directories that it names. Nothing here keeps state.
"""

import os
import re
import subprocess

# Inactive lines count, too: what they name is looked at needlessly, and nothing is missed.
_DIRECTIVE = re.compile(
    rb"(?:^[ \t]*#[ \t]*|(__has_))(include|import|embed)(_next)?[ \t(]*([<\"])([^<>\"\n\0]+)",
    re.MULTILINE,
)


def directories(command, environment):
    """The directories that a compiler's command searches: (those for "names" alone, those for all).
    A compiler that does not list them as GCC does has none."""
    done = subprocess.run(
        command,
        env={**environment, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    missing, quoted, angled = [], [], []
    found = None
    for line in os.fsdecode(done.stderr).split("\n"):
        if line.startswith("ignoring nonexistent directory "):
            missing.append(line.split('"')[1])
        elif line.startswith("#include "):
            found = quoted if '"' in line else angled
        elif not line.startswith(" "):
            found = None
        elif found is not None:
            found.append(line[1:])
    # Nothing is found in a directory that is missing, so its place does not matter.
    lists = quoted, [*missing, *angled]
    return tuple(
        [os.path.realpath(path) if ".." in path else path for path in paths if path[:1] == "/"]
        for paths in lists
    )


class Lookups:
    """What was found and what was not: absent has the paths that do not exist, each shortened to
    the first part that does not; present has the files that were found, asked those of them that
    __has_include found, which the compiler need not have read."""

    def __init__(self):
        self.absent, self.present, self.asked, self._known = {}, {}, {}, {}

    def add(self, files, quoted, angled):
        """Look up what the files, all that a compiler has read, include."""
        names = {}
        for file in files:
            with open(file, "rb") as opened:
                for asks, _, after, mark, name in _DIRECTIVE.findall(opened.read()):
                    near = os.path.dirname(file) if mark == b'"' and not after else ""
                    names.setdefault((near, os.fsdecode(name), bool(asks), bool(after)))
        for near, name, asks, after in names:
            for directory in (near, *quoted, *angled) if near else angled:
                path = f"{directory}/{name}"
                if self._is_file(path):
                    if asks:
                        self.asked.setdefault(path)
                    # The search for the next one starts anywhere, so all of it is looked at.
                    if not after:
                        break
        # Those that a macro names.
        found = {os.path.normpath(path) for path in self.present}
        search = [*quoted, *angled]
        for file in files:
            for place, directory in enumerate(search):
                if os.path.normpath(file) not in found and file.startswith(directory + "/"):
                    for earlier in search[:place]:
                        self._is_file(earlier + file[len(directory) :])

    def _is_file(self, path):
        is_file = self._known.get(path)
        if is_file is None:
            is_file = self._known[path] = os.path.isfile(path)
            if is_file:
                self.present.setdefault(path)
            elif not os.path.exists(path):
                self.absent.setdefault(self._shortened(path))
        return is_file

    def _shortened(self, path):
        directory = os.path.dirname(path)
        key = directory + "/"
        if key not in self._known:
            self._known[key] = os.path.exists(directory)
        return path if self._known[key] else self._shortened(directory)
