"""One sample of one work that threads share, in a process of its own; scaling.py starts it.

usage: thread_works.py HOW WORK THREADS LOOPS

HOW is "stock" or "install". The loops are divided among the threads. Prints the seconds from the
moment when all threads are ready until the last has done its part, the processor time meanwhile,
and the most that was resident, in KiB.
"""

import queue
import resource
import sys
import threading
import time

import works


def lists(_):
    """Nested lists that grow, are sliced, joined and dropped."""

    def loop():
        kept = []
        for i in range(300):
            row = [(i, j) for j in range(60)]
            row.extend(row[::2])
            kept.append(row[:50] + [row])
        assert sum(map(len, kept)) == 300 * 51

    return loop


def strings(_):
    """Texts of some bytes to some kilobytes."""

    def loop():
        parts = [f"{i:05d} of {i % 13} " * (1 + i % 40) for i in range(1500)]
        text = "".join(parts).upper()
        assert len(text.split(" ")) > 10000
        return [part.encode().replace(b"0", b"00") for part in parts]

    return loop


CHANNELS = [queue.SimpleQueue() for _ in range(64)]
count = 1  # of threads


def capsules(number):
    """Capsules and ctypes buffers that one thread makes and the next one frees."""
    import ctypes

    import blocks

    def loop():
        made = blocks.capsules(2000, 200), [ctypes.create_string_buffer(900) for _ in range(200)]
        CHANNELS[(number + 1) % count].put(made)
        del made
        assert len(CHANNELS[number].get()) == 2

    return loop


def extension(number):
    """Blocks of malloc of an extension, which lets others run meanwhile."""
    import blocks

    return lambda: blocks.churn(100000, number + 1)


def of_one(work):
    """A work of one thread, which each thread does for itself."""
    return lambda _: work()


# name: (title, loops of one sample, function of a thread's number)
WORKS = {
    "dicts": ("dicts", 64, of_one(works.dict_churn)),
    "lists": ("lists", 240, lists),
    "strings": ("strings", 160, strings),
    "classes": ("objects of classes", 80, of_one(works.object_tree)),
    "json": ("json", 160, of_one(works.json_text)),
    "regular_expressions": ("re", 320, of_one(works.regular_expressions)),
    "numpy_arrays": ("NumPy, small arrays", 160, of_one(works.numpy_arrays)),
    "numpy_large": ("NumPy, large arrays", 48, of_one(works.numpy_large)),
    "capsules": ("capsules, freed by others", 320, capsules),
    "extension": ("malloc of an extension", 160, extension),
}


def main():
    global count
    how, name = sys.argv[1:3]
    count, loops = map(int, sys.argv[3:])
    if how == "install":
        import homefree

        homefree.install()
    make = WORKS[name][2]
    began, wrong = [], []

    def begin():
        began.extend((time.perf_counter(), time.process_time()))

    ready = threading.Barrier(count, begin)

    def run(number):
        try:
            loop = make(number)
            loop()
            ready.wait()
            for _ in range(loops // count):
                loop()
        except BaseException as error:
            wrong.append(error)
            ready.abort()
            raise

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong
    took, used = time.perf_counter() - began[0], time.process_time() - began[1]
    print(took, used, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


if __name__ == "__main__":
    main()
