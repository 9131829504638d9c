# SPDX-License-Identifier: BSD-2-Clause
"""Loading extension modules with homefree: load() and the import hook.

Both take the same steps, and raise an ImportError with the reason and a remedy if one fails:

1. check the file before any of its code runs: it exists, `homefree inspect` finds no error in it
   (another machine, a newer homefree), it is built for this Python, and it defines a function that
   this Python calls (PyInit, or from CPython 3.15 on PyModExport);
2. with adopt=True, take a copy in which its hidden allocator is the heap, if it has one;
3. with private=True, copy it;
4. with adopt=True, load it and redirect its allocating calls to the heap (by then its constructors
   and those of its libraries have run, but no Python code);
5. let Python create the module, and route what was loaded.

State: the list of hooks, under _hooks_lock, and the adopted copies by original. Threads: any. Fork:
allowed at any time; the child keeps the hooks.
"""

from __future__ import annotations

import _imp
import errno
import functools
import importlib.machinery
import importlib.util
import os
import re
import stat
import sys
import sysconfig
import threading
import warnings

from .. import _homefree, _importing, _paths
from . import _hook_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

__all__ = ["ImportHook", "add_hook", "load"]

ExtensionFileLoader = importlib.machinery.ExtensionFileLoader
_ModuleType = type(sys)

# homefree's own extension modules, which hooks leave alone.
_OWN = __name__.partition(".")[0]

_REMEDIES = {
    errno.ENOENT: "check the path",
    errno.EISDIR: "name the extension module's file",
    errno.EACCES: "make it readable for this user",
    errno.ENOSPC: "free some space, or set TMPDIR to a directory with more",
    errno.EPERM: "set TMPDIR to a directory on a file system that is mounted without noexec",
}


# ---- checks before any code runs ----


class NotAdopted(ImportError):
    """A module was not loaded because it cannot be adopted."""

    def __init__(self, name, path, why, remedy):
        super().__init__(
            f"homefree cannot make {path} allocate from the heap: {why}; {remedy}",
            name=name,
            path=path,
        )


def _refuse(name, path, why, remedy):
    raise ImportError(f"homefree refuses to load {path}: {why}; {remedy}", name=name, path=path)


# The functions by which this Python enters a module, in the order in which it looks for them.
_MINOR = sys.version_info.minor
_CALLED = [function for function, since in _paths.MODULE_FUNCTIONS if since <= _MINOR]


def _rest(name):
    """What follows PyInit or PyModExport in the names of a module's functions (PEP 489, 793)."""
    last = name.rpartition(".")[2]
    if last.isascii():
        return f"_{last}"
    return "U_" + last.encode("punycode").replace(b"-", b"_").decode("ascii")


def _name_of(rest):
    """The name of the module whose functions have this rest."""
    if rest.startswith("_"):
        return rest[1:]
    plain, _, deltas = rest[2:].rpartition("_")
    try:
        return f"{plain}-{deltas}".lstrip("-").encode("ascii").decode("punycode")
    except UnicodeError:
        return rest[2:]


def _identity(path):
    """A value that differs if another file has taken the place of this one."""
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _check_file(name, path):
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        remedy = _REMEDIES.get(error.errno, "check the path")
        _refuse(name, path, error.strerror, remedy)
    except ValueError as error:
        _refuse(name, path, str(error), "check the path")
    if stat.S_ISDIR(mode):
        _refuse(name, path, "it is a directory", "name the extension module's file")
    if not stat.S_ISREG(mode):
        _refuse(name, path, "it is not a regular file", "name the extension module's file")
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        _refuse(name, path, error.strerror, _REMEDIES.get(error.errno, "check the path"))


# "name.cpython-312-x86_64-linux-gnu.so", "name.abi3.so", "name.abi3t.so", "name.so"
_TAG = re.compile(rf"\.((?:cpython|pypy|graalpy|jython)[^.]*|{_importing.STABLE})\.[^.]+$")


