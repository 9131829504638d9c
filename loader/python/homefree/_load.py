"""Loading extension modules with homefree: load() and the import hook.

Both do the same, in this order, and refuse with an ImportError that says why and what to do:

1. look at the file, before any code of it runs: a file that exists, that `homefree inspect` finds
   no error in (for this machine, for no newer homefree), for this Python, and with the module's
   PyInit function;
2. with private=True, make a copy of it;
3. with adopt=True, load it and point its allocating calls at the heap (the constructors of its
   libraries and its own have run by then; nothing of Python has);
4. let Python make the module; route what was loaded.
"""

import _imp
import errno
import importlib.machinery
import importlib.util
import os
import re
import stat
import sys
import sysconfig
import threading
import warnings

from . import _homefree

__all__ = ["ImportHook", "import_hook", "load"]

ExtensionFileLoader = importlib.machinery.ExtensionFileLoader
_ModuleType = type(sys)

# Extension modules that are homefree's own must not wait for themselves.
_OWN = __name__.partition(".")[0]

_REMEDIES = {
    errno.ENOENT: "check the path",
    errno.EISDIR: "name the extension module's file",
    errno.EACCES: "make it readable for this user",
    errno.ENOSPC: "free some space, or set TMPDIR to a folder with more",
    errno.EPERM: "set TMPDIR to a folder on a file system that is mounted without noexec",
}


# ---- what is said before any code runs ----


def _refuse(name, path, why, remedy):
    raise ImportError(f"homefree refuses to load {path}: {why}; {remedy}", name=name, path=path)


def _init_function(name):
    """The function that Python calls in the file of a module (PEP 489)."""
    last = name.rpartition(".")[2]
    if last.isascii():
        return f"PyInit_{last}"
    return "PyInitU_" + last.encode("punycode").replace(b"-", b"_").decode("ascii")


def _identity(path):
    """What tells a file from another that took its place."""
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
        _refuse(name, path, "it is a folder", "name the extension module's file")
    if not stat.S_ISREG(mode):
        _refuse(name, path, "it is no regular file", "name the extension module's file")
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        _refuse(name, path, error.strerror, _REMEDIES.get(error.errno, "check the path"))


# "name.cpython-312-x86_64-linux-gnu.so", "name.abi3.so", "name.so"
_TAG = re.compile(r"\.((?:cpython|pypy|graalpy|jython)[^.]*|abi3)\.[^.]+$")


def _check_tag(name, path):
    """The file's name says which Python it was built for."""
    match = _TAG.search(os.path.basename(path))
    if match is None:
        return
    suffix = match.group(0)
    if suffix in importlib.machinery.EXTENSION_SUFFIXES:
        return
    tag = match.group(1)
    running = sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag
    if tag == "abi3":
        why = f"it is built for the limited API, which this Python ({running}) does not have"
    else:
        why = f"it is built for another Python ({tag}) than this one ({running})"
    _refuse(name, path, why, "install the package for this Python, or run that one")


# What the dynamic linker knows better: how much room is left depends on the process.
_LEFT_TO_THE_LOADER = {"static-tls-too-large"}


def _check_content(name, path, adopt):
    """What inspect calls an error, and the function that Python calls."""
    wanted = _init_function(name)
    try:
        facts = _homefree.file_facts(path, wanted)
    except OSError as error:
        if error.errno == errno.ENOEXEC:
            remedy = "build or install it again"
        else:
            remedy = _REMEDIES.get(error.errno, "check the file")
        _refuse(name, path, error.strerror, remedy)
    for rule, message, remedy in facts["errors"]:
        if rule not in _LEFT_TO_THE_LOADER:
            _refuse(name, path, message, remedy[:1].lower() + remedy[1:].rstrip("."))
    if adopt and facts["allocators"]:
        _refuse(
            name,
            path,
            f"it has an allocator of its own inside ({', '.join(facts['allocators'])}), whose "
            "calls cannot be pointed at the heap",
            "load it with adopt=False: its deallocations are routed all the same",
        )
    if facts["found"]:
        return
    if facts["functions"]:
        others = ", ".join(facts["functions"])
        remedy = f"give the name that it was built with, name={facts['functions'][0][7:]!r}"
        _refuse(name, path, f"it defines {others}, not {wanted}", remedy)
    _refuse(
        name,
        path,
        f"it does not define {wanted}: it is no Python extension module, or hides that function",
        "load a plain library with ctypes",
    )


def _static_tls(name, path):
    """What inspect says about a module whose static TLS did not fit, and what to do about it."""
    try:
        errors = _homefree.file_facts(path, _init_function(name))["errors"]
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


