"""Telling files apart, and writing them whole. Nothing here keeps state but Hashes, which one
thread uses at a time."""

import contextlib
import hashlib
import os

# The identity of what is not there.
ABSENT = "absent"


def identity(path):
    """The part of stat() that changes whenever the file does, as text. warm.c builds the same."""
    try:
        status = os.stat(path)
    except OSError:
        return ABSENT
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


class Hashes:
    """SHA-256 of files; each is read once."""

    def __init__(self):
        self._known = {}

    def of(self, path):
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
        with contextlib.suppress(OSError):
            os.unlink(other)
        raise