def _check_tag(name, path):
    """Refuse a file whose name says that it was built for another Python."""
    match = _TAG.search(os.path.basename(path))
    if match is None:
        return
    tag = match.group(1)
    if match.group(0) in _importing.suffixes():
        return
    running = sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag
    if re.fullmatch(_importing.STABLE, tag):
        needs = _importing.stable_abi_needs(tag)
        why = f"it is built for the stable ABI of {needs} ({tag}), and this one is {running}"
    else:
        why = f"it is built for another Python ({tag}), and this one is {running}"
    _refuse(name, path, why, "install the package for this Python, or use that one")


# Rules whose outcome depends on the process, so the dynamic linker decides.
_LEFT_TO_THE_LOADER = {"static-tls-too-large"}


def _check_content(name, path):
    """Refuse a file in which inspect finds an error, or that has no function that this Python
    calls. Returns the names of the allocators inside."""
    rest = _rest(name)
    try:
        facts = _homefree.file_facts(path, rest)
    except OSError as error:
        if error.errno == errno.ENOEXEC:
            remedy = "build or install it again"
        else:
            remedy = _REMEDIES.get(error.errno, "check the file")
        _refuse(name, path, error.strerror, remedy)
    for rule, message, remedy in facts["errors"]:
        if rule not in _LEFT_TO_THE_LOADER:
            _refuse(name, path, message, remedy[:1].lower() + remedy[1:].rstrip("."))
    if not set(_CALLED).isdisjoint(facts["found"]):
        return facts["allocators"]
    wanted = " or ".join(f"{function}{rest}" for function in reversed(_CALLED))
    for function, since in _paths.MODULE_FUNCTIONS:
        if function in facts["found"]:
            _refuse(
                name,
                path,
                f"it defines {function}{rest} alone, which CPython calls from 3.{since} on, and "
                f"this one is {sys.version.split()[0]}",
                f"install the package for this Python, or build it with {wanted} as well",
            )
    if facts["functions"]:
        others = ", ".join(function + its_rest for function, its_rest in facts["functions"])
        remedy = (
            f"give the name that it was built with, name={_name_of(facts['functions'][0][1])!r}"
        )
        _refuse(name, path, f"it defines {others}, not {wanted}", remedy)
    _refuse(
        name,
        path,
        f"it does not define {wanted}: it is not an extension module, or it hides that function",
        "load a plain library with ctypes",
    )


def _static_tls(name, path):
    """What inspect reports about a module whose static TLS did not fit, and the remedy."""
    try:
        errors = _homefree.file_facts(path, _rest(name))["errors"]
    except OSError:
        errors = []
    found = [message for rule, message, _ in errors if rule in _LEFT_TO_THE_LOADER]
    wanted = max(
        [int(number) for text in found for number in re.findall(r"(\d+) bytes", text)] or [0]
    )
    room = 8192
    while room < wanted + 2048:
        room *= 2
    remedy = (
        f"start the process with GLIBC_TUNABLES=glibc.rtld.optional_static_tls={room}, "
        "or build it without -ftls-model=initial-exec"
    )
    return "".join(f": {message}" for message in found), remedy


_LINKER_REMEDIES = (
    ("undefined symbol: Py", "install the package for this Python"),
    ("undefined symbol: _Py", "install the package for this Python"),
    ("undefined symbol", "import what it depends on first, or link it with that"),
    (
        "cannot open shared object file",
        "install the missing library, or set LD_LIBRARY_PATH before the process starts",
    ),
    ("failed to map segment", "move it to a file system that is mounted without noexec"),
)


def _loader_error(name, path, error):
    """The ImportError for what the dynamic linker reports, with a remedy."""
    why, remedies = str(error), _LINKER_REMEDIES
    if "static TLS block" in why:
        more, remedy = _static_tls(name, path)
        why += more
        remedies = [("static TLS block", remedy)]
    return _importing.load_error(name, path, why, remedies)


# ---- creating the module ----


# By original: its adopted copy, once it was loaded.
_adopted = {}

_AS_IT_IS = "load it with adopt=False: its deallocations are routed all the same"


