"""homefree: allocate anywhere, free anywhere.

Importing this package loads libhomefree, which gives the process one heap and routes every free to
the owner of the block. install() lets CPython and NumPy allocate from that heap as well.

Everything here may be called from any thread and any interpreter of the process. Everything that
does not say otherwise is there since 1.0.
"""

# Importing must stay cheap: this file imports no module that a bare Python has not loaded already.

import sys as _sys

try:
    from . import _homefree
except ImportError as _error:
    if "libhomefree" not in str(_error):
        if hasattr(__loader__, "archive"):
            raise ImportError(
                f"homefree: {__loader__.archive} is an archive, from which Python cannot import "
                "extension modules; unpack it, or make it with a tool that does so when it starts "
                "(shiv, pex)",
                name="homefree",
            ) from None
        raise
    raise ImportError(
        f"homefree: the heap's library does not load ({_error}); install libhomefree.so.1 beside "
        "this package, as `meson install` and the wheel do, or put its folder on LD_LIBRARY_PATH",
        name="homefree",
    ) from None
from ._homefree import (
    Installed,
    Owner,
    RouteEntry,
    RouteReport,
    owner_of,
    route_report,
    stats,
)

__all__ = [
    "ImportHook",
    "Installed",
    "Owner",
    "RouteEntry",
    "RouteReport",
    "cuda",
    "diagnose",
    "doctor",
    "extension",
    "get_cmake_dir",
    "get_include",
    "get_library_dir",
    "get_missing_dir",
    "get_pkgconfig_dir",
    "import_hook",
    "install",
    "interpreters",
    "load",
    "owner_of",
    "package",
    "route_report",
    "stats",
    "torch_extension_args",
    "uninstall",
]
__version__ = _homefree.version()

# Names that are imported when they are first used, and the module that has (or is) each. The test
# of import circles reads this table.
_LAZY = {
    "ImportHook": "_load",
    "cuda": "cuda",
    "diagnose": "_diagnose",
    "doctor": "_doctor",
    "extension": "extension",
    "get_cmake_dir": "_folders",
    "get_include": "_folders",
    "get_library_dir": "_folders",
    "get_missing_dir": "_folders",
    "get_pkgconfig_dir": "_folders",
    "import_hook": "_load",
    "interpreters": "interpreters",
    "load": "_load",
    "load_ipython_extension": "_ipython",
    "package": "package",
    "torch_extension_args": "_torch",
}


def __getattr__(name):
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    found = importlib.import_module("." + module, __name__)
    value = found if module == name else getattr(found, name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_LAZY})


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
                _sys.meta_path.remove(_NumpyFinder)
        except ValueError:
            pass


def install(python="arena", numpy=True):
    """Make CPython and NumPy allocate from homefree's heap from now on.

    python: "arena" puts the RAW domain on the heap and takes pymalloc's arenas from homefree's
    address range, so small objects stay as fast as they were; "full" puts the domains RAW, MEM and
    OBJ on the heap, including small objects; "off" changes none of them. A free-threaded CPython
    must keep its own allocator for MEM and OBJ: "arena" puts the RAW domain on the heap there, and
    the result says "raw"; "full" is refused.

    numpy: whether NumPy's arrays allocate from the heap too, in every thread. If NumPy is not
    loaded yet, it is set up when it is imported; install() does not import it.

    Returns an Installed(python, numpy), which describes the present state. A second call adds what
    is missing and never undoes anything. Existing blocks keep their allocator.

    Raises ValueError for an unknown mode, TypeError for an argument of another type, and
    RuntimeError, with the reason and a remedy, if it fails. Threads: any, in any interpreter. Fork:
    the child keeps it. It stays in force until the process ends, even after the interpreter. Since
    1.0.
    """
    result = _homefree.install(python, numpy)
    if result.numpy == "later" and _NumpyFinder not in _sys.meta_path:
        _sys.meta_path.insert(0, _NumpyFinder)
    return result


def uninstall():
    """Make CPython and NumPy allocate as they did before install().

    Blocks that they have from the heap are still freed to it, and routing stays on. install() may
    be called again. Threads: any, in any interpreter; it affects all of them. Fork: the child keeps
    it. Since 1.0.
    """
    _homefree.uninstall()
    _NumpyFinder.remove()
