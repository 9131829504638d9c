"""The works of the Python benchmark: functions that make a loop ready and return it. worker.py
times the loops, python_bench.py compares the times. Modules that only one work needs are imported
there, so that a process has no more than its work needs.
"""

import contextlib
import dataclasses
import json
import pickle
import random


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


# ---- the ten that allocate in other ways ---------------------------------------------------------


def coroutines():
    """asyncio: tasks, futures and a queue, on one event loop."""
    import asyncio

    async def produce(queue):
        for i in range(100):
            await queue.put({"number": i})
        await queue.put(None)

    async def consume(queue):
        total = 0
        while (item := await queue.get()) is not None:
            total += item["number"]
        return total

    async def work():
        queues = [asyncio.Queue(10) for _ in range(8)]
        for queue in queues:
            asyncio.get_running_loop().create_task(produce(queue))
        return await asyncio.gather(*(consume(queue) for queue in queues))

    events = asyncio.new_event_loop()

    def loop():
        assert events.run_until_complete(work()) == [4950] * 8

    return loop


@dataclasses.dataclass
class Item:
    name: str
    price: float
    tags: list = dataclasses.field(default_factory=list)


def data_classes():
    """Dataclasses that are made, replaced, compared and turned into dicts."""

    def loop():
        items = [Item(f"item {i}", i * 0.5, ["a", str(i)]) for i in range(600)]
        dearer = [dataclasses.replace(item, price=item.price + 1) for item in items]
        assert items != dearer
        return [dataclasses.asdict(item) for item in dearer]

    return loop


def regular_expressions():
    """Matches, groups and replaced texts."""
    import re

    text = " ".join(f"user{i}@example{i % 9}.org, 2026-11-{i % 28 + 1:02d};" for i in range(400))
    address = re.compile(r"(?P<user>\w+)@(?P<host>[\w.]+)")
    date = re.compile(r"(\d{4})-(\d\d)-(\d\d)")

    def loop():
        found = [match.groupdict() for match in address.finditer(text)]
        assert len(found) == 400
        return date.sub(r"\3.\2.\1", text).split(";")

    return loop


def decimals():
    """Numbers of 50 digits, by decimal, whose memory libmpdec gets for itself."""
    import decimal

    context = decimal.Context(prec=50)

    def loop():
        total = decimal.Decimal(0)
        for i in range(1, 1500):
            number = context.divide(decimal.Decimal(i), decimal.Decimal(7))
            total = context.add(total, context.multiply(number, number))
        return str(total)

    return loop


def csv_text():
    """Rows that are written as CSV and read again."""
    import csv
    import io

    rows = [[i, f"name {i}", i * 0.25, 'a "quoted", text', None] for i in range(1200)]

    def loop():
        text = io.StringIO()
        csv.writer(text).writerows(rows)
        text.seek(0)
        assert len(list(csv.DictReader(text, "abcde"))) == len(rows)

    return loop


def database():
    """SQLite in memory: SQLite allocates with libc's malloc."""
    import sqlite3

    rows = [(i, f"name {i}", "text" * (i % 30)) for i in range(1500)]

    def loop():
        with contextlib.closing(sqlite3.connect(":memory:")) as database:
            database.execute("create table item (id integer primary key, name text, body text)")
            database.executemany("insert into item values (?, ?, ?)", rows)
            database.execute("create index by_name on item (name)")
            query = "select name, body from item where name >= ? order by name"
            assert len(database.execute(query, ("name 1",)).fetchall()) > 1000

    return loop


def processes():
    """Starting processes: pages that the kernel copies, pipes and their buffers."""
    import subprocess

    def loop():
        for _ in range(4):
            assert subprocess.run(["/bin/echo", "text"], capture_output=True).stdout == b"text\n"

    return loop


def deep_copies():
    """copy.deepcopy of nested containers and objects."""
    import copy

    given = [{"point": Point(i, [i, i + 1]), "more": {"a": (i, [str(i)])}} for i in range(150)]
    return lambda: copy.deepcopy(given)


def numpy_large():
    """Arrays of 0.5 to 8 MiB: each has pages of its own."""
    import numpy as np

    base = [np.arange(1 << power, dtype=np.float64) for power in (16, 18, 20)]

    def loop():
        for values in base:
            mixed = values * 2.0
            (mixed + values)[::2].copy().sum()

    return loop


def in_threads():
    """Objects that one thread makes and another drops."""
    import queue
    import threading

    def make(out):
        for i in range(150):
            out.put([{"number": i, "text": f"text {i}"} for i in range(10)])
        out.put(None)

    def drop(given):
        while given.get() is not None:
            pass

    def loop():
        channels = [queue.SimpleQueue() for _ in range(2)]
        threads = [
            threading.Thread(target=work, args=(channel,))
            for channel in channels
            for work in (make, drop)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return loop


def bytearrays():
    """Buffers that are too large for pymalloc; 200 are alive."""
    chance = random.Random(1)
    sizes = [chance.randrange(600, 1501) for _ in range(3000)]

    def loop():
        live = [None] * 200
        for i, size in enumerate(sizes):
            live[i % 200] = bytearray(size)

    return loop


# name: (title, loops of one repeat, which takes 10 to 30 ms, function). A function makes ready what
# a loop needs, and returns the loop.
SEVEN = {
    "object_tree": ("object trees", 2, object_tree),
    "tuple_tree": ("tuple trees", 6, tuple_tree),
    "dict_churn": ("dict and str churn", 3, dict_churn),
    "json_text": ("json", 8, json_text),
    "pickles": ("pickle", 8, pickles),
    "numpy_arrays": ("NumPy, small arrays", 5, numpy_arrays),
    "attributes": ("attribute access", 30, attributes),
}
TEN = {
    "coroutines": ("asyncio", 16, coroutines),
    "data_classes": ("dataclasses", 8, data_classes),
    "regular_expressions": ("re", 25, regular_expressions),
    "decimals": ("decimal", 10, decimals),
    "csv_text": ("csv", 6, csv_text),
    "database": ("SQLite", 7, database),
    "processes": ("starting processes", 4, processes),
    "deep_copies": ("deep copies", 10, deep_copies),
    "numpy_large": ("NumPy, large arrays", 2, numpy_large),
    "in_threads": ("threads", 20, in_threads),
}
# For diagnostics mode alone.
LARGER = {"bytearrays": ("bytearrays of 600 to 1 500 bytes", 25, bytearrays)}
WORKS = {**SEVEN, **TEN, **LARGER}