def _loader_error(name, path, error):
    """What the dynamic linker said, with what to do about it."""
    why = str(error)
    if "static TLS block" in why:
        more, remedy = _static_tls(name, path)
        why += more
    elif "undefined symbol: Py" in why or "undefined symbol: _Py" in why:
        remedy = "install the package for this Python"
    elif "undefined symbol" in why:
        remedy = "import what it depends on first, or link it with that"
    elif "cannot open shared object file" in why:
        remedy = "install the missing library, or set LD_LIBRARY_PATH before the process starts"
    elif "failed to map segment" in why:
        remedy = "move it to a file system that is mounted without noexec"
    else:
        remedy = "run 'homefree inspect' on it"
    return ImportError(f"homefree cannot load {path}: {why}; {remedy}", name=name, path=path)


# ---- making the module ----


def _adopt(name, file, path):
    handle = _open(name, file, path)
    try:
        _homefree.adopt(handle, file)
    except OSError as error:
        _homefree.close_handle(handle)
        raise ImportError(
            f"homefree cannot make {path} allocate from the heap: {error.strerror}; "
            "load it with adopt=False: its deallocations are routed all the same",
            name=name,
            path=path,
        ) from None


def _copy(name, path):
    try:
        return _homefree.private_copy(path)
    except OSError as error:
        if error.errno in (errno.ENOEXEC, errno.ENOTSUP):
            remedy = "build or install it again, for this machine"
        else:
            remedy = _REMEDIES.get(error.errno, "set TMPDIR to a folder that can be written to")
        raise ImportError(
            f"homefree cannot make a private copy of {path}: {error.strerror}; {remedy}",
            name=name,
            path=path,
        ) from None


class _Unrestricted:
    """An interpreter with a GIL of its own refuses modules that do not say that they are fit for
    one. A private copy's globals are that interpreter's alone, so there it may have them. Not for
    longer than its module is made: what that imports is not private."""

    def __enter__(self):
        self._previous = None
        override = getattr(_imp, "_override_multi_interp_extensions_check", None)
        if override is not None:
            try:
                self._previous = override(-1)
            except RuntimeError:  # the main interpreter, which refuses nothing
                pass
            else:
                self._override = override

    def __exit__(self, *_):
        if self._previous is not None:
            self._override(self._previous)


_create_module = ExtensionFileLoader.create_module


def _create(loader, spec, private, adopt, refuse):
    """create_module() of an extension's loader."""
    path, name = spec.origin, spec.name
    if refuse:
        _check_file(name, path)
        _check_tag(name, path)
        identity = _identity(path)
        _check_content(name, path, adopt)
    file = _copy(name, path) if private else path
    try:
        if refuse and _identity(path) != identity:
            _refuse(name, path, "it was changed while it was looked at", "try again")
        if adopt:
            _adopt(name, file, path)
        make = _make_private if private else _make_shared
        module = make(loader, spec, file, path)
    except BaseException:
        if private:
            _homefree.private_remove(file)
        raise
    _homefree.route()
    return module


def _open(name, file, path):
    try:
        return _homefree.open_file(file)
    except OSError as error:
        raise _loader_error(name, path, error.strerror) from None


def _make_private(_loader, spec, file, path):
    """What Python's own loader does, but nothing is shared or kept: see start() in load.c."""
    name = spec.name
    handle = _open(name, file, path)
    spec.origin = file
    try:
        module = _homefree.start(handle, _init_function(name), name)
        if isinstance(module, _ModuleType):
            module.__name__ = name
        else:
            with _Unrestricted():
                module = _homefree.make(module, spec)
    finally:
        spec.origin = path
    return module


def _make_shared(loader, spec, _file, path):
    try:
        return _create_module(loader, spec)
    except ImportError as error:
        # What the module's own code raises is its own.
        if error.path != spec.origin or "dynamic module does not" in str(error):
            raise
        raise _loader_error(spec.name, path, error) from None


