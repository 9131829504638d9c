# SPDX-License-Identifier: BSD-2-Clause
"""Core files as systemd-coredump and others keep them, packed: xz, gzip and bzip2 by Python's
standard library, zstd and lz4 by the programs of these names.

What is unpacked is a file without a name, with holes where there is nothing but zeros, which a core
file has many of.

State: none. One thread.
"""

import bz2
import contextlib
import gzip
import lzma
import os
import shutil
import subprocess
import tempfile
import zlib

from .start import Failure

_MOST = 16 << 30
_PIECE = 1 << 20
_MEMORY = 256 << 20  # xz -9 takes 65 MB; 4 GiB are possible
_HOLE = 64 << 10


class _Xz:
    """As lzma.open(), which takes as much memory as the file says."""

    def __init__(self, file):
        self._file, self._xz = file, lzma.LZMADecompressor(memlimit=_MEMORY)

    def read(self, size):
        while not self._xz.eof:
            packed = self._file.read(size) if self._xz.needs_input else b""
            if self._xz.needs_input and not packed:
                raise EOFError("it is cut off")
            if data := self._xz.decompress(packed, size):
                return data
        return b""


@contextlib.contextmanager
def _xz(path):
    with open(path, "rb") as file:
        yield _Xz(file)


_KINDS = {
    b"\xfd7zXZ\0": _xz,
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
}


@contextlib.contextmanager
def unpacked(path):
    """A context: the path of a core file that is not packed."""
    kind = _kind(path)
    if kind is None:
        yield path
        return
    with _temporary() as file:
        try:
            with contextlib.ExitStack() as stack:
                _copy(stack.enter_context(_open(kind, path)), file)
        except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
            raise Failure(f"cannot unpack '{path}': {error}") from None
        yield f"/proc/self/fd/{file.fileno()}"


def _kind(path):
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise Failure(f"'{path}' is not a regular file")
        with open(path, "rb") as file:
            head = file.read(6)
    except OSError as error:
        raise Failure(f"cannot read '{path}': {error.strerror}") from None
    return next((kind for magic, kind in _KINDS.items() if head.startswith(magic)), None)


def _temporary():
    directory = os.environ.get("TMPDIR") or "/var/tmp"
    try:
        return tempfile.TemporaryFile(dir=directory)
    except OSError as error:
        raise Failure(f"cannot unpack into '{directory}': {error.strerror}; set TMPDIR") from None


@contextlib.contextmanager
def _open(kind, path):
    if callable(kind):
        with kind(path) as file:
            yield file
        return
    program = shutil.which(kind)
    if program is None:
        raise Failure(f"'{path}' is packed with {kind}: install it, or unpack the file")
    with (
        open(path, "rb") as packed,
        subprocess.Popen(
            [program, "-dc"], stdin=packed, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process,
    ):
        try:
            yield process.stdout
            if process.wait() != 0:
                raise Failure(f"cannot unpack '{path}': {kind} says that it is damaged")
        finally:
            process.kill()


def _copy(packed, file):
    size = 0
    while data := packed.read(_PIECE):
        if size + len(data) > _MOST:
            raise Failure("it has more than 16 GiB unpacked: unpack it, and give that file")
        for at in range(0, len(data), _HOLE):
            part = data[at : at + _HOLE]
            if part.count(0) != len(part):
                os.pwrite(file.fileno(), part, size + at)
        size += len(data)
    os.ftruncate(file.fileno(), size)
