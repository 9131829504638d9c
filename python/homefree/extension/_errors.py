# SPDX-License-Identifier: BSD-2-Clause
"""The errors of homefree.extension, each with a remedy. Nothing here keeps state. Threads: any."""

import contextlib
import errno

from .. import _importing


class BuildError(ImportError):
    """A module could not be built. The message has the cause and a remedy, and if a compiler
    failed, its command and output. Since 1.0."""


# The name that users import it by, and that pickles and tracebacks carry.
BuildError.__module__ = __package__


_CACHE_REMEDIES = {
    errno.ENOSPC: "free some space there, or set HOMEFREE_BUILD_DIR to a directory with more",
    errno.EDQUOT: "free some space there, or set HOMEFREE_BUILD_DIR to a directory with more",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f)",
    errno.ENOLCK: "set HOMEFREE_BUILD_DIR to a directory on a file system that supports locks",
    errno.EOPNOTSUPP: "set HOMEFREE_BUILD_DIR to a directory on a file system that supports locks",
}

_LOAD_REMEDIES = (
    (
        "do not define PyInit_",
        "write PyMODINIT_FUNC HF_MODULE_INIT(void) with #include <homefree/python.h>",
    ),
    ("undefined symbol", "name what defines it in extra_ldflags or sources, or import that first"),
    (
        "cannot open shared object file",
        "name its directory with -Wl,-rpath in extra_ldflags, or set LD_LIBRARY_PATH",
    ),
    (
        "failed to map segment",
        "set HOMEFREE_BUILD_DIR to a directory that is not mounted with noexec",
    ),
)


def unloadable(name, path, error):
    """The error for a module that was built but does not load; `error` if the module's own code
    raised it."""
    if error.path != path:
        return error
    why = str(error)
    if "does not define module export function" in why:
        why = f"its sources do not define PyInit_{name.rpartition('.')[2]}"
    return _importing.load_error(name, path, why, _LOAD_REMEDIES)


def occupied(name, module):
    """The error for a name under which sys.modules has a module with other content."""
    loaded = getattr(module, "__file__", None)
    return ImportError(
        f"homefree cannot load {name!r}: a module of that name is loaded already, from {loaded}, "
        "and was built from other content; pass reload=True to replace it, start a new process, or "
        "choose another name",
        name=name,
        path=loaded,
    )


@contextlib.contextmanager
def explained(directory):
    """Turn each OSError about the cache's own files into a BuildError with a remedy."""
    try:
        yield
    except ImportError:
        raise
    except OSError as error:
        if error.errno is None:  # homefree's own: a part of the installation is missing
            raise BuildError(str(error)) from None
        remedy = _CACHE_REMEDIES.get(error.errno, "set HOMEFREE_BUILD_DIR to a writable directory")
        raise BuildError(
            f"homefree cannot write to its cache directory {directory}: {error}; {remedy}"
        ) from None