def _adopted_file(name, path, allocators):
    """What to load in place of a file, so that its hidden allocator is the heap."""
    if path in _adopted:
        return _adopted[path]
    try:
        file = _homefree.adopt_file(path)
    except OSError as error:
        if error.errno == errno.ENOTSUP or error.errno not in _REMEDIES:
            remedy = _AS_IT_IS
        else:
            remedy = _REMEDIES[error.errno]
        raise NotAdopted(name, path, error.strerror, remedy) from None
    if file is None:
        return path  # It is loaded already; guards stand in front of its allocator now.
    if file == path and allocators:
        raise NotAdopted(
            name,
            path,
            f"it has an allocator of its own inside ({', '.join(allocators)}), whose functions "
            "have no names that could be found",
            f"put its debug file beside it, or {_AS_IT_IS}",
        )
    return file


def _adopt(name, file, path):
    handle = open_copy(name, file, path)
    try:
        _homefree.adopt(handle, file)
    except OSError as error:
        _homefree.close_handle(handle)
        raise NotAdopted(name, path, error.strerror, _AS_IT_IS) from None


def copy(name, path):
    try:
        return _homefree.private_copy(path)
    except OSError as error:
        if error.errno in (errno.ENOEXEC, errno.ENOTSUP):
            remedy = (
                "build or install it again, for this machine, and homefree with all files of one "
                "build in one directory (libhomefree-adopt.so makes the copy)"
            )
        else:
            remedy = _REMEDIES.get(error.errno, "set TMPDIR to a directory that can be written to")
        raise ImportError(
            f"homefree cannot make a private copy of {path}: {error.strerror}; {remedy}",
            name=name,
            path=path,
        ) from None


class Unrestricted:
    """Lets an interpreter with a GIL of its own create a module that does not declare support for
    one. That is safe for a private copy, whose globals belong to that interpreter alone. It ends
    with the creation, because what the module imports is not private."""

    def __enter__(self):
        self._previous = None
        override = getattr(_imp, "_override_multi_interp_extensions_check", None)
        if override is not None:
            try:
                self._previous = override(-1)
            except RuntimeError:  # the main interpreter, which accepts every module
                pass
            else:
                self._override = override

    def __exit__(self, *_):
        if self._previous is not None:
            self._override(self._previous)


class _Unknown:
    """Hides from pybind11 what another copy of a module has told it. From version 3 on it keeps the
    modules that it has initialised in this interpreter, by name, and would hand one of them out
    again. Afterwards it knows what it knew before. Its table of types stays shared."""

    def __init__(self, spec, path):
        self._name, self._path = spec.name, path

    def _modules(self):
        return _homefree.interpreter_dict().get("__pybind11_module_cache", {})

    def __enter__(self):
        self._module = self._modules().pop(self._name, None)

    def __exit__(self, _, error, __):
        modules = self._modules()
        modules.pop(self._name, None)
        if self._module is not None:
            modules[self._name] = self._module
        if isinstance(error, ImportError) and "is already registered" in str(error):
            raise ImportError(
                f"homefree cannot load {self._path} once more into this interpreter: {error} "
                "pybind11 has one table of types for all modules; declare this one's with "
                "py::module_local(), or load it into another interpreter",
                name=self._name,
                path=self._path,
            ) from error


def _execute_private(loader, module):
    """The exec_module() of a private copy's loader."""
    spec = module.__spec__
    with _Unknown(spec, spec.origin):
        ExtensionFileLoader.exec_module(loader, module)


create_module = ExtensionFileLoader.create_module


def _create(loader, spec, private, adopt, refuse):
    """Create a module as create_module() of its loader does, with homefree's steps around it."""
    path, name = spec.origin, spec.name
    allocators = []
    if refuse:
        _check_file(name, path)
        _check_tag(name, path)
        identity = _identity(path)
        allocators = _check_content(name, path)
    file = _adopted_file(name, path, allocators) if adopt else path
    taken = file
    if private:
        file = copy(name, file)
    try:
        if refuse and _identity(path) != identity:
            _refuse(name, path, "it was changed while it was checked", "try again")
        if adopt:
            _adopt(name, file, path)
            if taken != path and not private:
                _adopted[path] = taken
        make = make_private if private else _make_shared
        module = make(loader, spec, file, path)
    except BaseException:
        if private:
            _homefree.private_remove(file)
        raise
    _homefree.route()
    return module


def open_copy(name, file, path):
    try:
        return _homefree.open_file(file)
    except OSError as error:
        raise _loader_error(name, path, error.strerror) from None


