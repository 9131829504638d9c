# SPDX-License-Identifier: BSD-2-Clause
"""What a pickle in a package may name and call, and loading one within these limits.

First the pickle is followed without running it, and each name in it is compared with the package's
rules: Scan. Nothing is called there, no name is looked up, and no memory is taken that the pickle's
own size does not pay for; so this comes before the unpickler, which has bounds for neither (a
memo's index, the hash of nested tuples) and calls whatever is on its stack. Accepted is what
CPython's own pickler writes at protocols 4 and 5 without persistent IDs and extension codes, unless
it calls what is not named as it stands (a result, an argument), computes a name, or changes
something named or a logger, which others have as well.

Then the pickle runs, and each object that a name leads to is looked at, because a module also has
names of what it imported.

A pickle can name whatever can be imported, and call it. So of the standard library it may name
what is listed here, and nothing else, unless the package has it as extern, by its own name. What
is listed reads and writes no files, runs no code that it is given, looks up no names, and takes no
more time and memory than its arguments do (Fraction("1e999999999") and str() of nested lists do).
VALUES may be named and not called, because no pickle of protocol 5 calls them.

Nothing here keeps state.
"""

import builtins
import io
import pickle
import pickletools
import sys
import types

from ._names import decide, is_module, is_standard, shown
from ._package_errors import PackageError, RefusedPickle, error

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


def _may_call(module, name):
    found = getattr(builtins, name, None) if module == "builtins" else None
    is_exception = isinstance(found, type) and issubclass(found, BaseException)
    return is_exception or name in CALLS.get(module, ())


def may_name(module, name):
    return _may_call(module, name) or name in VALUES.get(module, ())


# ---- following a pickle ----

_DEPTH = 5000  # of containers in containers: C code descends into them
_WORK = 10**9  # items, each time that something stands where it was written before

# What is on the stack: (depth, items, what). `what` is a text, a name (module, name), RANGE for a
# range and for what has one in it, LOGGER for what others use as well, or None.
_RANGE, _LOGGER = object(), object()
_MADE = {("builtins", "range"): _RANGE, ("logging", "getLogger"): _LOGGER}
_ATOM = (0, 1, None)

_PLAIN = {
    "NONE",
    "NEWTRUE",
    "NEWFALSE",
    "BININT",
    "BININT1",
    "BININT2",
    "LONG1",
    "LONG4",
    "BINFLOAT",
}
_PLAIN |= {"SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8"}
_PLAIN |= {"EMPTY_TUPLE", "EMPTY_LIST", "EMPTY_DICT", "EMPTY_SET"}
_TEXTS = {"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"}
_TUPLES = {"TUPLE1", "TUPLE2", "TUPLE3", "TUPLE", "FROZENSET"}
_CALLED = {"REDUCE", "NEWOBJ", "NEWOBJ_EX"}
_CHANGED = {"APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS", "BUILD"}
_TAKING = _TUPLES | _CALLED | _CHANGED
_TAKING |= {"PROTO", "FRAME", "STOP", "POP", "POP_MARK", "STACK_GLOBAL"}
_TAKING |= {"NEXT_BUFFER", "READONLY_BUFFER"}


class Broken(Exception):
    """The pickle cannot be loaded, or is none that a pickler writes."""


