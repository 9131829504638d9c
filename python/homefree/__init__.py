# SPDX-License-Identifier: BSD-2-Clause
"""homefree: allocate anywhere, free anywhere.

Importing this package loads libhomefree, which gives the process one heap and routes every free to
the owner of the block. install() lets CPython and NumPy allocate from that heap as well.

Everything here may be called from any thread and any interpreter of the process. Everything that
does not say otherwise is there since 1.0.

PYTEST_DONT_REWRITE: pytest would rewrite what comes with a plugin, and warns if it was imported
earlier.
"""

# Importing must stay cheap: this file imports no module that a bare Python has not loaded already.

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
        "this package, as `meson install` and the wheel do, or put its directory on "
        "LD_LIBRARY_PATH",
        name="homefree",
    ) from None
from ._homefree import (
    Installed,
    Owner,
    RouteEntry,
    RouteReport,
    Trimmed,
    owner_of,
    route_report,
    stats,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import cuda, extension, interpreters, package
    from ._diagnose import diagnose
    from ._directories import (
        get_cmake_dir,
        get_include,
        get_library_dir,
        get_missing_dir,
        get_pkgconfig_dir,
    )
    from ._doctor import doctor
    from ._explain import explain_crashes
    from ._install import install, uninstall
    from ._ipython import load_ipython_extension as load_ipython_extension
    from ._limit import Limit, limit, limits
    from ._memory import memory, memory_diff, openmetrics, openmetrics_file
    from ._pressure import Pressure, PressureHandle, on_pressure
    from ._profile import (
        NativeFrame,
        ProfileRow,
        PythonFrame,
        profile,
        profile_begin,
        profile_end,
    )
    from ._torch import torch_extension_args
    from ._trim import trim
    from .loading._import_hook import import_hook
    from .loading._load import ImportHook, load

__all__ = [
    "ImportHook",
    "Installed",
    "Limit",
    "NativeFrame",
    "Owner",
    "Pressure",
    "PressureHandle",
    "ProfileRow",
    "PythonFrame",
    "RouteEntry",
    "RouteReport",
    "Trimmed",
    "cuda",
    "diagnose",
    "doctor",
    "explain_crashes",
    "extension",
    "get_cmake_dir",
    "get_include",
    "get_library_dir",
    "get_missing_dir",
    "get_pkgconfig_dir",
    "import_hook",
    "install",
    "interpreters",
    "limit",
    "limits",
    "load",
    "memory",
    "memory_diff",
    "on_pressure",
    "openmetrics",
    "openmetrics_file",
    "owner_of",
    "package",
    "profile",
    "profile_begin",
    "profile_end",
    "route_report",
    "stats",
    "torch_extension_args",
    "trim",
    "uninstall",
]
__version__: str = _homefree.version()

# Modules that are imported when one of their names is first used, and these names; a module may
# be the name itself. The test of import circles reads this table; type checkers, the imports above.
_LAZY = {
    "_diagnose": "diagnose",
    "_directories": "get_cmake_dir get_include get_library_dir get_missing_dir get_pkgconfig_dir",
    "_doctor": "doctor",
    "_explain": "explain_crashes",
    "_install": "install uninstall",
    "_ipython": "load_ipython_extension",
    "_limit": "Limit limit limits",
    "_memory": "memory memory_diff openmetrics openmetrics_file",
    "_pressure": "Pressure PressureHandle on_pressure",
    "_profile": "NativeFrame ProfileRow PythonFrame profile profile_begin profile_end",
    "_torch": "torch_extension_args",
    "_trim": "trim",
    "cuda": "cuda",
    "extension": "extension",
    "interpreters": "interpreters",
    "loading._import_hook": "import_hook",
    "loading._load": "ImportHook load",
    "package": "package",
}


if not TYPE_CHECKING:

    def __getattr__(name):
        module = next((one for one, names in _LAZY.items() if name in names.split()), None)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # importlib.import_module() would import importlib, which costs more than most modules here.
        found = __import__(module, globals(), None, ["__name__"], 1)
        value = found if module == name else getattr(found, name)
        globals()[name] = value
        return value


def __dir__() -> "list[str]":
    return sorted({*globals(), *" ".join(_LAZY.values()).split()})