def _has_gil():
    """Whether a module that needs the GIL may be loaded: it is enabled, or the user has forbidden
    it, for better or worse."""
    if "t" not in sys.abiflags or sys._is_gil_enabled():
        return True
    return "0" in (sys._xoptions.get("gil"), os.environ.get("PYTHON_GIL"))


def make_private(loader, spec, file, path, *, handle=None):
    """Create a module without sharing or caching anything, unlike Python's loader; see start() in
    load.c. Modules that have PyModExport keep nothing in globals of Python's, so for them it is
    Python's loader that creates a module of the new file. handle: of the file, if it is loaded."""
    name = spec.name
    if handle is None:
        handle = open_copy(name, file, path)
    spec.origin = file
    loader.exec_module = functools.partial(_execute_private, loader)
    try:
        with _Unknown(spec, path):
            module = _homefree.start(handle, _rest(name), name, _MINOR)
            if module is None:
                with Unrestricted():
                    return _make_shared(loader, spec, file, path)
            if not (_has_gil() or _homefree.needs_no_gil(module)):
                _refuse(
                    name,
                    path,
                    "it does not declare that it can run without the GIL (Py_mod_gil)",
                    "start Python with -X gil=1, or set private=False: Python enables the GIL then",
                )
            if isinstance(module, _ModuleType):
                module.__name__ = name
            else:
                with Unrestricted():
                    module = _homefree.make(module, spec)
    finally:
        spec.origin = path
    return module


def _make_shared(loader, spec, file, path):
    spec.origin = file
    try:
        module = create_module(loader, spec)
        if getattr(module, "__file__", path) == file:
            module.__file__ = path
        return module
    except ImportError as error:
        # Exceptions of the module's own code are passed on.
        if error.path != file or "dynamic module does not" in str(error):
            raise
        raise _loader_error(spec.name, path, error) from None
    finally:
        spec.origin = path


def load(
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    private: bool = False,
    adopt: bool = False,
) -> ModuleType:
    """Load an extension module from a file and route it, so that what it frees goes to its owner.

    path: the file, a str or os.PathLike.
    name: the module's full name, which determines its PyInit or PyModExport function. The default
    is the file's name up to the first dot.
    private: load a fresh copy of the module, with globals of its own, at each call. sys.modules is
    not touched, and __file__ is the original's path. A module that keeps its state in globals
    (single-phase initialisation) can thus be loaded several times, also into interpreters with a
    GIL of their own, which Python itself refuses. The libraries that it needs stay shared, and must
    tolerate calls from two interpreters at a time. Of a module made with pybind11, an interpreter
    takes a second copy only if its types are declared py::module_local(). While a free-threaded
    CPython runs without the GIL, the module must declare that it needs none (Py_mod_gil); for one
    that has PyModExport, Python enables the GIL otherwise. The copy is a file beside the original
    or below TMPDIR, and is removed when the process exits.
    adopt: redirect the module's allocating calls (malloc, operator new, strdup, …) to the heap,
    even if it was never linked with homefree. If it has an allocator of its own inside (jemalloc,
    mimalloc), or a library has that it needs from a directory on its search path, a copy is loaded
    in which that allocator's functions lead to the heap: see hf_adopt_file() in homefree/adopt.h.
    The copy is kept below XDG_CACHE_HOME (default: ~/.cache) for the next process; __file__ is the
    original's path.

    Returns the module. Without private it is entered in sys.modules under its name, as by import;
    if a module from the same file is there already, that one is returned, and adopted if adopt is
    set.

    Raises ImportError, with the reason and a remedy, if the file is missing, damaged, or built for
    another machine, another Python or a newer homefree, if it has no PyInit or PyModExport function
    that this Python calls for the name, or if it cannot be adopted or copied. None of its Python
    code has run then, and without adopt none of its code at all. Exceptions of the module's own
    code are passed on. ValueError for an invalid name.

    Threads: any that holds the GIL; in a subinterpreter, the module is loaded into that one. Fork:
    allowed at any time; the child keeps the modules, and the parent removes the copies. Since 1.0.
    """
    path = os.path.abspath(os.fsdecode(path))
    if name is None:
        name = os.path.basename(path).partition(".")[0]
    if not isinstance(name, str) or not name.rpartition(".")[2]:
        raise ValueError(f"{name!r} is not a valid module name; give one with name=")
    present = None if private else sys.modules.get(name)
    if present is not None:
        return _present(present, name, path, adopt)
    spec = importlib.util.spec_from_file_location(
        name, path, loader=_Loader(name, path, private=private, adopt=adopt)
    )
    module = importlib.util.module_from_spec(spec)
    if not private:
        return _importing.execute(module, spec)
    spec.loader.exec_module(module)
    return module


