# SPDX-License-Identifier: BSD-2-Clause
"""Extension modules that are compiled when they are loaded: load() and build().

    from homefree import extension

    fast = extension.load("fast", [os.path.join(os.path.dirname(__file__), "fast.c")])

A compiled module is cached. It is loaded from the cache as long as the sources, the headers that
the compiler read, the flags, the compiler, the Python and homefree are the same, and no file has
appeared that the compiler would find before one that it read.

The cache directory is HOMEFREE_BUILD_DIR, by default ~/.cache/homefree (XDG_CACHE_HOME is
honoured). It has a directory for each module:

    <module>/index          for each request (name, sources, flags, …) the entry that answered it,
                            and what stat() must report for the files behind it
    <module>/<entry>/       the module, and `record`: everything it was built from, with hashes
    <module>/lock           locked by the process that builds
    <module>/build-…/       the working directory of a build, or the remains of one that was killed

Processes: any number may load at once; one of them builds, and the others wait. The kernel drops
the lock when its holder dies, and the next process to build removes the remains. Over NFS this
depends on the server's locks (a machine that crashes keeps its locks until the lease ends), and a
changed header may go unnoticed for as long as attributes are cached.
Threads: any; one at a time loads a given name. Fork: the child holds no locks.
"""

# A call that the cache answers executes this file, _request, _index and _files, and what they
# import at the top, which is nothing that a bare Python has not loaded already; everything else is
# imported when it is needed. Imports go one way:
#
#   _build        build(), for wheels
#   _prebuilt     finding what build() made
#   _cache        entries: found, built, kept, removed
#   _request      what was asked for
#   _index        the index file, and whether it answers a request
#   _record       what an entry was built from
#   _ninja        one build; _commands has its commands, _terminal shows its progress
#   _lookups      where the compiler did not find a header
#   _compilers    what compilers there are, and telling them apart
#   _lock, _files, _errors

import _frozen_importlib
import _thread
import os
import sys
from _frozen_importlib_external import ExtensionFileLoader

from .. import _importing
from ._request import LISTS, Request, paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import ModuleType

    from .._types import AnyPath
    from ._build import build
    from ._errors import BuildError

__all__ = ["BuildError", "build", "load"]


def _import(name, path):
    """Import an extension module from a file, as the import statement does."""
    spec = _frozen_importlib.ModuleSpec(name, ExtensionFileLoader(name, path), origin=path)
    spec.has_location = True
    try:
        module = _frozen_importlib.module_from_spec(spec)
    except ImportError as error:
        from ._errors import unloadable

        raise unloadable(name, path, error) from None
    module = _importing.execute(module, spec)
    parent, _, last = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], last, module)
    return module


def _present_or_import(name, path, reload):
    module = sys.modules.get(name)
    if module is None:
        return _import(name, path)
    if path is not None and getattr(module, "__file__", None) == path:
        return module
    if _importing.is_from(module, path):
        return module
    if not reload:
        from ._errors import occupied

        raise occupied(name, module)
    try:
        return _import(name, path)
    except BaseException:
        sys.modules[name] = module
        raise


def _find_prebuilt(name, sources, prebuilt, verbose):
    from . import _prebuilt

    return _prebuilt.find(name, paths("sources", sources), prebuilt, verbose)


# One lock for each name. The child of a fork has one thread, which holds none of them.
_locks = {}
os.register_at_fork(after_in_child=_locks.clear)


