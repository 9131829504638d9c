"""One sample of one Python benchmark, in a process of its own; python_bench.py starts it.

Usage: worker.py HOW WORK SETTLE REPEATS LOOPS

HOW is "stock", "route" (libhomefree is loaded and no more), or install()'s "arena" or "full".
Prints the least processor time of one loop in seconds: other work on the machine makes a repeat
slower and never faster. Before that, SETTLE loops are run that do not count: the specialising
interpreter and the allocators settle in them. With REPEATS 0 nothing is timed (--callgrind counts
the whole process).
"""

import json
import pickle
import random
import sys
import time


class Node:
    __slots__ = ("left", "right", "value")

    def __init__(self, left, right, value):
        self.left = left
        self.right = right
        self.value = value


class Point:
    def __init__(self, x, y):
        self.x = x
        self.y = y


def object_tree():
    """Objects of a class; 8,191 are alive at the end of each loop."""

    def grow(depth):
        if depth == 0:
            return Node(None, None, 1)
        return Node(grow(depth - 1), grow(depth - 1), depth)

    def total(node):
        return 0 if node is None else node.value + total(node.left) + total(node.right)

    def loop():
        assert total(grow(12)) == 12274

    return loop


def tuple_tree():
    """Nested tuples: allocation and release only."""

    def grow(depth):
        return (depth, depth) if depth == 0 else (grow(depth - 1), grow(depth - 1))

    return lambda: grow(13)


def dict_churn():
    """Dicts, strings and lists that are freed in another order than they were made."""
    order = list(range(4000))
    random.Random(1).shuffle(order)

    def loop():
        table = {}
        for i in order:
            table[f"key {i}"] = [str(i), i * 1.5]
        for i in order[::2]:
            del table[f"key {i}"]
        for i in order:
            table[f"other {i}"] = {"number": i, "text": "x" * (i & 255)}
        return "".join(sorted(table))

    return loop


def document():
    return [
        {
            "id": i,
            "name": f"name of {i}",
            "values": [i * 0.5, -i, None, True],
            "nested": {"a": [1, 2, {"b": "c" * (i % 40)}], "text": "tëxt"},
        }
        for i in range(400)
    ]


def json_text():
    given = document()

    def loop():
        assert len(json.loads(json.dumps(given))) == len(given)

    return loop


def pickles():
    given = document(), [Point(i, str(i)) for i in range(1000)]

    def loop():
        assert len(pickle.loads(pickle.dumps(given, pickle.HIGHEST_PROTOCOL))) == 2

    return loop


def numpy_arrays():
    """Arrays of a few bytes to a few kilobytes, such as the temporaries of array code."""
    import numpy as np

    base = {size: np.arange(size, dtype=np.float64) for size in (3, 30, 300, 1000)}

    def loop():
        for values in base.values():
            for _ in range(250):
                mixed = values * 2.0 + values
                mixed[1:] -= values[:-1]
                np.concatenate((mixed, values)).astype(np.float32).copy()

    return loop


def attributes():
    """Hardly any memory: the cost of homefree's mere presence."""
    points = [Point(i, -i) for i in range(500)]

    def loop():
        for _ in range(20):
            for point in points:
                point.x, point.y = point.y, point.x + point.x

    return loop


WORKS = {
    work.__name__: work
    for work in (object_tree, tuple_tree, dict_churn, json_text, pickles, numpy_arrays, attributes)
}


def start(how):
    if how == "route":
        import homefree  # noqa: F401
    elif how != "stock":
        import homefree

        assert homefree.install(python=how).python == how


def main():
    how, name = sys.argv[1:3]
    settle, repeats, loops = map(int, sys.argv[3:])
    start(how)
    loop = WORKS[name]()
    for _ in range(settle):
        loop()
    if repeats == 0:
        for _ in range(loops):
            loop()
        return
    best = float("inf")
    for _ in range(repeats):
        begin = time.process_time()
        for _ in range(loops):
            loop()
        best = min(best, time.process_time() - begin)
    print(best / loops)


if __name__ == "__main__":
    main()
