# SPDX-License-Identifier: BSD-2-Clause
"""The conditions of --interpreters: memory that crosses between interpreters with GILs of their
own, in each direction, while the maker or the taker lives and after it has ended.

Each interpreter is a homefree.interpreters.Executor with one worker. An object crosses as an
Executor's results and arguments do: as a pickle, and the memory of its buffers by reference. A
capsule cannot; what crosses is its deleter in C, which is then called in the other interpreter.

The functions below the line run in any interpreter; there, they keep what it holds.
"""

import atexit
import gc
import os
import sys

from . import _cells, _damage, _finder, _kinds, _recipes


def entering():
    """What a new interpreter executes, so that it can import these modules."""
    return f"""
import sys, types
sys.path[:] = {sys.path!r}
package = types.ModuleType({__package__!r})
package.__path__ = [{os.path.dirname(os.path.abspath(__file__))!r}]
sys.modules[{__package__!r}] = package
"""


class _Main:
    """The interpreter of the cell itself."""

    name = "the main interpreter"

    def __init__(self, cell):
        self.number = 0

    def call(self, function, *arguments):
        return function(*arguments)

    def end(self):
        raise AssertionError


class _Other:
    """An interpreter of its own."""

    def __init__(self, cell):
        from homefree.interpreters import Executor, engine

        try:
            if engine() != "own GIL":
                raise _cells.Skip("this Python has one interpreter for all threads")
        except RuntimeError as error:
            raise _cells.Skip(str(error)) from None
        cell.tell(step="interpreter")
        self.executor = Executor(1, name_crashes=True)
        self.executor.submit(exec, entering(), {}).result()
        self.number = self.call(_enter, cell.root, cell.request["path"])
        self.name = f"interpreter {self.number}"

    def call(self, function, *arguments):
        return self.executor.submit(function, *arguments).result()

    def end(self):
        self.executor.shutdown()


def _differ(one, other):
    return one is not None and other is not None and one != other


def _check(contents, found):
    if _differ(contents, found):
        raise _damage.Damaged("the contents are not those that it was made with")


def _cross(maker, taker):
    """Lets what the maker keeps cross to the taker, who keeps it too."""
    try:
        thing = maker.call(_give)
        taker.call(_keep, thing)
    except _cells.Skip:
        raise
    except Exception as error:
        raise _cells.Skip(f"it does not cross: {_cells.describe(error)}") from None


def _at(place, function):
    """What worked where it was made works here, too."""
    try:
        return place.call(function)
    except (_cells.Skip, _damage.Damaged):
        raise
    except Exception as error:
        raise _damage.Damaged(f"in {place.name} it raised {_cells.describe(error)}") from None


def _run(cell, maker, taker, *order):
    """`order`: who does what once it has crossed: pairs of an interpreter and "use", "drop" or
    "end". Whoever ends still holds it."""
    if cell.kind == "pointer":
        raise _cells.Skip("a raw pointer says nothing of its owner")
    if cell.kind in ("call", "callback"):
        raise _cells.Skip("what crosses does so during the call")
    places = {"maker": maker(cell), "taker": taker(cell)}
    cell.tell(step="made")
    contents, owner = places["maker"].call(_make, cell.recipe)
    cell.tell(allocated=f"{owner} in {places['maker'].name}")
    cell.tell(step="crossed")
    _cross(places["maker"], places["taker"])
    for who, what in order:
        place = places[who]
        if what == "use":
            cell.tell(step="used")
            _check(contents, _at(place, _look))
            continue
        cell.tell(step="freed" if what == "drop" else "interpreter-end")
        cell.tell(freed=f"{place.name}, as it ended" if what == "end" else place.name)
        if what == "drop":
            _at(place, _drop)
        else:
            place.end()
        _damage.scribble(len(contents) if isinstance(contents, bytes) else None)
    if all(what != "end" for _, what in order):
        cell.look_for_leaks(lambda count: _repeat(cell, places, order, count))
    for place in places.values():
        if isinstance(place, _Other):
            cell.tell(step="interpreter-end")
            place.end()
    gc.collect()
    _damage.scribble()