def load(path, *, name=None, private=False, adopt=False):
    """Loads an extension module from a file, and routes it: its deallocations ask for the owner.

    path: the file, a str or os.PathLike. name: the module's full name, with which its PyInit
    function is looked for; by default the file's name up to its first dot. Result: the module.

    Without private, the module is entered in sys.modules under its name, as by import; when it is
    there already and came from the same file, that one is returned (and adopted, if asked for).

    private=True: a fresh copy of the module, with globals of its own, at each call. sys.modules is
    left as it is, and __file__ is the original's path. Modules that keep their state in globals
    (single-phase initialisation) can so be loaded more than once, also into interpreters with a
    GIL of their own, which Python itself does not allow; libraries that the module needs are
    shared, and must stand being called from two interpreters at a time. The copy is a file beside
    the original, or below TMPDIR; it is removed when the process ends.

    adopt=True: the module's allocating calls (malloc, operator new, strdup, ...) are pointed at the
    heap, also those of a module that was never linked with homefree.

    Raises ImportError, which says why and what to do, when the file is missing, damaged, for
    another machine, another Python or a newer homefree, has another PyInit function, or cannot be
    adopted or copied: no Python code of it has run then, and without adopt no code at all. What
    the module itself raises is passed on.

    Threads: any, with the GIL held. In a subinterpreter it loads into that interpreter.
    """
    path = os.path.abspath(os.fsdecode(path))
    if name is None:
        name = os.path.basename(path).partition(".")[0]
    if not isinstance(name, str) or not name.rpartition(".")[2]:
        raise ValueError(f"{name!r} is no module's name; give one with name=")
    present = None if private else sys.modules.get(name)
    if present is not None:
        return _present(present, name, path, adopt)
    spec = importlib.util.spec_from_file_location(
        name, path, loader=_Loader(name, path, private=private, adopt=adopt)
    )
    module = importlib.util.module_from_spec(spec)
    if private:
        spec.loader.exec_module(module)
        return module
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return sys.modules.get(name, module)


def _present(module, name, path, adopt):
    loaded = getattr(module, "__file__", None)
    if loaded is None or not os.path.exists(loaded) or not os.path.samefile(loaded, path):
        raise ImportError(
            f"homefree cannot load {path}: a module {name!r} from {loaded} is loaded already; "
            "give another name=, or private=True",
            name=name,
            path=path,
        )
    if adopt:
        _adopt(name, loaded, path)
    return module


class _Loader(ExtensionFileLoader):
    """What load() makes modules with."""

    def __init__(self, name, path, *, private, adopt):
        super().__init__(name, path)
        self._private, self._adopt = private, adopt

    def create_module(self, spec):
        return _create(self, spec, self._private, self._adopt, refuse=True)


# ---- the import hook ----

_hooks = []
_hooks_lock = threading.Lock()


def _hooked_create_module(self, spec):
    """Stands in for ExtensionFileLoader.create_module, so that importing anything else costs
    nothing, and every finder's extension modules are seen."""
    for hook in reversed(_hooks):
        if hook.covers(spec.name):
            return hook.create(self, spec)
    return _create_module(self, spec)


class ImportHook:
    """What import_hook() returns: remove() ends it, as leaving a with statement does."""

    def __init__(self, names, private, adopt, refuse):
        self._names = names
        self._private, self._adopt, self._refuse = private, adopt, refuse

    def covers(self, name):
        """Whether the hook loads the extension module of that name."""
        if name == _OWN or name.startswith(_OWN + "."):
            return False
        if self._names is None:
            return True
        return any(name == own or name.startswith(own + ".") for own in self._names)

    def create(self, loader, spec):
        try:
            return _create(loader, spec, self._private, self._adopt, self._refuse)
        except ImportError as error:
            if self._refuse:
                raise
            warnings.warn(f"{error}; loaded as Python does", RuntimeWarning, stacklevel=2)
            return _create_module(loader, spec)

    def remove(self):
        """Ends the hook; what it has loaded stays as it is. Twice is harmless."""
        with _hooks_lock:
            if self in _hooks:
                _hooks.remove(self)
            if not _hooks and ExtensionFileLoader.create_module is _hooked_create_module:
                ExtensionFileLoader.create_module = _create_module

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


def import_hook(names=None, *, private=False, adopt=False, refuse=True):
    """Makes every extension module that is imported from now on in this interpreter load as by
    load(), whichever finder finds it. Other modules are imported as before, at no cost.

    names: an iterable of modules and packages (whose modules are covered too) to limit the hook
    to; None: all. private, adopt: as for load(); a private module is entered in sys.modules, as
    import does, and shared by those who import it in this interpreter. refuse=False: what load()
    would refuse is not looked for, and what cannot be adopted or copied is loaded as Python does,
    with a RuntimeWarning.

    Result: an ImportHook. The one that was made last is asked first. Threads: any.
    """
    if names is not None:
        if isinstance(names, str):
            raise TypeError("names is an iterable of names, not one str")
        names = frozenset(names)
    hook = ImportHook(names, bool(private), bool(adopt), bool(refuse))
    with _hooks_lock:
        _hooks.append(hook)
        ExtensionFileLoader.create_module = _hooked_create_module
    return hook
