# SPDX-License-Identifier: BSD-2-Clause
"""Records how a program uses the tested module: which callables, with which arguments.

Runs inside the program, started by recorder/sitecustomize.py. When the module or a submodule has
been imported as a whole, its functions are replaced by objects that call them, and methods of its
types are wrapped where types can be changed. Each new call becomes a line of JSON in a file of the
process. Of the program's objects it keeps weak references or ids, so their lifetimes do not change.
"""

import ast
import base64
import contextlib
import importlib.abc
import json
import os
import pickle
import sys
import threading
import types
import weakref

from . import _recipes

VARIABLE = "HOMEFREE_TEST_RECORD"
_LITERAL_MOST = 4096  # characters of a literal
_PICKLED_MOST = 1 << 18
_LONG = 10000  # elements or bytes of a container
_EACH_MOST = 300  # calls of one callable that are looked at
_CALLS_MOST = 3000  # recorded calls of a process
_KNOWN_MOST = 20000  # objects whose origin is remembered
_ADDRESS_LEAST = 1 << 32  # numbers from here on may be addresses

_FUNCTIONS = (types.BuiltinFunctionType, types.FunctionType)
_CONTAINERS = (str, bytes, tuple, list, dict, set, frozenset)
_CALLBACKS = (*_FUNCTIONS, types.MethodType, types.BuiltinMethodType)


class _Recording:
    """The file of a process, and what is known about its objects."""

    def __init__(self, directory, root):
        self.directory = directory
        self.root = root
        self.seen = set()
        self.objects = {}  # id: (recipe, type, weak reference or None)
        self.tries = {}  # callable: how many of its calls were looked at
        self.importing = 0
        self.pending = []  # modules to wrap when the outermost import is done
        self.numbers = {}  # number that a call returned: recipe
        self.busy = threading.local()
        self.file = None
        self.pid = None

    def write(self, **line):
        if self.pid != os.getpid():  # also after a fork
            self.pid = os.getpid()
            path = os.path.join(self.directory, f"{self.pid}.jsonl")
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self.file = os.open(path, flags, 0o600)
        with contextlib.suppress(OSError):
            os.write(self.file, (json.dumps(line) + "\n").encode())

    # ---- arguments ----

    def recipe_of(self, thing):
        """A recipe for an argument, or None."""
        if thing is None or isinstance(thing, bool):
            return _recipes.value(thing)
        if type(thing) is int:
            if thing in self.numbers:
                return self.numbers[thing]
            return _recipes.value(thing) if abs(thing) < _ADDRESS_LEAST else None
        known = self.known(thing)
        if known is not None:
            return known
        if type(thing) in (float, complex, *_CONTAINERS):
            if type(thing) in _CONTAINERS and len(thing) > _LONG:
                return None
            literal = self._literal(thing)
            if literal is not None:
                return literal
        if type(thing) is _Function or isinstance(thing, _CALLBACKS):
            return _recipes.make("callback")
        if isinstance(thing, type):
            return self._type(thing)
        if isinstance(thing, memoryview):
            inner = self.recipe_of(bytearray(thing))
            return _recipes.view(inner) if inner is not None else None
        return self._pickled(thing)

    def known(self, thing):
        """The recipe of an object that the module made, or None. Another object may have got the
        id of one that is gone; where a type allows no weak references, it has the same type."""
        recipe, kind, reference = self.objects.get(id(thing), (None, None, None))
        if kind is not type(thing) or (reference is not None and reference() is not thing):
            return None
        return recipe

    def _literal(self, thing):
        with contextlib.suppress(Exception):
            text = repr(thing)
            if len(text) <= _LITERAL_MOST and ast.literal_eval(text) == thing:
                return _recipes.value(thing)
        return None

    def _type(self, thing):
        if thing.__module__ == "__main__" or "<" in thing.__qualname__:
            return None
        return _recipes.name(thing.__module__, thing.__qualname__)

    def _pickled(self, thing):
        size = getattr(thing, "nbytes", 0)
        if isinstance(size, int) and size > _PICKLED_MOST:
            return None
        with contextlib.suppress(Exception):
            pickled = pickle.dumps(thing)
            if len(pickled) <= _PICKLED_MOST and b"__main__" not in pickled:
                kind = type(thing)
                return {
                    "pickled": base64.b64encode(pickled).decode(),
                    "shown": f"<{kind.__qualname__}>",
                    "type": f"{kind.__module__}:{kind.__qualname__}",
                }
        return None

    # ---- calls ----

    def begin(self, function, args, kwargs):
        """The recipe of a call that is about to happen, or None."""
        if getattr(self.busy, "now", False) or len(self.seen) >= _CALLS_MOST:
            return None
        name = function.get("name") or function["attribute"]
        self.tries[name] = self.tries.get(name, 0) + 1
        if self.tries[name] > _EACH_MOST:
            return None
        self.busy.now = True
        try:
            arguments = [self.recipe_of(one) for one in args]
            more = {key: self.recipe_of(one) for key, one in kwargs.items()}
            if None in arguments or None in more.values():
                self.write(lost=_recipes.text(function))
                return None
            return _recipes.call(function, *arguments, **more)
        except Exception:
            return None
        finally:
            self.busy.now = False

    def end(self, recipe, result):
        """A call has returned."""
        self.busy.now = True
        try:
            self.remember(recipe, result)
            key = repr((_recipes.shape(recipe), type(result).__name__))
            if key not in self.seen:
                self.seen.add(key)
                self.write(call=recipe)
        except Exception as error:  # never the program's
            self.write(error=repr(error))
        finally:
            self.busy.now = False

    def remember(self, recipe, thing, depth=0):
        if type(thing) is int:
            if thing >= 1 << 16 and len(self.numbers) < _KNOWN_MOST:
                self.numbers[thing] = recipe
            return
        if thing is None or isinstance(thing, (bool, float)):
            return
        if type(thing) in _CONTAINERS:
            if type(thing) in (tuple, list) and depth == 0:
                for number, one in enumerate(thing[:16]):
                    self.remember(_recipes.item(recipe, number), one, 1)
            return
        reference = None
        with contextlib.suppress(TypeError):
            reference = weakref.ref(thing)
        if len(self.objects) >= _KNOWN_MOST:
            self.objects.pop(next(iter(self.objects)), None)
        self.objects[id(thing)] = (recipe, type(thing), reference)


