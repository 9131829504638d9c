"""Threads in tests: started together, and waited for. The prelude of what runs in a process of its
own holds this text (../python/support.py)."""

import threading


def started(count, work):
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def joined(threads):
    for thread in threads:
        thread.join()
