# SPDX-License-Identifier: BSD-2-Clause
"""The entries of the cache: found by content, built, kept and removed.

_index.find() believes identities alone. Here files whose identity has changed are read: a
module whose content and sources hash to what its record says still answers the request.

Everything is written under another name, then renamed, with the module's lock held.
"""

import contextlib
import hashlib
import os
import shlex
import shutil
import time

from . import _index, _ninja
from ._compilers import version
from ._errors import BuildError, explained
from ._files import ABSENT, Hashes, identity, which
from ._lock import Lock
from ._record import Record
from ._terminal import Terminal

# How often a build is repeated because a file changed while it was compiled.
_ATTEMPTS = 5


def _check_directory(directory):
    """Raise BuildError if other users can put files there, FileNotFoundError if it is missing."""
    status = os.stat(directory)
    if status.st_uid != os.geteuid():
        why = f"it belongs to another user (uid {status.st_uid})"
    elif status.st_mode & 0o022:
        why = f"other users may write to it (mode {status.st_mode & 0o7777:o})"
    else:
        return
    raise BuildError(
        f"homefree does not use the cache directory {directory}: {why}, so they could replace the "
        "code that is loaded from it; run chmod go-w on it, or set HOMEFREE_BUILD_DIR to a "
        "directory of your own"
    )


def _make_directories(root, directory):
    os.makedirs(os.path.dirname(root), exist_ok=True)
    for path in (root, directory):
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        _check_directory(path)


def _same(request, hashes):
    """(entry, its record with the present identities) for the same content, or None."""
    for text, entry, _ in _index.read(request.directory):
        if text != request.text:
            continue
        record = Record.read(f"{request.directory}/{entry}/record")
        record = record and record.refreshed(f"{request.directory}/{entry}", hashes)
        if record:
            return entry, record
    return None


def find(request):
    """The path of a cached module with the same content, or None. Writes nothing."""
    try:
        _check_directory(request.root)
        _check_directory(request.directory)
    except OSError:
        return None
    found = _same(request, Hashes())
    return f"{request.directory}/{found[0]}/{found[1].file}" if found else None


def find_or_build(request, verbose):
    """The path of a cached module with the same content, built if there is none.

    Waits if another process builds it. Raises BuildError.
    """
    for path in request.sources:
        if not os.path.isfile(path):
            raise BuildError(
                f"homefree cannot build {request.name!r}: there is no file {path}; check the path "
                "(relative ones start at the current directory)",
                name=request.name,
            )
    say = Terminal(verbose)
    with explained(request.root):
        _make_directories(request.root, request.directory)
        with Lock(request.directory, request.name, say):
            return request.find() or _found_again(request) or _build(request, say)


def _found_again(request):
    found = _same(request, Hashes())
    if found is None:
        return None
    entry, record = found
    record.write(f"{request.directory}/{entry}/record")
    return _answered(request, entry, record)


def _answered(request, entry, record):
    """Put an entry first in the index. Returns its module's path."""
    directory = request.directory
    kept = _index.put(directory, entry, request.text, record)
    # Removes the oldest, and any that a killed process did not get to put into the index.
    for name in os.listdir(directory):
        if (
            name not in kept
            and os.path.isdir(f"{directory}/{name}")
            and not name.startswith("build-")
        ):
            _remove(f"{directory}/{name}")
    return f"{directory}/{entry}/{record.file}"


def _build(request, say):
    directory = request.directory
    # The holder of the lock is the only one that builds: these are remains.
    for name in os.listdir(directory):
        if name.startswith("build-") or name.endswith(".new"):
            _remove(f"{directory}/{name}")
    before = {}
    for _ in range(_ATTEMPTS):
        work = f"{directory}/build-{os.getpid()}-{time.time_ns()}"
        os.mkdir(work, 0o700)
        try:
            start = os.stat(work).st_ctime_ns
            module, files, lookups = _ninja.build(request, work, say)
            after = {path: identity(path) for path in (*files, *lookups.present)}
            # A file that changed after the start may have been compiled with either content, or
            # without it. If the clock of a file server is ahead, the second attempt sees the same
            # identities.
            if all(
                now != ABSENT and int(now.rpartition(" ")[2]) <= start or before.get(path) == now
                for path, now in after.items()
            ):
                read = {path: after[path] for path in files}
                return _keep(request, work, module, read, lookups.absent)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        before = after
    raise BuildError(
        f"homefree cannot build {request.name!r}: its sources change while they are compiled; "
        "try again when nothing writes to them"
    )


def _keep(request, work, module, after, absent):
    """Make an entry of what was built. Returns the module's path."""
    hashes = Hashes()
    compilers = []
    for command in request.compilers.values():
        path = which(command)
        compilers.append((command, path, identity(path), version(command, path)))
        # `ccache gcc` is two programs.
        for word in shlex.split(command)[1:]:
            path = None if word.startswith("-") else which(shlex.quote(word))
            if path is not None:
                after[path] = identity(path)
    files = [(path, was, hashes.of(path)) for path, was in after.items()]
    files += ((path, ABSENT, "") for path in absent)
    made_of = repr((request.text, [line[::2] for line in files], [line[3] for line in compilers]))
    entry = hashlib.sha256(os.fsencode(made_of)).hexdigest()[:16]
    inside = f"{work}/entry"
    os.mkdir(inside, 0o700)
    file = os.path.basename(module)
    path = f"{inside}/{file}"
    os.rename(module, path)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    record = Record(file, identity(path), hashes.of(path), compilers, files)
    record.write(f"{inside}/record")
    _remove(f"{request.directory}/{entry}")  # a damaged one
    os.rename(inside, f"{request.directory}/{entry}")
    return _answered(request, entry, record)


def _remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