class _Function:
    """Stands for a function of the module. Unlike a function in Python, it binds to no object."""

    def __init__(self, recording, recipe, function):
        self.__dict__.update(
            _recording=recording, _recipe=recipe, __wrapped__=function, __doc__=function.__doc__
        )

    @property
    def __class__(self):  # for isinstance()
        return type(self.__wrapped__)

    def __call__(self, *args, **kwargs):
        recipe = self._recording.begin(self._recipe, args, kwargs)
        result = self.__wrapped__(*args, **kwargs)
        if recipe is not None:
            self._recording.end(recipe, result)
        return result

    def __getattr__(self, name):
        return getattr(self.__dict__["__wrapped__"], name)

    def __setattr__(self, name, value):
        setattr(self.__wrapped__, name, value)

    def __repr__(self):
        return repr(self.__wrapped__)

    def __eq__(self, other):
        return self.__wrapped__ == getattr(other, "__wrapped__", other)

    def __hash__(self):
        return hash(self.__wrapped__)

    def __reduce__(self):
        return self.__wrapped__.__reduce__()


def _wrap_method(recording, name, function):
    def method(self, *args, **kwargs):
        known = recording.known(self)
        recipe = None
        if known is not None:
            recipe = recording.begin({"of": known, "attribute": name}, args, kwargs)
        result = function(self, *args, **kwargs)
        if recipe is not None:
            recording.end(recipe, result)
        return result

    method.__name__ = name
    method.__doc__ = getattr(function, "__doc__", None)
    method.__wrapped__ = function
    return method


def _wrap_init(recording, kind, recipe):
    original = kind.__init__

    def __init__(self, *args, **kwargs):
        call = recording.begin(recipe, args, kwargs) if type(self) is kind else None
        if original is not object.__init__:
            original(self, *args, **kwargs)
        if call is not None:
            recording.end(call, self)

    __init__.__wrapped__ = original
    return __init__


