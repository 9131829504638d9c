"""The standard library: which modules it has, and what of it any pickle may name.

State: the names of modules, found once. Threads: any.

A pickle can name whatever can be imported, and call it. So of the standard library it may name
what is listed here, and nothing else, unless the package has it as extern, by its own name. What
is listed reads and writes no files, runs no code that it is given, looks up no names, and takes no
more time and memory than its arguments do (Fraction("1e999999999") and str() of nested lists do).
VALUES may be named and not called, because no pickle of protocol 5 calls them.
"""

import builtins
import functools
import os
import sys

if not hasattr(sys, "stdlib_module_names"):
    import sysconfig  # not later: the finders of packages ask for these names

# Called, by a pickle, to make an object.
CALLS = {
    "_io": {"BytesIO", "StringIO"},
    "argparse": {"Namespace"},
    "array": {"_array_reconstructor", "array"},
    "builtins": {"complex", "object", "range", "slice", "type"},
    "collections": {"ChainMap", "Counter", "OrderedDict", "UserDict", "UserList"}
    | {"defaultdict", "deque"},
    "datetime": {"date", "datetime", "time", "timedelta", "timezone"},
    "decimal": {"Decimal"},
    "functools": {"partial"},
    "logging": {"getLogger"},
    "operator": {"itemgetter"},
    "pathlib": {"Path", "PosixPath", "PurePath", "PurePosixPath", "PureWindowsPath"},
    "random": {"Random"},
    "re": {"_compile"},
    "time": {"struct_time"},
    "types": {"SimpleNamespace"},
    "uuid": {"UUID"},
}
# The modules that some Pythons give these classes' names.
CALLS["pathlib._local"] = CALLS["pathlib"]
CALLS["io"] = CALLS["_io"]

VALUES = {
    "builtins": {"Ellipsis", "NotImplemented", "abs", "all", "any", "bool", "bytearray", "bytes"}
    | {"dict", "float", "frozenset", "hash", "int", "len", "list", "max", "min", "repr", "round"}
    | {"set", "sorted", "str", "sum", "tuple"},
}


def _is_exception(name):
    found = getattr(builtins, name, None)
    return isinstance(found, type) and issubclass(found, BaseException)


def may_call(module, name):
    return name in CALLS.get(module, ()) or (module == "builtins" and _is_exception(name))


def may_name(module, name):
    return may_call(module, name) or name in VALUES.get(module, ())


@functools.cache
def _modules():
    found = getattr(sys, "stdlib_module_names", None)
    if found is not None:
        return frozenset(found)
    # Before 3.10.
    names = set(sys.builtin_module_names)
    folder = sysconfig.get_path("stdlib")
    for path in (folder, os.path.join(folder, "lib-dynload")):
        if os.path.isdir(path):
            names.update(name.partition(".")[0] for name in os.listdir(path))
    return frozenset(names - {"site-packages", "lib-dynload", "__pycache__"})


def is_standard(name):
    """Whether a module is the standard library's."""
    return name.partition(".")[0] in _modules()
