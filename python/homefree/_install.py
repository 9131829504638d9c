# SPDX-License-Identifier: BSD-2-Clause
"""homefree.install() and uninstall().

State: the finder on sys.meta_path, of which an interpreter has one at most. Threads: any. Imports
no module that a bare Python has not loaded already, so that install() costs little.
"""

import sys

from . import _homefree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._homefree import Installed
    from ._types import Mode

__all__ = ["install", "uninstall"]


class _NumpyFinder:
    """A finder on sys.meta_path that waits for NumPy's core; the other finders find it."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath"):
            from . import _numpy

            return _numpy.spec(_NumpyFinder, name, path, target)
        return None

    @staticmethod
    def remove():
        """Takes it from sys.meta_path, to which several threads may have brought it and from which
        several may take it."""
        try:
            while True:
                sys.meta_path.remove(_NumpyFinder)
        except ValueError:
            pass


def install(
    python: "Mode" = "arena", numpy: bool = True, *, background: bool = False
) -> "Installed":
    """Make CPython and NumPy allocate from homefree's heap from now on.

    python: "arena" puts the RAW domain on the heap and takes pymalloc's arenas from homefree's
    address range, so small objects stay as fast as they were; "full" puts the domains RAW, MEM and
    OBJ on the heap, including small objects; "off" changes none of them. A free-threaded CPython
    must keep its own allocator for objects: there, "arena" puts the RAW domain on the heap, and the
    result says "raw"; "full" adds MEM, the memory of lists and dictionaries, up to CPython 3.14.

    numpy: whether NumPy's arrays allocate from the heap too, in every thread. If NumPy is not
    loaded yet, it is set up when it is imported; install() does not import it.

    background: whether a thread gives back what the heap does not use once the process is idle, and
    what libc keeps free while the process grows; and answers `homefree trim --pid`. It also starts
    with HOMEFREE_CONF=background:on. Fork: the child has its own as soon as its heap needs memory.

    Returns an Installed(python, numpy), which describes the present state. A second call adds what
    is missing and never undoes anything. Existing blocks keep their allocator.

    Raises ValueError for an unknown mode, TypeError for an argument of another type, and
    RuntimeError, with the reason and a remedy, if it fails. Threads: any, in any interpreter. Fork:
    the child keeps it. It stays in force until the process ends, even after the interpreter. Since
    1.0.
    """
    result = _homefree.install(python, numpy)
    if background:
        _homefree.background_start()
    if result.numpy == "later":
        wait_for_numpy()
    return result


def wait_for_numpy():
    """Lets _numpy.py know when NumPy is imported in this interpreter."""
    if _NumpyFinder not in sys.meta_path:
        sys.meta_path.insert(0, _NumpyFinder)


def uninstall() -> None:
    """Make CPython and NumPy allocate as they did before install().

    Blocks that they have from the heap are still freed to it, and routing stays on. install() may
    be called again. Threads: any, in any interpreter; it affects all of them. Fork: the child keeps
    it. Since 1.0.
    """
    _homefree.uninstall()
    _NumpyFinder.remove()
