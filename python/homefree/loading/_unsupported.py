# SPDX-License-Identifier: BSD-2-Clause
"""Modules that an interpreter with a GIL of its own cannot have, or not whole.

REFUSED, PARTLY and PROCESS_WIDE are the only places to add one; tests/long/interpreter_modules
finds them.

State: none. Threads: any.
"""

import functools
import warnings
from importlib.machinery import BuiltinImporter

__all__ = ["check", "note", "wrap_built_in"]

# Extension modules, or the packages that they are in, that end the process in another interpreter
# than the main one, also as private copies: {name: why}.
REFUSED = {
    "numba": "interpreters share LLVM, llvmlite's library: each registers its functions there in "
    "place of the others', without a common lock, and the process ends",
    "torch": "a private copy of libtorch_python registers torch's operators once more with "
    "libtorch_cpu, which ends the process",
}

# Those of which something does not work there, and nothing says so: {module: what}.
PARTLY = {
    "grpc._cython.cygrpc": "blocking calls of clients work; servers and asynchronous calls hang: "
    "they wait for daemon threads, which only the main interpreter has",
}

# Modules that are compiled into Python and refuse such interpreters because of some of their
# functions, which are the process's: {module: these functions}.
PROCESS_WIDE = {
    "faulthandler": (
        *("enable", "disable", "register", "unregister"),
        *("dump_traceback_later", "cancel_dump_traceback_later"),
    ),
    "_suggestions": (),
    "_tracemalloc": ("start", "stop", "clear_traces"),
}


def _elsewhere(name):
    return (
        f"import {name} in the main interpreter and use it in threads there (a task of Dask's: "
        'dask.annotate(executor="threads")), or in processes (ProcessPoolExecutor)'
    )


def check(name, path):
    """Raises ImportError for a module that REFUSED has, and warns of one that PARTLY has."""
    if name in PARTLY:
        package = name.partition(".")[0]
        warnings.warn(
            f"homefree: {package} in this interpreter: {PARTLY[name]}. For these, "
            + _elsewhere(package),
            RuntimeWarning,
            stacklevel=2,
        )
    known = name
    while known and known not in REFUSED:
        known = known.rpartition(".")[0]
    if known:
        raise ImportError(
            f"homefree refuses to load {path} into this interpreter: {REFUSED[known]}; "
            + _elsewhere(known),
            name=name,
            path=path,
        )


def note(error, name):
    """Adds to what a private copy's own code has raised where the module may still work."""
    begin = "homefree gave this interpreter a private copy of "
    said = [str(error), *getattr(error, "__notes__", ())]
    if said[0].startswith("homefree ") or any(text.startswith(begin) for text in said):
        return
    error.add_note(f"{begin}{name}. If it works in the main interpreter alone: {_elsewhere(name)}")


def _main_alone(module, name):
    """In place of a function that changes something of the process's. What is so already is no
    error: programs enable faulthandler in their first line."""

    @functools.wraps(getattr(module, name))
    def call(*_, **__):
        if name == "enable" and module.is_enabled():
            return
        raise RuntimeError(
            f"{module.__name__}.{name}() is for all interpreters of the process: call it in the "
            "main one"
        )

    return call


def wrap_built_in(unrestricted):
    """Lets this interpreter import what PROCESS_WIDE names. unrestricted: a context in which a
    module is not asked whether it supports the interpreter."""
    create = BuiltinImporter.create_module

    def create_module(spec):
        functions = PROCESS_WIDE.get(spec.name)
        if functions is None:
            return create(spec)
        with unrestricted():
            module = create(spec)
        for name in functions:
            setattr(module, name, _main_alone(module, name))
        return module

    BuiltinImporter.create_module = staticmethod(create_module)