def _present(module, name, path, adopt):
    """The module that sys.modules has already, if it came from this file."""
    loaded = getattr(module, "__file__", None)
    if not _importing.is_from(module, path):
        _check_file(name, path)
        raise ImportError(
            f"homefree cannot load {path}: a module {name!r} from {loaded} is loaded already; "
            "choose another name=, or set private=True",
            name=name,
            path=path,
        )
    if adopt:
        _adopt(name, _adopted_file(name, path, []), path)
    return module


class _Loader(ExtensionFileLoader):
    """The loader of load()."""

    def __init__(self, name, path, *, private, adopt):
        super().__init__(name, path)
        self._private, self._adopt = private, adopt

    def create_module(self, spec):
        return _create(self, spec, self._private, self._adopt, refuse=True)


# ---- the import hook ----

_hooks = []
_hooks_lock = threading.Lock()


def _hooked_create_module(self, spec):
    """Replaces ExtensionFileLoader.create_module. Thus the extension modules of every finder are
    seen, and importing anything else costs nothing."""
    for hook in _hooks[::-1]:  # a copy: other threads add and remove some
        if hook.covers(spec.name):
            hook._covered.add(spec.name)
            return hook.create(self, spec)
    return create_module(self, spec)


class ImportHook:
    """A hook that import_hook() installed. remove() removes it, as does leaving a with statement.
    Threads: any. Since 1.0."""

    def __init__(
        self,
        names: Mapping[str, Any] | None,
        private: bool | str,
        adopt: bool | str,
        refuse: bool,
    ) -> None:
        self._names = names  # {name: the modules that it stands for}, or None
        self._private, self._adopt, self._refuse = private, adopt, refuse
        self._strict = adopt == "strict" or (names is not None and refuse)
        self._warned = set()
        self._before = {name for name in names or () if name in sys.modules}
        self._covered = set()  # the modules that it was asked to load

    def covers(self, name: str) -> bool:
        """Whether the hook applies to the module of that name."""
        if name == _OWN or name.startswith(_OWN + "."):
            return False
        if self._names is None:
            return True
        return any(_hook_names.covers(modules, name) for modules in self._names.values())

    def create(self, loader: object, spec: ModuleSpec) -> ModuleType:
        """Create the module of a spec, in place of the loader's create_module()."""
        try:
            return _create(loader, spec, self._private, self._adopt, self._refuse)
        except NotAdopted as error:
            if self._strict:
                raise
            package = spec.name.partition(".")[0]
            if package not in self._warned:
                self._warned.add(package)
                warnings.warn(f"{error}; it is loaded so now", RuntimeWarning, stacklevel=3)
            return _create(loader, spec, self._private, False, self._refuse)
        except ImportError as error:
            if self._refuse:
                raise
            warnings.warn(f"{error}; Python loads it as usual", RuntimeWarning, stacklevel=3)
            return create_module(loader, spec)

    def remove(self) -> None:
        """Remove the hook. The modules that it loaded stay as they are; a second call does
        nothing."""
        with _hooks_lock:
            if self in _hooks:
                _hooks.remove(self)
            if not _hooks and ExtensionFileLoader.create_module is _hooked_create_module:
                ExtensionFileLoader.create_module = create_module

    def __enter__(self) -> ImportHook:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.remove()
        for name, modules in (self._names or {}).items() if kind is None else ():
            if name not in self._before and not any(
                _hook_names.covers(modules, module) for module in self._covered
            ):
                raise ImportError(
                    f"homefree's import hook: no extension module of {name!r} was imported"
                    + _hook_names.near(name),
                    name=name,
                )


def add_hook(hook):
    """Makes a hook load what it covers, from now on."""
    with _hooks_lock:
        _hooks.append(hook)
        ExtensionFileLoader.create_module = _hooked_create_module
