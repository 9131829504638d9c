"""How a process ends with memory that is still shared: each ending in a process of its own, started
by test_capsules.py, which knows what must have been destroyed by then (ENDINGS there).

Usage: endings.py NAME
"""

import atexit
import sys
import threading

import capsules

capsules.tell_at_end()


class Thing:
    pass


def in_globals():
    global kept
    kept = [capsules.capsule() for _ in range(3)]


def in_sys():
    sys.kept = capsules.capsule()
    sys.modules["kept"] = capsules.capsule()


def in_cycle_with_finalizer():
    class Kept:
        def __del__(self):
            self.late = capsules.capsule()

    kept = Kept()
    kept.capsule = capsules.capsule()
    kept.self = kept


def in_daemon_thread():
    held = threading.Event()

    def wait():
        kept = capsules.capsule()
        held.set()
        threading.Event().wait()
        del kept

    threading.Thread(target=wait, daemon=True).start()
    held.wait()


def daemon_threads_at_work():
    started = threading.Barrier(4)

    def work():
        started.wait()
        while True:
            some = [capsules.capsule() for _ in range(10)]
            capsules.thread_drop(some.pop())

    for _ in range(3):
        threading.Thread(target=work, daemon=True).start()
    started.wait()


def after_python():
    capsules.at_exit(capsules.capsule())
    capsules.at_exit(capsules.capsule())


def tensors():
    global kept
    memory = capsules.capsule()
    kept = [capsules.dlpack(memory), capsules.dlpack(memory, (1, 0)), memory]


def tensors_after_python():
    capsules.at_exit(capsules.consume(capsules.dlpack(capsules.capsule()))[-1])


def buffers():
    global kept
    kept = memoryview(capsules.buffer())
    sys.kept = memoryview(capsules.buffer())


def held_by_a_capsule():
    global kept
    kept = capsules.hold(Thing())


def held_plainly():
    global kept
    kept = capsules.hold_plainly(Thing())


def held_after_python():
    capsules.at_exit(capsules.hold(Thing()))


def held_while_ending():
    capsules.hold_while_ending([Thing() for _ in range(10000)])
    sum(range(1000000))  # lets the other thread ask for the GIL


def held_first_by_two():
    """Two threads hold an object at a time, as the first ones in this interpreter."""
    barrier, register = threading.Barrier(2), atexit.register

    def wait(*callback):
        barrier.wait(20)
        return register(*callback)

    atexit.register = wait
    held = []
    threads = [
        threading.Thread(target=lambda: held.append(capsules.hold(Thing()))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    atexit.register = register
    assert len(held) == 2
    held.clear()


def held_never():
    sys.stdout.flush()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
