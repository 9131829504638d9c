# SPDX-License-Identifier: BSD-2-Clause
"""Telling files apart, finding programs, and writing files whole. A warm load() executes it, so it
imports nothing that a bare Python has not loaded already. Nothing here keeps state but Hashes,
which one thread uses at a time."""

import os

# The identity of what is not there.
ABSENT = "absent"


def identity(path):
    """The part of stat() that changes whenever the file does, as text."""
    try:
        status = os.stat(path)
    except OSError:
        return ABSENT
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def program_of(command):
    """The first word of a command."""
    if "'" in command or '"' in command or "\\" in command:
        import shlex

        return shlex.split(command)[0]
    return command.partition(" ")[0]


def which(command):
    """The file that the first word of a command runs, or None."""
    word = program_of(command)
    if "/" in word:
        return word if os.access(word, os.X_OK) else None
    for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = f"{directory or '.'}/{word}"
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return None


class Hashes:
    """SHA-256 of files; each is read once."""

    def __init__(self):
        self._known = {}

    def of(self, path):
        import hashlib

        if path not in self._known:
            digest = hashlib.sha256()
            with open(path, "rb") as file:
                for block in iter(lambda: file.read(1 << 20), b""):
                    digest.update(block)
            self._known[path] = digest.hexdigest()
        return self._known[path]


def replace(path, text):
    """Write a file atomically: readers see the old content or the new, never a part."""
    other = f"{path}.{os.getpid()}.new"
    try:
        with open(other, "wb") as file:
            file.write(os.fsencode(text))
            file.flush()
            os.fsync(file.fileno())
        os.rename(other, path)
    except BaseException:
        if os.path.lexists(other):
            os.unlink(other)
        raise
