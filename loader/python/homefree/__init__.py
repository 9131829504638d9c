"""homefree: allocate anywhere, free anywhere.

Importing this package loads libhomefree, which gives the process one heap and makes every free ask
for the owner first. install() lets CPython and NumPy allocate from that heap as well.

Everything here may be called from any thread and any interpreter of the process. Importing must
stay cheap: no module is imported here that a bare Python does not have already.
"""

import sys as _sys

try:
    from . import _homefree
except ImportError as _error:
    if "libhomefree" not in str(_error):
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
    "doctor",
    "extension",
    "get_cmake_dir",
    "get_include",
    "get_library_dir",
    "get_missing_dir",
    "get_pkgconfig_dir",
    "import_hook",
    "install",
    "load",
    "owner_of",
    "route_report",
    "stats",
    "torch_extension_args",
    "uninstall",
]
__version__ = _homefree.version()

# What lives in a module of its own, or is one, and is imported when it is first asked for:
# name -> module.
_LAZY = {
    "ImportHook": "_load",
    "doctor": "_doctor",
    "extension": "extension",
    "get_cmake_dir": "_folders",
    "get_include": "_folders",
    "get_library_dir": "_folders",
    "get_missing_dir": "_folders",
    "get_pkgconfig_dir": "_folders",
    "import_hook": "_load",
    "load": "_load",
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
    """Waits on sys.meta_path for NumPy's core; finds nothing itself."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath"):
            from . import _numpy

            return _numpy.spec(_NumpyFinder, name, path, target)
        return None


def install(python="arena", numpy=True):
    """Let CPython and NumPy allocate from homefree's heap, from now on.

    python: "arena" (the default) puts the RAW domain on the heap, and gives pymalloc its arenas
    from homefree's address range, so that small objects are as fast as before; "full" puts the
    domains RAW, MEM and OBJ on the heap, small objects too; "off" touches none of them. A
    free-threaded build gets its RAW domain alone.

    numpy: whether the memory of NumPy's arrays comes from the heap too, in every thread. A NumPy
    that is imported later is met when it comes; none is imported here.

    Returns an Installed(python, numpy): what is in force now. Calling it again adds what is
    missing, and never takes anything back. What was allocated before keeps its allocator.

    Raises ValueError for another mode, TypeError for another type, RuntimeError where it cannot
    be done, with the reason and the remedy. Any thread, any interpreter; lasts through fork(), and
    what it has set up works until the process ends, after the interpreter too.
    """
    result = _homefree.install(python, numpy)
    if result.numpy == "later" and _NumpyFinder not in _sys.meta_path:
        _sys.meta_path.insert(0, _NumpyFinder)
    return result


def uninstall():
    """Let CPython and NumPy allocate from where they did before install().

    What they have from the heap still goes back to it, and routing goes on: every free still goes
    home. A later install() starts again. Any thread, any interpreter; affects all of them.
    """
    _homefree.uninstall()
    if _NumpyFinder in _sys.meta_path:
        _sys.meta_path.remove(_NumpyFinder)
