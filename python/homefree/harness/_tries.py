# SPDX-License-Identifier: BSD-2-Clause
"""Tries: a host's process runs recipes one after the other, and tells what each makes.

Runs in processes that a host forked. Each recipe is told before and after it runs, because any of
them may end the process; the controller then goes on after it. A request without recipes asks for
the module's callables.
"""

import gc
import importlib.machinery
import inspect
import json
import os
import sys

from . import _cells, _kinds, _recipes

# What must not be called with invented arguments: it ends processes or changes the machine.
_NEVER_WORDS = (
    "abort exit _exit quit kill killpg terminate fork forkpty vfork posix_spawn spawn system popen "
    "reboot shutdown remove unlink rmdir rmtree rename replace truncate chmod chown chroot "
    "setuid setgid seteuid setegid setreuid setregid setrlimit nice mount umount execv execve "
    "crash segfault input breakpoint raise_signal pthread_kill alarm setitimer"
)
_NEVER = frozenset(_NEVER_WORDS.split())


def _tell(result, **step):
    os.write(result, (json.dumps(step) + "\n").encode())


def _arity(function):
    """(fewest, most) positional arguments, or None if it is not known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return None
    fewest = most = 0
    for parameter in parameters:
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            most += 1
            fewest += parameter.default is parameter.empty
        elif parameter.kind is parameter.VAR_POSITIONAL:
            most += 2
        elif parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            return (99, 99)
    return (fewest, most)


def _in_c(module):
    loader = getattr(getattr(module, "__spec__", None), "loader", None)
    return loader is importlib.machinery.BuiltinImporter or isinstance(
        loader, importlib.machinery.ExtensionFileLoader
    )


def _belongs(thing, root):
    owner = getattr(thing, "__module__", None)
    if isinstance(thing, type(len)):  # of a module in C: its own module object, or None
        owner = owner or getattr(getattr(thing, "__self__", None), "__name__", None)
    return owner is None or owner == root or str(owner).startswith((root + ".", "_" + root))


def callables(root):
    """The public callables of a module and of its loaded submodules."""
    top = root.partition(".")[0]
    modules = [name for name in sorted(sys.modules) if name == root or name.startswith(root + ".")]
    seen, found = set(), []
    for module in modules:
        if any(part.startswith("_") for part in module[len(root) :].split(".") if part):
            continue
        names = vars(sys.modules[module])
        in_c = _in_c(sys.modules[module])  # it imports few names of others
        for name in sorted(names):
            thing = names[name]
            if name.startswith("_") or name.lower() in _NEVER or not callable(thing):
                continue
            ours = in_c or _belongs(thing, top) or _belongs(thing, root)
            if id(thing) in seen or not ours:
                continue
            if isinstance(thing, type) and issubclass(thing, BaseException):
                continue
            seen.add(id(thing))
            found.append(
                {
                    "name": f"{module}:{name}",
                    "class": isinstance(thing, type),
                    "arity": _arity(thing),
                }
            )
    return found


def _methods(thing, root):
    """The public methods of an object whose type is the module's own."""
    top = root.partition(".")[0]
    kind = type(thing)
    if kind.__module__ == "builtins" or not _belongs(kind, top):
        return []
    found = []
    for name in dir(kind):
        if name.startswith("_") or name.lower() in _NEVER:
            continue
        method = inspect.getattr_static(kind, name)
        if callable(method) and not isinstance(method, (type, staticmethod)):
            arity = _arity(method)
            if arity is not None:
                arity = (max(arity[0] - 1, 0), max(arity[1] - 1, 0))
            found.append({"name": name, "arity": arity})
    return found


def _exports(thing):
    """The methods by which an object offers its memory."""
    names = ("__dlpack__", "__arrow_c_schema__", "__arrow_c_array__", "__arrow_c_stream__")
    if type(thing).__module__ == "numpy":  # those are NumPy's, not the module's
        return []
    return [name for name in names if hasattr(type(thing), name)]


def run(request, root, result):
    """Runs the recipes of a request, or lists the module's callables."""
    if request["tries"] is None:
        _tell(result, callables=callables(root))
        return
    before = set(sys.modules)
    for number, recipe in enumerate(request["tries"]):
        _tell(result, trying=number)
        kept = []
        try:
            thing = _recipes.build(recipe, kept)
        except Exception as error:
            _tell(result, raised=_cells.describe(error), number=number)
            continue
        kind = _kinds.classify(thing)
        _tell(
            result,
            made=number,
            kind=kind,
            type=f"{type(thing).__module__}:{type(thing).__qualname__}",
            methods=_methods(thing, root) if kind not in ("string", "call") else [],
            exports=_exports(thing),
            loaded=sorted({name.partition(".")[0] for name in set(sys.modules) - before}),
        )
        _kinds.read(thing)
        _tell(result, read=number)
        del kept[:]
        del thing
        gc.collect()
        _tell(result, dropped=number)
