"""Runs inside an interpreter that test_real.py found: imports real libraries and homefree in the
order that it is told, and lets them work with each other's memory.

Usage: guest.py HOW LIBHOMEFREE NAME…

NAME is a library (numpy, torch, pyarrow, polars, duckdb) or "homefree", whose place among the
others is part of the test. HOW is what "homefree" means: "route" loads libhomefree and no more;
"arena", "full" and "off" import the package and call install() so; "none" leaves it out, which
shows what the libraries do by themselves. Prints "fine" and ends normally: the end of the
interpreter, with the libraries' blocks still alive, belongs to the test.
"""

import ctypes
import gc
import importlib
import sys
import threading
import warnings

import crossings
import work

LIBRARIES = ("numpy", "torch", "pyarrow", "polars", "duckdb")

# torch 2.14 warns about this on Python 3.14 at each import; the test allows no output on stderr.
warnings.filterwarnings("ignore", "`torch.jit.script` is not supported", FutureWarning)


def in_threads(jobs, count=4):
    """Each thread begins with another job, so that the libraries run at the same time."""
    failures = []

    def run(first):
        try:
            for job in jobs[first:] + jobs[:first]:
                job()
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=run, args=(i % len(jobs),)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def start_homefree(how, library):
    """Returns the C library, or None."""
    if how == "none":
        return None
    if how != "route":
        homefree = importlib.import_module("homefree")
        homefree.install(python=how)
    return crossings.Heap(ctypes.CDLL(library))


def main():
    how, library, names = sys.argv[1], sys.argv[2], sys.argv[3:]
    modules, heap = {}, None
    for name in names:
        if name == "homefree":
            heap = start_homefree(how, library)
            continue
        modules[name] = importlib.import_module(name)
        # Objects that were made before homefree came and are freed afterwards.
        work.JOBS[name](modules[name])
        crossings.keep(work.SAMPLES[name](modules[name]))

    jobs = [lambda name=name: work.JOBS[name](modules[name]) for name in modules]
    for pair, job in crossings.JOBS.items():
        if all(name in modules for name in pair.split("-")):
            jobs.append(lambda job=job: job(modules))
    if heap:
        if how != "route":
            jobs.append(lambda: crossings.installed(heap, how, modules))
        jobs.append(lambda: crossings.blocks(heap))
        jobs += [lambda job=job: job(heap, modules) for job in crossings.heap_jobs(how, modules)]
    for job in jobs:
        job()
    in_threads(jobs)
    gc.collect()
    for name in modules:
        crossings.keep(work.SAMPLES[name](modules[name]))
    if heap:
        crossings.keep(crossings.Late(heap))
    print("fine")


if __name__ == "__main__":
    main()
