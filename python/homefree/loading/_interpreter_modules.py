# SPDX-License-Identifier: BSD-2-Clause
"""Extension modules in an interpreter with a GIL of its own: import_hook(private="interpreter").

A module that declares support for such interpreters is loaded by Python. Any other is loaded as a
private copy, whose globals belong to this interpreter alone, and Python's check is overridden
while the copy creates its module. Which of the two a file is has to be known before Python loads
it: CPython runs the PyInit function of a single-phase module first and refuses the module
afterwards (3.12 in this interpreter, 3.13 and 3.14 in the main one), and by then the function has
put objects of one interpreter into static types that all of them use. docs/interpreters.md has the
details.

The declaration is not believed of a module that takes the functions of others from capsules, as
all users of NumPy's C API do. Such a table nearly always lies in a static variable, also in modules
that declare support (SciPy's), and the interpreters' NumPys are different ones.

A library that calls CPython (pyarrow's libarrow_python) keeps objects of an interpreter in its
globals, too. An interpreter therefore gets a copy of its own, which its modules find by another
name. All other libraries are shared.

The file of a copy is removed as soon as it is loaded. What an interpreter has loaded is lent to it:
when it has ended, the copies are made new, and the next interpreter takes them over
(homefree/private.h). If the interpreter has a limit, what they allocate counts for it.

State: the libraries of this interpreter, under Python's import locks and _lock. Threads: any.
"""

import _imp
import atexit
import contextlib
import os
import re
import sys
import threading
import warnings

from .. import _homefree
from . import _load, _unsupported

# Modules of the standard library that declare support and lack it: the static types of _datetime
# are set up by each interpreter, without a lock (python/cpython#136421, #136423).
_UNSAFE = frozenset({"_datetime"})

_REFUSED = "does not support loading in subinterpreters"

# A free-threaded CPython has the function, which refuses.
_CAN_OVERRIDE = "t" not in sys.abiflags
_override = getattr(_imp, "_override_multi_interp_extensions_check", None)
if _override is None or not _CAN_OVERRIDE:
    _override = int

# For modules whose check is overridden (below); as many threads as import one.
_unchecked = {}  # {id(module): module}
_exec_module = _load.ExtensionFileLoader.exec_module

# From 3.15 on, a module that has PyModExport is created by Python's loader, of a file.
_CAN_LEND = sys.version_info < (3, 15)
_lends = False  # whether this interpreter's copies are for the next one: it is one of a group's

_lock = threading.RLock()
_libraries = {}  # {the original's path: the name of this interpreter's copy}


def _is_main():
    """Whether this is the main interpreter, where every module may be loaded."""
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters
    current, main = interpreters.get_current(), interpreters.get_main()
    return (current[0] if isinstance(current, tuple) else current) == (
        main[0] if isinstance(main, tuple) else main
    )


def _new_name(name, copy):
    """A name of the same length for a copy of a library, which no other one of this process has:
    the number that copies have in their file names."""
    number = re.match(r"\.homefree-[0-9a-f]+-\d+-\d+-(\d+)-", os.path.basename(copy)).group(1)
    unique = f"hf{number}-"
    return unique + name[len(unique) :] if len(unique) < len(name) else None


def _library(name, path):
    """The name by which this interpreter's copy of a library is found. It is loaded."""
    with _lock:
        if path not in _libraries:
            handle = _reused(path)
            _libraries[path] = (
                _new_library(name, path) if handle is None else _homefree.loaded_soname(handle)
            )
        return _libraries[path]


def _reused(path):
    """The handle of a copy that is as new, or None."""
    handle = _homefree.private_reuse(path) if _lends else None
    if handle is not None:
        _homefree.interpreter_limit_object(handle)
    return handle


def _lend(path, handle):
    if _lends:
        _homefree.interpreter_limit_object(handle)
        _homefree.private_lend(path, handle)


def _may_keep(name, path):
    """A module that is not this interpreter's alone outlives it. It may have taken over memory of
    the interpreter's, and keep it where only it knows, which is seen when the interpreter has
    ended. The standard library's do not."""
    own = {"homefree"} | sys.stdlib_module_names
    if _lends and name.partition(".")[0] not in own:
        _homefree.interpreter_keep(path)


def _new_library(name, path):
    copy = _homefree.private_copy(path)
    try:
        own = _new_name(name, copy)
        if own is None:
            raise OSError(0, f"the name {name} is too short for a copy of the library")
        _homefree.give_soname(path, copy, own)
        _rename(copy)
        handle = _homefree.open_file(copy)
        _lend(path, handle)
    finally:
        _homefree.private_remove(copy)
    return own


