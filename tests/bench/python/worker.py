"""One sample of one Python benchmark, in a process of its own; python_bench.py starts it.

Usage: worker.py HOW WORK SETTLE REPEATS LOOPS

HOW is "stock", "route" (libhomefree is loaded and no more), or install()'s "arena" or "full"; with
"+profile" behind it, a profile at the usual rate goes on.
Another allocator, which the environment chooses, is "stock" here. Prints the least processor time
of one loop in seconds, with that of the processes that it started and waited for: other work on
the machine makes a repeat slower and never faster. Before that, SETTLE loops are run that do not
count: the specialising interpreter and the allocators settle in them. With REPEATS 0 nothing is
timed (--callgrind counts the whole process).
"""

import resource
import sys
import time

from works import WORKS


def processor_time():
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def start(how):
    how, _, profiled = how.partition("+")
    if how == "stock":
        return
    import homefree

    if how != "route":
        assert homefree.install(python=how).python == how
    if profiled:
        homefree.profile_begin()


def main():
    how, name = sys.argv[1:3]
    settle, repeats, loops = map(int, sys.argv[3:])
    start(how)
    loop = WORKS[name][2]()
    for _ in range(settle):
        loop()
    if repeats == 0:
        for _ in range(loops):
            loop()
        return
    best = float("inf")
    for _ in range(repeats):
        begin = processor_time()
        for _ in range(loops):
            loop()
        best = min(best, processor_time() - begin)
    print(best / loops)


if __name__ == "__main__":
    main()
