# SPDX-License-Identifier: BSD-2-Clause
"""The lock of a module's directory in the cache: one process builds at a time.

It is flock(2), which the kernel drops when the process ends. The descriptors in _held belong to
this process alone; the child of a fork closes them. Threads: load() and build() keep threads that
want the same module apart; others take locks of their own.
"""

import fcntl
import os
import time

_held = set()


def _forget():
    """In the child of a fork: close the parent's locks, which would otherwise last as long as the
    child."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_forget)


class Lock:
    """Holds the lock of `directory` in a with statement. Reports on `say` if it has to wait."""

    def __init__(self, directory, name, say):
        self._path, self._name, self._say = directory + "/lock", name, say

    def _open(self):
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._path, flags, 0o600)
        _held.add(descriptor)
        return descriptor

    def _close(self, descriptor):
        # The child of a fork that happened while the lock was held has closed it already.
        if descriptor in _held:
            _held.discard(descriptor)
            os.close(descriptor)

    def _is_in_place(self, descriptor):
        """Whether the locked file is still the one in the directory, which may have been
        removed."""
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self._path))
        except FileNotFoundError:
            return False

    def _wait(self, descriptor):
        holder = os.read(descriptor, 100).decode("ascii", "replace").strip()
        self._say.line(f"waiting: {self._name} is being built by {holder or 'another process'}")
        fcntl.flock(descriptor, fcntl.LOCK_EX)

    def __enter__(self):
        while True:
            descriptor = self._open()
            try:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    self._wait(descriptor)
                if self._is_in_place(descriptor):
                    os.ftruncate(descriptor, 0)
                    since = time.strftime("%H:%M:%S")
                    os.pwrite(descriptor, f"process {os.getpid()} since {since}\n".encode(), 0)
                    break
            except BaseException:
                self._close(descriptor)
                raise
            self._close(descriptor)
        self._descriptor = descriptor
        return self

    def __exit__(self, *_):
        self._close(self._descriptor)