def load(
    name: str,
    sources: "AnyPath | Iterable[AnyPath]" = (),
    *,
    extra_cflags: "Sequence[str] | None" = None,
    extra_cxxflags: "Sequence[str] | None" = None,
    extra_cuda_cflags: "Sequence[str] | None" = None,
    extra_ldflags: "Sequence[str] | None" = None,
    extra_include_paths: "AnyPath | Iterable[AnyPath] | None" = None,
    build_directory: "AnyPath | None" = None,
    verbose: "bool | None" = None,
    with_cuda: "bool | None" = None,
    torch: bool = False,
    prebuilt: "AnyPath | ModuleType | None" = None,
    reload: bool = False,
) -> "ModuleType":
    """Compile an extension module unless the cache has it, import it, and return it.

    name: the module's full name. The sources need not repeat it: the macro HOMEFREE_MODULE_NAME is
    its last part, for `PyMODINIT_FUNC HF_MODULE_INIT(void)` (homefree/python.h) or
    `PYBIND11_MODULE(HOMEFREE_MODULE_NAME, m)`.

    sources: C (.c), C++ (.cc, .cpp, .cxx) and CUDA (.cu) files. Relative paths start at the current
    directory; a package finds its own files through os.path.dirname(__file__).

    extra_cflags go to the C and the C++ compiler, extra_cxxflags to the C++ compiler,
    extra_cuda_cflags to nvcc, extra_ldflags to the linker: lists of arguments, in which paths must
    be absolute. extra_include_paths: directories to search for headers. The defaults are -O2, and
    C++17 (or the later one that torch's headers require) unless an argument starts with -std=. CC,
    CXX, CUDACXX (or CUDA_HOME), CPPFLAGS, CFLAGS, CXXFLAGS, LDFLAGS and MAX_JOBS are honoured.
    with_cuda: whether to link CUDA's runtime; None links it if there are .cu files. torch: import
    torch, compile and link with it, and define TORCH_EXTENSION_NAME as well.

    build_directory: the cache directory, in place of HOMEFREE_BUILD_DIR. Child processes receive it
    through the environment (HOMEFREE_BUILD_DIR_<name>), so they use the same cache.

    verbose: True reports each step and the compilers' warnings on stderr; False reports nothing;
    None reports them if stderr is a terminal.

    prebuilt: a file, a directory, or a package (its name or the module) that may contain the module
    already, as build() puts it into a wheel. It is used if it fits this Python and this machine
    and was built from these sources. Sources that do not exist are not compared, and without the
    record <file>.sources none are. Otherwise the sources are compiled.

    reload: whether the module may take the place of one of the same name that was built from other
    content, as after each change in a notebook. Python cannot unload an extension module: the old
    one stays in memory, and objects of it keep their types. Content that was loaded before is not
    loaded a second time, so the variables of its C code have the values that they had. If the
    module cannot be built or imported, the old one stays in sys.modules.

    Returns the module, entered in sys.modules as by import. If sys.modules has it already, built
    from the same content, that one is returned; built from other content, it raises ImportError
    unless reload is true.

    Raises BuildError, an ImportError, with the compiler's output and a remedy if the module cannot
    be built; ValueError and TypeError for invalid arguments. Exceptions of the module's own code
    are passed on.

    Threads: any. Processes: any number at once; one builds, the others wait. Fork: allowed at any
    time. Since 1.0.
    """
    _importing.check_name(name)
    lists = extra_cflags, extra_cxxflags, extra_cuda_cflags, extra_ldflags, extra_include_paths
    lock = _locks.setdefault(name, _thread.RLock())
    with lock:
        if prebuilt is not None:
            path = _find_prebuilt(name, sources, prebuilt, verbose)
            if path is not None:
                return _present_or_import(name, path, reload)
        options = {"build_directory": build_directory, "with_cuda": with_cuda, "torch": torch}
        request = Request(name, sources, **options, **dict(zip(LISTS, lists)))
        path = request.find()
        if path is None:
            from . import _cache

            if name in sys.modules and not reload:
                path = _cache.find(request)
            else:
                path = _cache.find_or_build(request, verbose)
        try:
            return _present_or_import(name, path, reload)
        except ImportError:
            if path is None or os.path.exists(path):
                raise
        # The entry was removed before it was opened: another process built, and this was the
        # oldest one.
        from . import _cache

        return _import(name, _cache.find_or_build(request, verbose))


if not TYPE_CHECKING:

    def __getattr__(name):
        if name == "BuildError":
            from ._errors import BuildError as found
        elif name == "build":
            from ._build import build as found
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found
        return found


def __dir__() -> "list[str]":
    return sorted({*globals(), *__all__})
