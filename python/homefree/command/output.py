# SPDX-License-Identifier: BSD-2-Clause
"""Where results go: files, which change as a whole or not at all, and stdout.

State: none; the file beside a result while it is written. One thread.
"""

import json
import os
import re
import stat
import sys

from .start import Failure

_SURROGATES = re.compile("[\ud800-\udfff]")


def head(options, name):
    """What a document of the command's begins with. options: `version` and `format`."""
    version, form = options["version"][0], int(options["format"][0])
    return {"homefree": {"version": version, "document": name, "format": form}}


def document(what):
    """A JSON document, as bytes. What was no text is U+FFFD."""
    text = json.dumps(what, indent=2, ensure_ascii=False)
    return (_SURROGATES.sub("\ufffd", text) + "\n").encode()


def write(path, data):
    """Writes bytes to a file; "-" is stdout. As hf_command_write() does (loader/command/command.h):
    a regular file is replaced and keeps its permissions, one that has these bytes is not touched,
    links keep leading to the file, and devices and pipes are written to."""
    if path == "-":
        _print(data)
        return
    try:
        try:
            status = os.stat(path)
        except FileNotFoundError:
            mask = os.umask(0)
            os.umask(mask)
            _replace(os.path.realpath(path), 0o666 & ~mask, data)
            return
        if not stat.S_ISREG(status.st_mode):
            with open(os.open(path, os.O_WRONLY), "wb") as file:
                file.write(data)
        elif not _holds(path, status.st_size, data):
            _replace(os.path.realpath(path), stat.S_IMODE(status.st_mode), data)
    except OSError as error:
        raise Failure(f"cannot write '{path}': {error.strerror}") from None


def _print(data):
    if sys.stdout is None:
        raise Failure("cannot write to stdout: it is closed")
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # What is left in the buffer must not be tried again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise Failure(f"cannot write to stdout: {error.strerror}") from None


def _holds(path, size, data):
    try:
        with open(path, "rb") as file:
            return size == len(data) and file.read() == data
    except OSError:
        return False


def _replace(path, mode, data):
    import tempfile  # takes as long as all the rest

    directory, name = os.path.split(path)
    descriptor, beside = tempfile.mkstemp(prefix=f"{name}.", dir=directory or ".")
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.chmod(beside, mode)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