def _repeat(cell, places, order, count):
    """Makes it, lets it cross and frees it some times, without checks."""
    for _ in range(count):
        places["maker"].call(_build, cell.recipe)
        _cross(places["maker"], places["taker"])
        for who, what in order:
            if what == "drop":
                places[who].call(_let_go)


def _order(text):
    return [tuple(one.split()) for one in text.split(", ")]


def _condition(maker, taker, text):
    order = _order(text)
    return lambda cell: _run(cell, maker, taker, *order)


# The name of each, with what a reader needs to know. A name has two parts for the table's head.
CONDITIONS = {
    "main to sub": (
        _condition(_Main, _Other, "maker drop, taker use, taker drop"),
        "made in the main interpreter, freed in another one",
    ),
    "sub to main": (
        _condition(_Other, _Main, "maker drop, taker use, taker drop"),
        "made in another interpreter, freed in the main one",
    ),
    "sub to sub": (
        _condition(_Other, _Other, "maker drop, taker use, taker drop"),
        "made in one interpreter, freed in another one, neither of them the main one",
    ),
    "maker back": (
        _condition(_Other, _Other, "taker use, taker drop, maker use, maker drop"),
        "used in both, freed in the one that made it",
    ),
    "maker ended": (
        _condition(_Other, _Main, "maker end, taker use, taker drop"),
        "freed in the main interpreter after the one that made it has ended",
    ),
    "taker ended": (
        _condition(_Main, _Other, "taker end, maker use, maker drop"),
        "freed in the main interpreter after the one that was given it has ended",
    ),
    "maker first": (
        _condition(_Other, _Other, "maker end, taker use, taker end"),
        "held by two interpreters, of which the one that made it ends first",
    ),
    "taker first": (
        _condition(_Other, _Other, "taker end, maker use, maker end"),
        "held by two interpreters, of which the one that made it ends last",
    ),
}


# ---- in any interpreter ----

_held = None  # the thing, or what _deleters() found


class _Deleters:
    """What is left of a capsule: calls in C that free its memory."""

    def __init__(self, calls):
        self.calls = calls

    def __reduce__(self):
        return _Deleters, (self.calls,)


def _enter(root, path):
    """Prepares this interpreter: its number."""
    _finder.find_file(root, path)
    try:
        __import__(root)
    except BaseException as error:
        raise _cells.Skip(f"importing there raised {_cells.describe(error)}") from None
    from homefree import _homefree

    return _homefree.interpreter_current()


def _build(recipe):
    global _held
    kept = []
    try:
        _held = _recipes.build(recipe, kept)
    except Exception as error:
        raise _cells.Skip(f"making it raised {_cells.describe(error)}") from None


def _make(recipe):
    """Makes it: its contents, and whose memory that is."""
    _build(recipe)
    contents = _kinds.read(_held)
    if _differ(contents, _kinds.read(_held)):
        contents = None  # somebody else writes to it
    return contents, _kinds.owner(_held)


def _give():
    """What crosses. A capsule's deleters are nobody's until somebody drops them."""
    global _held
    parts = _held if isinstance(_held, (tuple, list)) and _held else [_held]
    if all(map(_kinds.is_capsule, parts)):
        calls = _kinds.deleters(_held)
        if not calls:
            raise _cells.Skip(
                "a capsule crosses as its deleter, and this one has none that is called without "
                "Python"
            )
        given, _held = _Deleters(calls), None
        return given
    return _held


def _keep(thing):
    global _held
    _held = thing
    if isinstance(thing, _Deleters):
        atexit.register(_let_go)  # as the end of an interpreter drops an object


def _look():
    return None if isinstance(_held, _Deleters) else _kinds.read(_held)


def _let_go():
    global _held
    thing, _held = _held, None
    atexit.unregister(_let_go)
    if isinstance(thing, _Deleters):
        for function, argument in thing.calls:
            _kinds.call(function, argument)


def _drop():
    _let_go()
    gc.collect()
    _damage.scribble()
