# SPDX-License-Identifier: BSD-2-Clause
"""The index of a module's directory in the cache: a block for each request that was answered, the
latest first.

    homefree-index 1

    <tab>fast<tab>1<tab>/home/…/fast.c…     the request's text
    0123456789abcdef                        the entry that answered it
    fast.cpython-311-x86_64-linux-gnu.so    the module, and its identity()
    …
    3                                       the number of lines for compilers, three for each:
    cc                                          the program to look up, the file, its identity()
    …
    /home/…/fast.c                          then two lines for each other path to watch:
    …                                           the path, its identity() or ABSENT
                                            and an empty line

find() relies on identities alone, and every warm load() executes it, so nothing is imported here
that a bare Python has not loaded already. Packages (the system's, Python's, torch's) have
many headers, and replace files rather than write to them: of those, the directories are watched,
and so are directories in which many headers were looked for and not found.

Whoever writes it holds the module's lock. Threads: any may read.
"""

import os
import sys

from ._files import ABSENT, identity, program_of, replace, which

FIRST = "homefree-index 1\n\n"

# How many entries a module keeps: those that were built or found again last.
KEPT = 16

# So many paths that are absent from a directory are watched themselves: stat() of the directory
# would be faster, but also sees what has nothing to do with the module.
_FEW = 4


_MOST = 64 << 20  # bytes; an index takes a few kB, or some MB with thousands of headers


def _packaged():
    """The directories in which packages install headers, as prefixes of paths."""
    import sysconfig

    from .. import _directories, _paths

    directories = ["/usr/include", "/usr/lib", sysconfig.get_path("include")]
    directories.append(sysconfig.get_path("platinclude"))
    if _paths.CMAKE:  # homefree is installed, and not in its build directory
        directories += [_directories.get_include() + "/homefree", _directories.get_library_dir()]
    directories.append(os.path.join(os.environ.get("CUDA_HOME") or "/usr/local/cuda", "include"))
    if "torch" in sys.modules:
        directories.append(os.path.join(os.path.dirname(sys.modules["torch"].__file__), "include"))
    return tuple(os.path.normpath(directory) + "/" for directory in directories)


def _watched(record):
    """The lines of a block after the entry's."""
    lines = [record.file, record.module, str(3 * len(record.compilers))]
    for command, path, was, _ in record.compilers:
        lines += program_of(command), path, was
    directories, absent = {}, {}
    packaged = _packaged()
    for path, was, _ in record.files:
        if was == ABSENT:
            absent.setdefault(os.path.dirname(path), []).append(path)
        elif os.path.normpath(path).startswith(packaged):
            directories.setdefault(os.path.dirname(path))
        else:
            lines += path, was
    for directory, paths in absent.items():
        if len(paths) > _FEW:
            directories.setdefault(directory)
        elif directory not in directories:
            for path in paths:
                lines += path, ABSENT
    for path in directories:
        lines += path, identity(path)
    return lines


def _open(path, flags):
    return os.open(path, flags | os.O_NONBLOCK)  # what would block is no index


def read(directory):
    """[(request's text, entry, the lines after it)], the latest first; damaged blocks are left
    out."""
    try:
        with open(directory + "/index", "rb", buffering=0, opener=_open) as file:
            size = min(os.fstat(file.fileno()).st_size, _MOST)  # read() allocates what it is given
            blocks = os.fsdecode(file.read(size)).split("\n\n")
    except OSError:
        return []
    found = []
    # What follows a block shows that it is whole: another one, or the end.
    for block, following in zip(blocks, [*blocks[1:-1], blocks[-1] or "\t"]):
        lines = block.split("\n")
        is_whole = block[:1] == following[:1] == "\t" and "\0" not in block
        if is_whole and len(lines) > 4 and "/" not in lines[1]:
            found.append((lines[0][1:], lines[1], lines[2:]))
    return found


def _is_own(directory):
    """Whether no other user can create files in the directory."""
    try:
        status = os.stat(directory)
    except OSError:
        return False
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _runs(word, file, was):
    """Whether a command's word still runs that file, with that identity. A missing compiler is no
    change, because no other module could be built without it."""
    try:
        found = which(word)
    except ValueError:  # half a quote
        return False
    return found is None or (found == file and identity(found) == was)


def find(root, directory, text):
    """The path of a module that answers a request, from the index of its directory in the cache
    (root), if stat() shows that no file behind it has changed; None otherwise, or if another user
    can write to one of the directories. No file but the index is read."""
    if not _is_own(root) or not _is_own(directory):
        return None
    lines = next(([entry, *rest] for one, entry, rest in read(directory) if one == text), None)
    if lines is None:
        return None
    entry, file, was, count, *lines = lines
    module = f"{directory}/{entry}/{file}"
    if not count.isdecimal() or "/" in file or identity(module) != was:
        return None
    compilers, files = lines[: int(count)], lines[int(count) :]
    if len(compilers) != int(count) or len(compilers) % 3 or len(files) % 2:
        return None
    groups = zip(compilers[::3], compilers[1::3], compilers[2::3])
    if not all(_runs(*group) for group in groups):
        return None
    if any(identity(path) != was for path, was in zip(files[::2], files[1::2])):
        return None
    return module


def put(directory, entry, text, record):
    """Write the index with an entry in front. Returns the entries to keep."""
    blocks = [(text, entry, _watched(record))]
    # What has changed before its directory's identity was asked for would go unnoticed.
    if any(identity(path) != was for path, was, _ in record.files):
        blocks.clear()
    blocks += [block for block in read(directory) if block[1] != entry]
    del blocks[KEPT:]
    texts = ["\n".join(["\t" + text, entry, *lines]) for text, entry, lines in blocks]
    replace(directory + "/index", FIRST + "".join(text + "\n\n" for text in texts))
    return {entry, *(kept for _, kept, _ in blocks)}
