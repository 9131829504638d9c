# SPDX-License-Identifier: BSD-2-Clause
"""`homefree inspect --root`: a file system that is not this one, below a directory or in the tar
file of an image, which is unpacked for as long as the command runs. Links lead to places in it;
nothing of it is run.

State: the directory of an unpacked image. One thread.
"""

import errno
import os
import re
import shutil
import signal
import stat
import tempfile

_LINKS_MAX = 40
_PACKAGES = "site-packages", "dist-packages"
_LIBC = [
    f"{directory}/libc.so.6"
    for directory in (f"lib/{os.uname().machine}-linux-gnu", "lib64", "usr/lib64", "lib", "usr/lib")
]
_LIBC_MOST = 16 << 20
_LIBC_VERSION = re.compile(rb"GNU C Library \([^)]*\) \w+ release version (\d{1,9}\.\d{1,9})\b")


class Root:
    def __init__(self, path):
        """path: a directory, or an image, for which unpack() is required."""
        self.image = not os.path.isdir(path)
        self._path = path
        self._temporary = None
        self.directory = os.path.realpath(path).rstrip("/")

    def unpack(self, reader, wait):
        """Result: why it cannot be read, if it cannot."""
        for number in signal.SIGTERM, signal.SIGHUP:
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, self._leave)
        self._temporary = os.path.realpath(tempfile.mkdtemp(prefix="homefree-"))
        self.directory = f"{self._temporary}/root"
        *_, problems = reader.read(self._path, True, wait, self._temporary)
        return [why for _, why in problems]

    def end(self):
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _leave(self, number, _):
        """Ends the process as the signal would, without what was unpacked; the reader ends when it
        writes there."""
        self.end()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def inside(self, path):
        """A path that is below the directory, as it is in the file system."""
        return path[len(self.directory) :] or "/"

    def shown(self, path):
        if not path.startswith(self.directory):
            return path
        start = self._path.rstrip("/") + ("!" if self.image else "")
        return start + path[len(self.directory) :]

    def resolve(self, inside):
        """Where a path of the file system is, without links. Raises OSError."""
        way, pending, links = [], inside.split("/")[::-1], 0
        while pending:
            part = pending.pop()
            if part == "..":
                way = way[:-1]
            elif part not in ("", "."):
                try:
                    target = os.readlink("/".join([self.directory, *way, part]))
                except OSError as error:
                    if error.errno not in (errno.EINVAL, errno.ENOENT):
                        raise
                    way.append(part)
                    continue
                links += 1
                if links > _LINKS_MAX:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                way = [] if target.startswith("/") else way
                pending += target.split("/")[::-1]
        return "/".join([self.directory, *way])

    def environments(self):
        """The directories in which Pythons have packages, in the order of their names."""
        pending = [self.directory or "/"]
        while pending:
            path = pending.pop()
            if os.path.basename(path) in _PACKAGES:
                yield path
                continue
            try:
                with os.scandir(path) as entries:
                    below = [one.path for one in entries if one.is_dir(follow_symlinks=False)]
            except OSError:
                continue
            kernels = [f"{self.directory}/{name}" for name in ("proc", "sys")]
            pending += sorted(set(below).difference(kernels), reverse=True)

    def glibc(self):
        """The version of its glibc, "2.36"; None: it has none."""
        for name in _LIBC:
            try:
                path = self.resolve(name)
                file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                continue
            with open(file, "rb") as libc:
                if stat.S_ISREG(os.fstat(file).st_mode):
                    found = _LIBC_VERSION.search(libc.read(_LIBC_MOST))
                    if found:
                        return found[1].decode()
        return None