def _rename(copy):
    """Makes a copy use this interpreter's copies of libraries."""
    for name, path in _homefree.python_libraries(copy):
        _homefree.rename_needed(copy, name, _library(name, path))


def _native(loader, spec):
    """Loads a multi-phase module as Python does. None if it refuses interpreters like this one; no
    code but its PyInit function, which returns a constant, has run then."""
    before = _override(0)
    try:
        return _load.create_module(loader, spec)
    except ImportError as error:
        if _REFUSED not in str(error):
            raise
        return None
    finally:
        _override(before)


def _execute(self, module):
    """Replaces ExtensionFileLoader.exec_module: a private copy may create further modules of its
    own while it is executed, as those that are made with PyO3 do. What it imports meanwhile comes
    back to Hook.create()."""
    if _unchecked.pop(id(module), None) is None:
        return _exec_module(self, module)
    with _load.Unrestricted(), _noted(module.__name__):
        return _exec_module(self, module)


@contextlib.contextmanager
def _noted(name):
    try:
        yield
    except Exception as error:
        _unsupported.note(error, name)
        raise


def _private(loader, spec):
    path, name = spec.origin, spec.name
    handle = _reused(path)
    if handle is not None:
        return _load.make_private(loader, spec, path, path, handle=handle)
    copy = _load.copy(name, path)
    try:
        try:
            _rename(copy)
        except OSError as error:
            raise ImportError(
                f"homefree cannot load {path} into this interpreter: it needs a copy of a library "
                f"that calls Python: {error.strerror or error}; import it in the main interpreter",
                name=name,
                path=path,
            ) from None
        handle = _load.open_copy(name, copy, path)
        _lend(path, handle)
        return _load.make_private(loader, spec, copy, path, handle=handle)
    except ImportError as error:
        if _CAN_OVERRIDE or _REFUSED not in str(error):
            raise
        raise ImportError(
            f"homefree cannot load {path} into this interpreter: the module does not declare "
            "support for such interpreters (Py_mod_multiple_interpreters), and a free-threaded "
            "CPython cannot be told to accept it; import it in the main interpreter, and use "
            "threads",
            name=name,
            path=path,
        ) from None
    finally:
        _homefree.private_remove(copy)


class Hook(_load.ImportHook):
    """What import_hook(private="interpreter") installs."""

    def __init__(self, names):
        super().__init__(names, True, False, False)
        self._main = _is_main()
        self.loaded = {}  # {name: "native" or "private"}, for tests and reports

    def create(self, loader, spec):
        name, path = spec.name, spec.origin
        module, how = None, "native"
        if self._main:
            module = _load.create_module(loader, spec)
        else:
            _unsupported.check(name, path)
            if name not in _UNSAFE and self._may_be_native(path):
                module = _native(loader, spec)
        if module is None:
            with _noted(name):
                module, how = _private(loader, spec), "private"
            _unchecked[id(module)] = module
            _load.ExtensionFileLoader.exec_module = _execute
            _homefree.route()
        elif not self._main:
            _may_keep(name, path)
        self.loaded[name] = how
        return module

    @staticmethod
    def _may_be_native(path):
        try:
            return _homefree.initialisation(os.fspath(path)) == "multi"
        except OSError:
            return False


def _drop_filter(item):
    """CPython clears filters too late to free what they refer to, and keeps all arenas of an
    interpreter that leaves a block (seen in 3.14.6, which gives them back otherwise)."""
    if item in warnings.filters:
        warnings.filters.remove(item)


def prepare(*, lends=False):
    """What a new interpreter needs before anything else is imported; see docs/interpreters.md.
    Returns the hook; in the main interpreter, None, and does nothing. lends: whether homefree is
    told of the interpreter's end, so that its copies can be used again.

    The caller serialises this with the creation and the end of other interpreters: where _datetime
    is compiled into Python it cannot be copied, and CPython sets up its types without a lock.
    """
    global _lends
    if _is_main():
        return None
    _lends = lends and _CAN_LEND
    hook = Hook(None)
    _load.add_hook(hook)
    # NumPy says that its own data would be shared by interpreters; a private copy has its own.
    warnings.filterwarnings("ignore", "NumPy was imported from a Python sub-interpreter")
    atexit.register(_drop_filter, warnings.filters[0])
    if _CAN_OVERRIDE:
        _unsupported.wrap_built_in(_load.Unrestricted)
    if "_datetime" in sys.builtin_module_names and sys.version_info >= (3, 13):
        import _datetime  # noqa: F401
    return hook