class Scan:
    """What a pickle does. named: names (module, name). called: those that it calls. ranged: those
    that it calls with a range among the arguments. buffers: how many it takes."""

    def __init__(self, data):
        self.named, self.called, self.ranged = {}, {}, {}
        self.buffers = 0
        self._stack, self._memo, self._marks = [], [], []
        self._work = 0
        data = bytes(data)
        if data[:2] not in (b"\x80\4", b"\x80\5"):
            raise Broken("it does not begin as a pickle of protocol 4 or 5 does")
        push, stack, end = self._stack.append, self._stack, 0
        try:
            for opcode, argument, end in pickletools.genops(data):  # noqa: B007
                name = opcode.name
                # The frequent ones first.
                if name in _PLAIN:
                    push(_ATOM)
                elif name == "MEMOIZE":
                    stack += (top := self._pop(1))
                    self._memo += top
                elif name == "BINGET" or name == "LONG_BINGET":
                    if argument >= len(self._memo):
                        raise Broken("it takes what it did not memoize")
                    push(self._memo[argument])
                    self._work += stack[-1][1]
                    self._count(self._work)
                elif name == "MARK":
                    self._marks.append(len(stack))
                elif name in _TEXTS:
                    push((0, 1, argument))
                elif name in _TAKING:
                    self._take(name, opcode.stack_before)
                else:
                    raise Broken(f"it has the opcode {name}, which its protocol does not use")
        except ValueError as failed:
            raise Broken(f"it is cut short, or no pickle: {failed}") from None
        except IndexError:
            raise Broken("it takes more from its stack than there is") from None
        if self._stack or self._marks:
            raise Broken("it ends with something left on its stack")
        if end + 1 != len(data):
            raise Broken("bytes follow its end")

    def _pop(self, count):
        at = len(self._stack) - count
        if at < (self._marks[-1] if self._marks else 0):
            raise IndexError
        items = self._stack[at:]
        del self._stack[at:]
        return items

    def _hold(self, items, before=_ATOM):
        """A container of these items, and of those of the one before."""
        depth, count, what = before
        for item in items:
            depth = max(depth, item[0] + 1)
            count += item[1]
            if item[2] is _RANGE:
                what = _RANGE
        if depth > _DEPTH:
            raise Broken(f"it nests more than {_DEPTH} objects")
        self._count(count)
        return (depth, count, what)

    def _count(self, count):
        if count > _WORK:
            raise Broken("it has the same objects in itself too often")

    def _take(self, name, before):
        """The opcodes that take something from the stack, and those that are rare."""
        items = []
        if pickletools.markobject in before:
            items = self._stack[self._marks[-1] :]
            del self._stack[self._marks.pop() :]
            before = before[: before.index(pickletools.markobject)]
        if name == "SETITEMS" and len(items) % 2:
            raise Broken("it has a key without a value")
        items = self._pop(len(before)) + items
        if name in _TUPLES:
            self._stack.append(self._hold(items))
        elif name in _CALLED:
            self._stack.append(self._call(items[0][2], self._hold(items[1:])))
        elif name in _CHANGED:
            what = items[0][2]
            if what is _LOGGER or isinstance(what, tuple):
                what = "a logger" if what is _LOGGER else shown(".".join(what))
                raise Broken(f"it changes {what}, which it has not made")
            self._stack.append(self._hold(items[1:], items[0]))
        elif name == "STACK_GLOBAL":
            found = tuple(one[2] for one in items)
            if not all(type(one) is str for one in found):
                raise Broken("it computes a name")
            self.named[found] = True
            self._stack.append((0, 1, found))
        elif name == "NEXT_BUFFER":
            self.buffers += 1
            self._stack.append(_ATOM)
        elif name == "READONLY_BUFFER":
            self._stack += items

    def _call(self, function, arguments):
        if type(function) is not tuple:
            raise Broken("it calls what it does not name")
        self.called[function] = True
        if arguments[2] is _RANGE:
            self.ranged[function] = True
        return (arguments[0] + 1, arguments[1], _MADE.get(function))


def scanned(data, package, member):
    """The Scan of a pickle. Raises RefusedPickle."""
    try:
        return Scan(data)
    except Broken as broken:
        raise error(
            RefusedPickle,
            f"the pickle is broken, or no pickler has written it: {shown(str(broken))}",
            "pickle the object again with homefree.package.Writer",
            package=package,
            member=member,
        ) from None


# ---- what it may name ----


