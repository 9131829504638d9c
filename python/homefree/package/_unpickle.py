"""What a pickle in a package may name and call, and loading one within these limits.

First the pickle is followed without running it (_opcodes), and each name in it is compared with the
package's rules. Then it runs, and each object that a name leads to is looked at, because a module
also has names of what it imported. Nothing here keeps state.
"""

import io
import pickle
import sys
import types

from . import _opcodes, _standard
from ._names import decide, is_module, shown
from ._package_errors import PackageError, RefusedPickle, error

_ROUTINES = (types.BuiltinFunctionType, types.FunctionType)


def why_not(rules, is_own, scan, name):
    """(why, remedy) if a pickle must not name this (module, name) as it does, or None."""
    module, path = name
    text = shown(f"{module}.{path}")
    if not is_module(module) or not all(part.isidentifier() for part in path.split(".")):
        return f"it names {text}, which is no name", "write the package again"
    if any(part.startswith("__") for part in (*module.split("."), *path.split("."))):
        return f"it names {text}", "names with two underscores in front are no class of a model"
    if is_own(module):
        return None
    rule = decide(rules, module)
    if rule is not None and rule.action in ("mock", "deny"):
        done = "mocked" if rule.action == "mock" else "denied"
        return f"it names {text}, and {module} is {done}", "leave such objects out of the pickle"
    extern = rule is not None and rule.action == "extern"
    if not _standard.is_standard(module):
        if extern:
            return None
        return (
            f"it names {text}, and {module} is neither in the package nor extern",
            f'have the writer add it: intern("{module}") or extern("{module}")',
        )
    if extern:
        return None
    remedy = "leave such objects out of the pickle, or, if that is meant, have the writer say "
    remedy += f'extern("{module}")'
    if text == "builtins.getattr":
        return "it has a bound method, which is pickled as a call of getattr", remedy
    if not _standard.may_name(module, path):
        return f"it names {text}, which a pickle may not name", remedy
    if name in scan.called and not _standard.may_call(module, path):
        return f"it calls {text}, which a pickle may not call", remedy
    if name in scan.ranged:
        return f"it calls {text} with a range, which may take for ever", remedy
    return None


def scanned(data, package, member):
    """The Scan of a pickle. Raises RefusedPickle."""
    try:
        return _opcodes.Scan(data)
    except _opcodes.Broken as broken:
        raise error(
            RefusedPickle,
            f"the pickle is broken, or no pickler has written it: {broken}",
            "pickle the object again with homefree.package.Writer",
            package=package,
            member=member,
        ) from None


def _singleton_type(value):
    """What a pickle may do with `type`: name the types that have no name of their own."""
    if value is None or value is ... or value is NotImplemented:
        return type(value)
    raise pickle.UnpicklingError("it asks for the type of something other than None")


def _logger(name=None):
    """logging.getLogger(), which makes a logger for each of the parents that the name tells."""
    import logging

    if name is not None and (not isinstance(name, str) or len(name) > 1000):
        raise pickle.UnpicklingError("it asks for a logger whose name is no short text")
    return logging.getLogger(name)


# What pickles get in place of what they name.
_INSTEAD = {("builtins", "type"): _singleton_type, ("logging", "getLogger"): _logger}


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, buffers, importer, refuse):
        super().__init__(file, buffers=buffers)
        self._importer, self._refuse = importer, refuse

    def find_class(self, module, name):
        why = self._importer.why_not_named(module, name)
        if why:
            self._refuse(*why)
        if (module, name) in _INSTEAD:
            return _INSTEAD[module, name]
        found = self._importer.module(module)
        *classes, last = name.split(".")
        for part in classes:
            found = getattr(found, part)
            if not isinstance(found, type):
                self._refuse(
                    f"it names {module}.{name}, whose {part} is no class",
                    "define what is pickled in a module or in a class",
                )
        found = getattr(found, last)
        why = self._importer.why_not_object(found, f"{module}.{name}")
        if why:
            self._refuse(*why)
        return found


def why_not_object(found, text, permits):
    """(why, remedy) if an object is not what its module could have defined. permits(module, name)
    tells why a pickle must not name that, or None."""
    remedy = "name it where it is defined"
    if isinstance(found, types.ModuleType):
        return f"{text} is a module", remedy
    if isinstance(found, (type, *_ROUTINES)):
        home = getattr(found, "__module__", None)
        name = getattr(found, "__qualname__", "")
    else:
        home, name = type(found).__module__, type(found).__qualname__
        if found is ... or found is NotImplemented:
            return None
    if not isinstance(home, str) or not isinstance(name, str):
        return f"{text} does not tell where it is defined", remedy
    if not _standard.is_standard(home):
        return None  # the package's, or of what is extern: these are trusted to be what they hold
    real = sys.modules.get(home)
    for part in name.split("."):
        real = getattr(real, part, None)
    if real is not (found if isinstance(found, (type, *_ROUTINES)) else type(found)):
        return None  # an extension's class that calls itself a builtin
    why = permits(home, name)
    return why and (f"{text} is {home}.{name}: {why[0]}", why[1])


def load(data, buffers, importer, package, member):
    """The object in a pickle. Raises RefusedPickle."""

    def refuse(why, remedy):
        raise error(RefusedPickle, why, remedy, package=package, member=member)

    scan = scanned(data, package, member)
    for name in scan.named:
        why = importer.why_not(scan, name)
        if why:
            refuse(*why)
    if scan.buffers > len(buffers):
        refuse(
            f"it takes {scan.buffers} buffers, and the package has {len(buffers)}",
            "write the package again",
        )
    try:
        return _Unpickler(io.BytesIO(data), buffers, importer, refuse).load()
    except PackageError:
        raise
    except Exception as failed:
        words = shown(" ".join(str(failed).split()))
        raise error(
            RefusedPickle,
            f"it cannot be loaded: {type(failed).__name__}: {words}",
            "look at the cause; the classes may be of another version than when it was pickled",
            package=package,
            member=member,
        ) from failed
