# SPDX-License-Identifier: BSD-2-Clause
"""What an Executor is in a free-threaded CPython: threads, which are given objects as they are.

ThreadPoolExecutor differs from what an Executor promises: an initializer's error is only logged,
and futures that shutdown() cancels are never done for who waits for them.

State: of each pool, its tasks, and under its lock whether it takes any more. A task belongs to
whoever takes its claim: a thread that runs it, or who cancels it. Threads: any. Fork: the child's
pools are broken, and say so.
"""

import concurrent.futures
import logging
import queue
import threading
import weakref

from . import _inside
from ._replica import Replica, object_of

__all__ = ["BrokenInterpreters", "Pool", "break_all", "close_all", "settle"]

_LOGGER = logging.getLogger("concurrent.futures")


class BrokenInterpreters(concurrent.futures.BrokenExecutor):
    """An interpreter of an executor could not be set up, or is lost."""


class _Future(concurrent.futures.Future):
    def __init__(self):
        super().__init__()
        self._claim = [True]

    def claim(self):
        """Whether the caller is the first to ask, and so decides what becomes of the task."""
        try:
            return self._claim.pop()
        except IndexError:
            return False

    def cancel(self):
        if not self.claim():
            return self.cancelled()
        super().cancel()
        self.set_running_or_notify_cancel()
        return True


def settle(give, outcome):
    """Completes a future. Whatever its callbacks raise concerns nobody else's future."""
    try:
        give(outcome)
    except BaseException:
        _LOGGER.critical("homefree.interpreters: exception in a callback", exc_info=True)


def _text(error):
    try:
        return f"{type(error).__qualname__}: {error}"
    except Exception:
        return type(error).__qualname__


class Pool:
    """The threads of one executor."""

    def __init__(self, count, initializer, initargs):
        self.broken = None
        self._begin = initializer, initargs
        self._tasks = queue.SimpleQueue()  # (future, function, arguments, keywords), and None
        self._lock = threading.Lock()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, name=f"homefree.interpreters_{index}")
            for index in range(count)
        ]
        started = 0
        try:
            for thread in self._threads:
                thread.start()
                started += 1
        except BaseException:
            del self._threads[started:]
            self.close()
            self.join()
            raise
        _pools.add(self)

    def submit(self, function, arguments, keywords):
        if self.broken is None:
            future = _Future()
            with self._lock:
                if not self._closed:
                    self._tasks.put((future, function, arguments, keywords))
                    return future
        if self.broken is not None:
            raise BrokenInterpreters(self.broken)
        raise RuntimeError("cannot schedule new futures after shutdown")

    def close(self):
        """Takes no more tasks; the threads end after those that are there."""
        with self._lock:
            self._closed = True
            self._tasks.put(None)

    def join(self):
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def cancel_all(self):
        for future in self._left():
            future.cancel()

    def _left(self):
        """The futures of the tasks that nobody has taken. The pool is closed."""
        futures = []
        try:
            while True:
                task = self._tasks.get_nowait()
                if task is not None:
                    futures.append(task[0])
        except queue.Empty:
            self._tasks.put(None)
        return futures

    def _break(self, why):
        self.broken = why
        self.close()
        for future in self._left():
            if future.claim():
                settle(future.set_exception, BrokenInterpreters(why))

    def _work(self):
        initializer, arguments = self._begin
        replicas = _inside.begin_thread()
        try:
            if initializer is not None:
                initializer(*arguments)
        except BaseException as error:
            self._break(f"an interpreter is lost: {_text(error)}")
            return
        while (task := self._tasks.get()) is not None:
            _run(*task)
            task = None
            if replicas:
                _inside.sweep()
        self._tasks.put(None)  # for the next thread

    def lose(self, why):
        """In a forked child, which has neither the threads nor, perhaps, the lock."""
        self.broken = why
        self._lock, self._tasks, self._threads = threading.Lock(), queue.SimpleQueue(), []


def _run(future, function, arguments, keywords):
    if not future.claim():
        return
    future.set_running_or_notify_cancel()
    try:
        result = _here(function)(
            *[_here(value) for value in arguments],
            **{name: _here(value) for name, value in keywords.items()},
        )
    except BaseException as error:
        settle(future.set_exception, error)
        future = None  # the error's traceback knows this frame
    else:
        settle(future.set_result, result)


def _here(value):
    """What a value is in this thread. A replica inside of another object stays one."""
    return object_of(value) if isinstance(value, Replica) else value


_pools = weakref.WeakSet()


def close_all():
    pools = list(_pools)
    for pool in pools:
        pool.close()
    for pool in pools:
        pool.join()


def break_all(why):
    """In a forked child."""
    for pool in list(_pools):
        pool.lose(why)
