# SPDX-License-Identifier: BSD-2-Clause
"""What was found in shared objects, kept for the user's next `homefree inspect --environment`: a
file for each build of homefree in homefree/inspected below XDG_CACHE_HOME, or below .cache in HOME.

An entry is used while the object, the libraries that are loaded with it, and the dynamic linker's
own cache are the same files, unchanged, and none has come that would be preferred. The directory
and the file belong to the user and only the user can write to them, which is checked at each use.
Whatever is wrong with a file, it is as if there were none. An entry is a line: its key, the digest
of the rest, and the rest, in JSON.

State: the entries, and which of them this run uses. One thread.
"""

import contextlib
import hashlib
import json
import os
import stat
import time

_MOST = 32 << 20  # bytes of a file; it begins anew with what one run uses
_OLD = 7 * 86400  # seconds after which the file of another build is removed
_RECENT = 2 * 10**9  # nanoseconds in which a file may change unnoticed
_LINKERS = "/etc/ld.so.cache"


class Cache:
    def __init__(self, command, asked):
        """command: homefree's own path; asked: what objects are asked beyond the usual."""
        self._identities, self._lines = {}, {}
        self._used, self._new = set(), []  # keys; lines
        self._directory = None
        build = repr((command, self._identity(command)))
        self._common = repr((build, asked, self._identity(_LINKERS)))
        self._name = _digest(build.encode("utf-8", "replace")).decode()[:16]
        if os.getuid() == os.geteuid():
            with contextlib.suppress(OSError):
                self._directory = _open_directory()
                self._read()

    def find(self, path):
        """What was found in an object; None if it is not known, or something has changed."""
        key = self._key(path)
        digest, _, rest = self._lines.get(key, b"").partition(b" ")
        if not rest or _digest(rest) != digest:
            return None
        entry = json.loads(rest)
        if any(self._identity(each) != identity for each, identity in entry["read"]):
            return None
        self._used.add(key)
        return entry["file"]

    def keep(self, path, file, read, missed):
        """Keeps what was found in an object that was not known. read: the libraries that were read
        for it; None: one was not there, and may be later. missed: where none was."""
        if self._directory is None or file["error"] is not None or read is None:
            return
        if all(map(self._is_settled, [path, *read, *filter(self._identity, missed)])):
            read = [[each, self._identity(each)] for each in (*read, *missed)]
            rest = json.dumps({"read": read, "file": file}).encode()
            self._new.append(b"%b %b %b" % (self._key(path), _digest(rest), rest))

    def end(self):
        """Writes what was not known."""
        if self._directory is not None:
            with contextlib.suppress(OSError):
                self._write()
            os.close(self._directory)
            self._directory = None

    # ---- entries -----------------------------------------------------------------------------

    def _identity(self, path):
        """What changes with a file; None: it is not there."""
        if path not in self._identities:
            try:
                of = os.stat(path)
            except (OSError, ValueError):
                self._identities[path] = None
            else:
                times = of.st_mtime_ns, of.st_ctime_ns
                self._identities[path] = [of.st_dev, of.st_ino, of.st_size, *times]
        return self._identities[path]

    def _is_settled(self, path):
        """Whether the object cannot have changed after it was looked at without another time."""
        identity = self._identity(path)
        return identity is not None and identity[-1] < time.time_ns() - _RECENT

    def _key(self, path):
        return _digest(repr((self._common, path, self._identity(path))).encode("utf-8", "replace"))

    # ---- the file ----------------------------------------------------------------------------

    def _open(self, flags):
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(self._name, flags, 0o600, dir_fd=self._directory)
        try:
            _check(file, stat.S_ISREG)
        except OSError:
            os.close(file)
            raise
        return file

    def _read(self):
        with open(self._open(os.O_RDONLY), "rb") as file:
            content = file.read(_MOST + 1)
        for line in content.split(b"\n") if len(content) <= _MOST else ():
            key, _, rest = line.partition(b" ")
            self._lines[key] = rest

    def _write(self):
        if not self._new:
            return
        written = b"".join(line + b"\n" for line in self._new)
        file = self._open(os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        with open(file, "ab", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size + len(written) > _MOST:
                used = (key + b" " + self._lines[key] + b"\n" for key in self._used)
                written = b"".join(used) + written
                file.truncate(0)
            # A line of its own, also behind one that was cut short. Whole, for others who write.
            file.write(b"\n" + written)
        if size == 0:
            self._remove_old()

    def _remove_old(self):
        for name in os.listdir(self._directory):
            with contextlib.suppress(OSError):
                of = os.stat(name, dir_fd=self._directory, follow_symlinks=False)
                if of.st_mtime < time.time() - _OLD:
                    os.unlink(name, dir_fd=self._directory)


def _digest(data):
    return hashlib.sha256(data).hexdigest().encode()


def _open_directory():
    """The descriptor of the directory, which is made if it is missing."""
    base, own = os.environ.get("XDG_CACHE_HOME", "").rstrip("/"), os.geteuid()
    if not base.startswith("/"):
        home = os.environ.get("HOME", "")
        if not home.startswith("/"):
            raise FileNotFoundError
        base = f"{home}/.cache"
    for path in base, f"{base}/homefree", f"{base}/homefree/inspected":
        # With sudo, HOME may be another user's, who could not write to what root makes there.
        if not os.path.exists(path) and os.stat(os.path.dirname(path)).st_uid not in (0, own):
            raise PermissionError
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _check(directory, stat.S_ISDIR)
    except OSError:
        os.close(directory)
        raise
    return directory


def _check(descriptor, is_kind):
    """Raises OSError for what others can have written, or is of another kind."""
    of = os.fstat(descriptor)
    if not is_kind(of.st_mode) or of.st_uid != os.geteuid() or of.st_mode & 0o022:
        raise PermissionError