# Where a type object of a 64-bit CPython has its flags, behind the head of every object, which is
# longer without a GIL; and which of them decides whether its attributes can be set.
_FLAGS_AT = object.__basicsize__ + 152
_HEAP_TYPE, _IMMUTABLE_TYPE = 1 << 9, 1 << 8


@contextlib.contextmanager
def _changeable(kind):
    """Lets attributes of a type be set that is static in C, as most of Cython's are. CPython keeps
    its slots and caches right as for any other type; it refuses only by these flags."""
    flags = None
    if kind.__flags__ & _IMMUTABLE_TYPE or not kind.__flags__ & _HEAP_TYPE:
        with contextlib.suppress(ImportError):
            import ctypes

            flags = ctypes.c_ulong.from_address(id(kind) + _FLAGS_AT)
    if flags is None or flags.value != kind.__flags__ or sys.implementation.name != "cpython":
        yield
        return
    before = flags.value
    if sys.version_info >= (3, 10):
        flags.value = before & ~_IMMUTABLE_TYPE
    else:
        flags.value = before | _HEAP_TYPE
    try:
        yield
    finally:
        changed = _IMMUTABLE_TYPE | _HEAP_TYPE
        flags.value = (flags.value & ~changed) | (before & changed)


def _set(kind, name, value):
    """Sets an attribute of a type. The collector, other threads and other code see the type as it
    is at all other times."""
    with _changeable(kind):
        setattr(kind, name, value)


def _wrap_type(recording, kind, recipe):
    """Wraps what can be wrapped."""
    try:
        _set(kind, "__init__", _wrap_init(recording, kind, recipe))
    except (TypeError, AttributeError):
        recording.write(static=_recipes.text(recipe))
        return
    with contextlib.suppress(TypeError, AttributeError):
        for name, function in list(vars(kind).items()):
            if name.startswith("_") or isinstance(function, (staticmethod, classmethod, type)):
                continue
            if callable(function):
                _set(kind, name, _wrap_method(recording, name, function))


def _is_function(thing):
    return isinstance(thing, _FUNCTIONS) or type(thing).__name__ in (
        "cython_function_or_method",
        "fused_cython_function",
        "nb_func",
        "ufunc",
        "_ArrayFunctionDispatcher",
    )


def wrap(recording, module):
    """Replaces what a module that was just imported offers."""
    recording.write(imported=module.__name__)
    inner = module.__name__[len(recording.root) :].split(".")
    if any(part.startswith("_") for part in inner):
        return  # what it has for others is in a module with a public name as well
    for name, thing in list(vars(module).items()):
        if name.startswith("_") or type(thing) is _Function:
            continue
        recipe = _recipes.name(module.__name__, name)
        owner = getattr(thing, "__module__", None) or module.__name__
        if not str(owner).lstrip("_").startswith(recording.root.partition(".")[0].lstrip("_")):
            continue
        with contextlib.suppress(TypeError, AttributeError):
            if isinstance(thing, type):
                if not issubclass(thing, BaseException):
                    _wrap_type(recording, thing, recipe)
            elif _is_function(thing):
                setattr(module, name, _Function(recording, recipe, thing))


class _Loader(importlib.abc.Loader):
    """The loader of a module, followed by wrap()."""

    def __init__(self, recording, loader):
        self.recording = recording
        self.loader = loader

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        recording = self.recording
        module.__spec__.loader = self.loader
        with contextlib.suppress(AttributeError):
            module.__loader__ = self.loader
        recording.importing += 1
        try:
            self.loader.exec_module(module)
        finally:
            recording.importing -= 1
        recording.pending.append(module)
        if recording.importing == 0:
            while recording.pending:
                wrap(recording, recording.pending.pop())

    def __getattr__(self, name):
        return getattr(self.loader, name)


class _Hook(importlib.abc.MetaPathFinder):
    """Finds the module and its submodules by the finders behind it."""

    def __init__(self, recording):
        self.recording = recording

    def find_spec(self, name, path=None, target=None):
        root = self.recording.root
        if name not in (root, "_" + root) and not name.startswith(root + "."):
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(self.recording, spec.loader)
                return spec
        return None


def start():
    """Begins to record in this process, as the environment says."""
    wanted = json.loads(os.environ[VARIABLE])
    sys.meta_path.insert(0, _Hook(_Recording(wanted["directory"], wanted["module"])))