def why_not(rules, is_own, scan, name):
    """(why, remedy) if a pickle must not name this (module, name) as it does, or None. scan: None
    if only the name counts."""
    module, path = name
    text = shown(f"{module}.{path}")
    if not is_module(module) or not all(part.isidentifier() for part in path.split(".")):
        return f"it names {text}, which is no name", "write the package again"
    if any(part.startswith("__") for part in (*module.split("."), *path.split("."))):
        return f"it names {text}", "names with two underscores in front are no class of a model"
    if is_own(module):
        return None
    action = decide(rules, module)
    if action in ("mock", "deny"):
        done = "mocked" if action == "mock" else "denied"
        return f"it names {text}, and {module} is {done}", "leave such objects out of the pickle"
    if action == "extern":
        return None
    if not is_standard(module):
        return (
            f"it names {text}, and {module} is neither in the package nor extern",
            f'have the writer add it: intern("{module}") or extern("{module}")',
        )
    remedy = "leave such objects out of the pickle, or, if that is meant, have the writer say "
    remedy += f'extern("{module}")'
    if text == "builtins.getattr":
        return "it has a bound method, which is pickled as a call of getattr", remedy
    if not may_name(module, path):
        return f"it names {text}, which a pickle may not name", remedy
    if scan is not None and name in scan.called and not _may_call(module, path):
        return f"it calls {text}, which a pickle may not call", remedy
    if scan is not None and name in scan.ranged:
        return f"it calls {text} with a range, which may take for ever", remedy
    return None


def _why_not_object(found, text, why_not_named):
    """(why, remedy) if an object is not what its module could have defined."""
    remedy = "name it where it is defined"
    if isinstance(found, types.ModuleType):
        return f"{text} is a module", remedy
    if found is ... or found is NotImplemented:
        return None
    if not isinstance(found, (type, types.BuiltinFunctionType, types.FunctionType)):
        found = type(found)
    home, name = getattr(found, "__module__", None), getattr(found, "__qualname__", None)
    if not isinstance(home, str) or not isinstance(name, str):
        return f"{text} does not tell where it is defined", remedy
    if not is_standard(home):
        return None  # the package's, or of what is extern: these are trusted to be what they hold
    real = sys.modules.get(home)
    for part in name.split("."):
        real = getattr(real, part, None)
    if real is not found:
        return None  # an extension's class that calls itself a builtin
    why = why_not_named(home, name)
    return why and (f"{text} is {home}.{name}: {why[0]}", why[1])


# ---- running it ----


def _type(value):
    """What a pickle may do with `type`: name the types that have no name of their own."""
    if value is None or value is ... or value is NotImplemented:
        return type(value)
    raise pickle.UnpicklingError("it asks for the type of something other than None")


def _logger(name=None):
    import logging

    # Each dot of a name makes another logger, for ever.
    if name is not None and (not isinstance(name, str) or len(name) > 1024):
        raise pickle.UnpicklingError("it asks for a logger whose name is no short text")
    return logging.getLogger(name)


# What pickles get in place of what they name.
_INSTEAD = {("builtins", "type"): _type, ("logging", "getLogger"): _logger}


class _Unpickler(pickle.Unpickler):
    def __init__(self, data, buffers, importer, refuse):
        super().__init__(io.BytesIO(data), buffers=buffers)
        self._importer, self._refuse = importer, refuse

    def find_class(self, module, name):
        why_not_named = self._importer.why_not_named
        why = why_not_named(module, name)
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
        why = _why_not_object(found, f"{module}.{name}", why_not_named)
        if why:
            self._refuse(*why)
        return found


def load(data, buffers, importer, package, member):
    """The object in a pickle. Raises RefusedPickle."""

    def refuse(why, remedy, cause=None):
        raise error(RefusedPickle, why, remedy, package=package, member=member) from cause

    scan = scanned(data, package, member)
    for name in scan.named:
        why = importer.why_not_named(*name, scan)
        if why:
            refuse(*why)
    if scan.buffers > len(buffers):
        refuse(
            f"it takes {scan.buffers} buffers, and the package has {len(buffers)}",
            "write the package again",
        )
    try:
        return _Unpickler(data, buffers, importer, refuse).load()
    except PackageError:
        raise
    except Exception as failed:
        words = shown(" ".join(str(failed).split()))
        refuse(
            f"it cannot be loaded: {type(failed).__name__}: {words}",
            "look at the cause; the classes may be of another version than when it was pickled",
            failed,
        )
