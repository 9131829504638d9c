"""Programs that grow in a free-threaded CPython, each in a process of its own; growth.py starts
them, and tests/python/test_growth.py does with little memory.

usage: growing.py NAME HOW MIB SETTLE

HOW is "stock", or how homefree is installed: "install" or "background" (a thread of homefree's
looks, too). MIB is how much the program works with. Prints what was resident at most, what is once
SETTLE seconds have passed in which nothing happens, and how much of it the program holds, in MiB.
"""

import ctypes
import gc
import json
import queue
import random
import sys
import threading
import time

MIB = 1 << 20
THREADS = 4


def status(name):
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name + ":")) // 1024


def together(work, count=THREADS):
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def texts(size, length):
    """Objects of more than 512 bytes, as many as make up a size."""
    return [b"%d " % number * (length // 8) for number in range(size // length)]


def held(objects):
    return sum(map(sys.getsizeof, objects))


def stranded(size):
    """libc keeps what a library has freed, because a live block lies at its end; then others take
    as much (CPython's issue 156159)."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.restype, libc.free.argtypes = None, [ctypes.c_void_p]
    buffer = 64 << 10
    buffers = [libc.malloc(buffer) for _ in range(size // buffer)]
    for each in buffers:
        ctypes.memset(each, 1, buffer)
    top = libc.malloc(buffer)
    ctypes.memset(top, 1, buffer)
    for each in buffers:
        libc.free(each)
    del buffers
    kept = texts(size, 1000)
    return kept, held(kept) + buffer


def ending(size):
    """Threads that end leave objects to others, which drop most of them."""
    kept, left = [], queue.SimpleQueue()
    for _ in range(20):
        together(lambda number: left.put(texts(size // 20 // THREADS, 700)))
        while not left.empty():
            kept.append(left.get()[::20])
    return kept, sum(map(held, kept))


def handed(size):
    """Some threads make lists, others drop them: nothing lives in the end."""
    channel = queue.Queue(8)

    def make(number):
        for _ in range(20):
            numbers = range(size // 20 // THREADS * 2 // 100)
            channel.put([[number, str(each), (each,)] for each in numbers])
        channel.put(None)

    def drop(_):
        while channel.get() is not None:
            pass

    together(lambda number: (make, drop)[number % 2](number))
    return [], 0


def dicts(size):
    """Large dictionaries grow on many threads, and are made anew."""
    kept = [None] * THREADS

    def grow(number):
        for _ in range(3):
            table = {}
            for key in range(size // THREADS // 120):
                table[key] = key * 1.5
            kept[number] = table

    together(grow)
    return kept, sum(held([table]) + held(table) + held(table.values()) for table in kept)


def orphans(size):
    """Workers that live on make objects, which the main thread drops (CPython's issue 145615)."""
    from concurrent.futures import ThreadPoolExecutor

    def make(_):
        return [bytearray(64) for _ in range(size // 20 // 20 // 150)]

    with ThreadPoolExecutor(THREADS) as pool:
        for _ in range(20):
            made = list(pool.map(make, range(20)))
            del made
            gc.collect()
        return [], 0


def cycles(size):
    """The collector's work: circles of objects, most of which are dropped at once (CPython's
    issue 148937)."""
    chance = random.Random(1)
    ring = [None] * (size // 4 // 5000)

    class Node:
        def __init__(self):
            self.other = [self, *range(200)]
            self.text = "x" * 2000

    def work(number):
        for _ in range(size // 5000):
            node = Node()
            node.next = Node()
            node.next.next = node
            ring[chance.randrange(len(ring))] = node

    together(work)
    gc.collect()
    return ring, len([each for each in ring if each]) * 2 * (2049 + 201 * 8 + 400)


PROGRAMS = {work.__name__: work for work in (stranded, ending, handed, dicts, orphans, cycles)}


def main():
    name, how, mib, settle = sys.argv[1:]
    if how != "stock":
        import homefree

        homefree.install(background=how == "background")
    began = status("VmRSS")
    kept, live = PROGRAMS[name](int(mib) * MIB)
    gc.collect()
    time.sleep(float(settle))
    figures = {"began": began, "peak": status("VmHWM"), "settled": status("VmRSS")}
    assert kept is not None
    print(json.dumps({**figures, "live": live // MIB}))


if __name__ == "__main__":
    main()
