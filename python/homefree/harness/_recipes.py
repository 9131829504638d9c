# SPDX-License-Identifier: BSD-2-Clause
"""Recipes: how to make an object, as JSON, as text for readers, and as the object itself.

A recipe is a dict of one of these forms:

    {"value": "(1, 'a')"}                       a literal
    {"pickled": "...", "shown": "array(...)"}   an object that was pickled, in base64
    {"make": "callback"}                        a thing from _MAKERS, new each time
    {"name": "module:function"}                 what a module has under a name
    {"call": R, "args": [R], "kwargs": {}}      the result of a call
    {"of": R, "attribute": "name"}              an attribute
    {"of": R, "item": 0}                        an element of a tuple or list
    {"view": R}                                 a memoryview
"""

import ast
import importlib

# The longest text of a literal; longer ones are shown shortened.
_SHOWN = 40


def _callback(*arguments, **_):
    return arguments[0] if arguments else None


def _new_callback():
    return lambda *arguments, **more: _callback(*arguments, **more)


def _new_array():
    import array

    return array.array("d", [1.0, 2.0, 3.0, 4.0])


def _new_numpy(kind="d"):
    import numpy

    return numpy.arange(24, dtype=kind).reshape(4, 6)


def _new_file():
    import io

    return io.BytesIO(b"some bytes of a file\n" * 10)


# Objects that a call can get, and the text that stands for each.
_MAKERS = {
    "callback": (_new_callback, "<callback>"),
    "bytearray": (lambda: bytearray(b"some bytes " * 100), "<bytearray>"),
    "array": (_new_array, "<array>"),
    "memoryview": (lambda: memoryview(bytearray(64)), "<memoryview>"),
    "numpy": (_new_numpy, "<numpy array>"),
    "numpy-ints": (lambda: _new_numpy("i4"), "<numpy array of ints>"),
    "file": (_new_file, "<file>"),
    "object": (object, "<object>"),
}


def value(literal):
    return {"value": repr(literal)}


def make(what):
    return {"make": what}


def name(module, qualified):
    return {"name": f"{module}:{qualified}"}


def call(function, *args, **kwargs):
    recipe = {"call": function, "args": list(args)}
    if kwargs:
        recipe["kwargs"] = kwargs
    return recipe


def receiver_is_made(recipe):
    """Whether a recipe calls a method of an object that another call makes."""
    return any("call" in one for one in parts(recipe.get("call", {}).get("of", {})))


def method(recipe, attribute, *args):
    return call({"of": recipe, "attribute": attribute}, *args)


def item(recipe, number):
    return {"of": recipe, "item": number}


def view(recipe):
    return {"view": recipe}


def _short(text):
    return text if len(text) <= _SHOWN else text[: _SHOWN - 4] + "..." + text[-1]


def text(recipe):
    """A recipe as a reader would write it."""
    if "value" in recipe:
        return _short(recipe["value"])
    if "pickled" in recipe:
        return _short(recipe["shown"])
    if "make" in recipe:
        return _MAKERS[recipe["make"]][1]
    if "name" in recipe:
        module, _, qualified = recipe["name"].partition(":")
        return f"{module}.{qualified}"
    if "item" in recipe:
        return f"{text(recipe['of'])}[{recipe['item']}]"
    if "of" in recipe:
        return f"{text(recipe['of'])}.{recipe['attribute']}"
    if "view" in recipe:
        return f"memoryview({text(recipe['view'])})"
    arguments = [text(one) for one in recipe["args"]]
    arguments += [f"{key}={text(one)}" for key, one in recipe.get("kwargs", {}).items()]
    return f"{text(recipe['call'])}({', '.join(arguments)})"


def parts(recipe):
    """A recipe and all recipes inside it."""
    yield recipe
    for key in ("call", "of", "view"):
        if key in recipe:
            yield from parts(recipe[key])
    for one in recipe.get("args", ()):
        yield from parts(one)
    for one in recipe.get("kwargs", {}).values():
        yield from parts(one)


def takes_callback(recipe):
    return any(part.get("make") == "callback" for part in parts(recipe))


def takes_number(recipe):
    return any("value" in part and _is_number(part["value"]) for part in parts(recipe))


def _is_number(literal):
    return isinstance(ast.literal_eval(literal), int)


def takes_numpy(recipe):
    return any(part.get("make", "").startswith("numpy") for part in parts(recipe))


def shape(recipe):
    """What makes two recipes alike: the callables, and the shapes of the arguments."""
    if "value" in recipe:
        literal = ast.literal_eval(recipe["value"])
        inside = sorted({type(one).__name__ for one in literal}) if _sequence(literal) else []
        return (type(literal).__name__, *inside)
    if "pickled" in recipe:
        return ("pickled", recipe.get("type", ""))
    if "make" in recipe or "name" in recipe:
        return recipe.get("make") or recipe["name"]
    if "of" in recipe:
        return ("of", recipe.get("attribute"), recipe.get("item"), shape(recipe["of"]))
    if "view" in recipe:
        return ("view", shape(recipe["view"]))
    return (
        "call",
        shape(recipe["call"]),
        tuple(shape(one) for one in recipe["args"]),
        tuple((key, shape(one)) for key, one in sorted(recipe.get("kwargs", {}).items())),
    )


def _sequence(literal):
    return isinstance(literal, (list, tuple, set))


def find(path):
    """What "module:qualified.name" stands for."""
    module, _, qualified = path.partition(":")
    found = importlib.import_module(module)
    for part in qualified.split("."):
        found = getattr(found, part)
    return found


def build(recipe, kept):
    """The object of a recipe. Objects made on the way, such as arguments, are appended to `kept`,
    so that the caller decides when they go."""
    if "value" in recipe:
        return ast.literal_eval(recipe["value"])
    if "pickled" in recipe:
        import base64
        import pickle

        return pickle.loads(base64.b64decode(recipe["pickled"]))
    if "make" in recipe:
        return _MAKERS[recipe["make"]][0]()
    if "name" in recipe:
        return find(recipe["name"])
    if "of" in recipe:
        owner = build(recipe["of"], kept)
        kept.append(owner)
        return owner[recipe["item"]] if "item" in recipe else getattr(owner, recipe["attribute"])
    if "view" in recipe:
        owner = build(recipe["view"], kept)
        kept.append(owner)
        return memoryview(owner)
    function = build(recipe["call"], kept)
    arguments = [build(one, kept) for one in recipe["args"]]
    more = {key: build(one, kept) for key, one in recipe.get("kwargs", {}).items()}
    kept.extend(arguments)
    kept.extend(more.values())
    return function(*arguments, **more)
