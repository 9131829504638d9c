# SPDX-License-Identifier: BSD-2-Clause
"""Files of extension modules, which the dynamic linker loads from a directory of this process.

The directory is the user's alone, on a file system from which code may be mapped, and in a place
where nobody else can put another in its stead. It goes when its process ends; what a process leaves
that was killed, the next one removes that makes a directory there: who uses a directory has it
locked.

Directory has no lock: its importer makes one file at a time. Fork: the child uses the parent's
files, and makes a directory of its own for new ones.
"""

import atexit
import contextlib
import fcntl
import os
import shutil
import stat
import tempfile

from ._package_errors import PackageError, error

_PREFIX = "homefree-package-modules-"


def _why_unfit(path):
    """Why code cannot be loaded from a directory there, or None if it can."""
    status = os.stat(path)
    if status.st_uid not in (0, os.geteuid()):
        return "it is another user's"
    if status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX:
        return "other users may replace what is in it"
    return "it is mounted noexec" if os.statvfs(path).f_flag & os.ST_NOEXEC else None


def _locked(path):
    """A descriptor of a directory of ours, which is locked; None if somebody uses it."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with contextlib.suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        held = os.fstat(fd)
        ours = held.st_uid == os.geteuid() and held.st_mode == stat.S_IFDIR | 0o700
        if ours and os.path.samestat(held, os.lstat(path)):
            return fd
    os.close(fd)
    return None


def _clean(place):
    """Remove the directories of processes that have ended."""
    for name in os.listdir(place):
        path = os.path.join(place, name)
        with contextlib.suppress(OSError):
            if name.startswith(_PREFIX) and os.stat(path).st_uid == os.geteuid():
                fd = _locked(path)
                if fd is not None:
                    shutil.rmtree(path, ignore_errors=True)
                    os.close(fd)


def _make(package):
    why = []
    is_privileged = os.geteuid() != os.getuid() or os.getegid() != os.getgid()
    named = [] if is_privileged else map(os.environ.get, ("XDG_RUNTIME_DIR", "TMPDIR"))
    for place in (*named, "/tmp", "/var/tmp"):
        if not place or not os.path.isabs(place):
            continue
        try:
            unfit = _why_unfit(place)
            if unfit is None:
                with contextlib.suppress(OSError):
                    _clean(place)
                for _ in range(10):  # another process may have taken it for one that is left
                    path = tempfile.mkdtemp(prefix=_PREFIX, dir=place)
                    with contextlib.suppress(FileNotFoundError):
                        if _locked(path) is not None:  # until the process ends
                            return path
                unfit = "it cannot be locked"
        except OSError as failed:
            unfit = failed.strerror
        why.append(f"{place}: {unfit}")
    raise error(
        PackageError,
        f"there is no place for its extension modules ({'; '.join(why)})",
        "set TMPDIR to a directory of your own, on a file system that is not mounted noexec",
        package=package,
    )


def _remove(path, maker):
    if os.getpid() == maker:
        shutil.rmtree(path, ignore_errors=True)


class Directory:
    """The files of one reader's extension modules."""

    def __init__(self, package):
        self._package, self._path, self._maker = package, None, None

    def place(self, member, data):
        """Write a member there. Returns the file's path."""
        if self._maker != os.getpid():
            self._path, self._maker = _make(self._package), os.getpid()
            # Before the interpreter's end, and not when the reader goes: modules may still be used.
            atexit.register(_remove, self._path, self._maker)
        path = os.path.join(self._path, member)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        return path
