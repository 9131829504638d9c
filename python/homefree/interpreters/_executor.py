# SPDX-License-Identifier: BSD-2-Clause
"""Executor: a concurrent.futures.Executor over interpreters.

An executor has a queue (_queue.py) and a group of interpreters, each with a thread of its own that
works on the queue's tasks. One thread of this interpreter collects results and completes futures.
In a free-threaded CPython it has a pool of threads instead (_threads.py).

State: none but what an executor has. Threads: any. Fork: the child's executors are broken, and say
so.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import itertools
import os
import pickle
import sys
import weakref

from .. import _homefree
from .._install import install
from .._limit import bytes_of
from ._crossing import pack
from ._inside import see_own_frames
from ._queue import Future, Queue, add, is_closing
from ._threads import BrokenInterpreters, Pool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from .._types import T

__all__ = ["Executor", "engine"]

_OWN_GIL, _THREADS = 1, 2


def engine() -> str:
    """Which kind of interpreters this Python can have: "own GIL" or "threads".

    Raises RuntimeError with the reason and a remedy if it can have none. Threads: any. Fork:
    allowed. Since 1.0.
    """
    number, why = _homefree.interpreters_engine()
    if number < 0:
        raise RuntimeError(f"homefree.interpreters: {why}")
    return {_OWN_GIL: "own GIL", _THREADS: "threads"}[number]


# ---- what workers are set up with ----


def _main_module():
    """How an interpreter finds the program's main module: by name, by path, or not at all."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    path = getattr(main, "__file__", None)
    if spec is not None and spec.name == "__main__" and path is not None:
        path = os.path.dirname(path)  # the directory or archive that the program is
    elif spec is not None and spec.name:
        return "name", spec.name
    if path is None or not os.path.exists(path):
        return None
    return "path", os.path.abspath(path)


def _setup(initializer, initargs, memory_limit, turn):
    """What each worker begins with, and the list of buffers beside it."""
    made, buffers = (None, []) if initializer is None else pack((initializer, tuple(initargs)))
    whole = _main_module(), list(sys.path), made, memory_limit, turn
    return pickle.dumps(whole, 5), buffers


def _warm_pickle():
    """Lets this interpreter be the first to call what workers call. Before 3.12.4, the names of a C
    function's keywords are made by the first interpreter that calls it, and freed by the main one
    (CPython issue 119213)."""
    pickle.loads(pickle.dumps(None, 5, buffer_callback=[].append), buffers=())
    pack(None)


def _name_of(function, arguments):
    """What a crash calls a task: "module:function"."""
    while isinstance(function, functools.partial):
        arguments = function.args + arguments
        function = function.func
    if function is _run_chunk:
        function = arguments[0]
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    text = f"{module}:{name}"
    return text if text.isprintable() else ascii(text)


def _run_chunk(function, chunk):
    return [function(*arguments) for arguments in chunk]


def _chunks(iterables, size):
    arguments = zip(*iterables)
    while chunk := tuple(itertools.islice(arguments, size)):
        yield chunk


def _idle(interpreters, max_workers):
    """The interpreters of others that an executor is to use."""
    found = list(interpreters)
    if max_workers is not None:
        raise TypeError("max_workers and interpreters exclude each other")
    for one in found:
        if not callable(getattr(one, "call", None)):
            raise TypeError(f"interpreters must be of concurrent.interpreters, not {one!r}")
        if one.is_running():
            raise ValueError(f"{one!r} is running something else")
    if len(set(found)) != len(found):
        raise ValueError("interpreters must be different ones")
    return found


def _check_tasks(most, interpreters):
    if most is None:
        return
    if isinstance(most, bool) or not isinstance(most, int):
        raise TypeError(f"max_tasks_per_child must be an int, not {type(most).__name__}")
    if most < 1:
        raise ValueError(f"max_tasks_per_child must be at least 1, not {most}")
    if interpreters is not None:
        raise TypeError("max_tasks_per_child and interpreters exclude each other")


def _check_memory(name, limit):
    size = bytes_of(limit)
    if size == 0:
        raise ValueError(f"{name} must be more than nothing")
    return size


def _check_limits(interpreters, **limits):
    for name in (name for name, limit in limits.items() if limit is not None):
        if interpreters is not None:
            raise TypeError(f"{name} and interpreters exclude each other")
        if engine() == "threads":
            raise RuntimeError(
                f"homefree.interpreters: there is no {name} in a free-threaded CPython, where an "
                "Executor has threads that share their memory; homefree.limit() limits a library"
            )


def _check_seconds(seconds):
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"task_time_limit must be seconds, not {type(seconds).__name__}")
    if not 0 < seconds < 1e9:
        raise ValueError(f"task_time_limit must be from 0 to 1e9 seconds, not {seconds}")
    return float(seconds)


def _not_started(error):
    return RuntimeError(f"homefree.interpreters: the threads could not be started: {error}")


class Executor(concurrent.futures.Executor):
    """Runs calls in interpreters without a common GIL, on a thread for each.

    Functions, arguments and results cross as pickles, except for the memory of buffers (NumPy
    arrays, memoryviews, tensors, Arrow data), which crosses by reference: nothing is copied, both
    sides see the same bytes, and the last one to drop them frees them. A function must be
    importable by its name, as for ProcessPoolExecutor.

    max_workers: how many interpreters; the CPUs that this process may use if None. initializer,
    initargs: called in each interpreter before its first task; if that raises, the executor is
    broken. The arguments cross as those of tasks do, buffers by reference. interpreters: those of
    concurrent.interpreters that are to do the work, instead of new ones; each must be idle, is
    prepare()d, finds its own modules first, and stays when the executor ends; a task that needs the
    program's main module makes that its __main__.

    name_crashes: if the process crashes, its last line on stderr says in which interpreter, in
    which task and in which shared object; homefree's handler of SIGSEGV, SIGBUS, SIGFPE, SIGILL and
    SIGABRT does that, after the one that was there before, until the executor has ended. Not with
    `interpreters`, nor in a free-threaded CPython.

    max_tasks_per_child: after so many tasks, a new interpreter takes the place of one, as with
    ProcessPoolExecutor: what tasks leave behind in modules' globals, caches and leaks ends with it.
    The new one is made, and calls the initializer, while the last tenth of these tasks is done, so
    that none waits for it: meanwhile the executor has an interpreter more, one at a time. None:
    never. Nor in a free-threaded CPython.

    memory_limit: bytes, or text such as "1G", that each interpreter may have, as limit() takes it.
    A task that asks for more gets a MemoryError, which its future has; the other interpreters and
    this one go on, and so does that interpreter, with what its tasks have kept. memory() says what
    counts; "unlimited" only counts. Interpreters take up to 64 limits, together with limit().

    max_memory_per_child: a size as well; an interpreter that has more when a task is done is
    replaced by a new one.

    task_time_limit: seconds. A task that runs for longer gets a TimeoutError; SystemExit is raised
    in what it runs, and a new interpreter takes the place. One that is stuck in C is left alone: it
    ends when that returns, which the end of the program waits for, ten seconds at most; then it
    goes without.

    These three are a RuntimeError in a free-threaded CPython; those of memory also where CPython's
    object allocator has hooks or is another one (PYTHONMALLOC, -X dev, tracemalloc).

    In a free-threaded CPython calls run on threads of this interpreter. Nothing is pickled:
    functions, arguments and results are the caller's own objects, and modules and their globals are
    shared, so what calls change needs locks, or an object for each thread: a Replica, or what the
    initializer keeps in threading.local().

    Calls homefree.install(), so that arrays can outlive the interpreter that made them. Raises
    RuntimeError, with the reason and a remedy, if this Python can have no interpreters, or if they
    cannot be started. Threads: any. Fork: the child cannot use it. Since 1.0.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        *,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        interpreters: Iterable[Any] | None = None,
        name_crashes: bool = False,
        max_tasks_per_child: int | None = None,
        memory_limit: int | str | None = None,
        max_memory_per_child: int | str | None = None,
        task_time_limit: float | None = None,
    ) -> None:
        if interpreters is not None:
            interpreters = _idle(interpreters, max_workers)
            max_workers = len(interpreters)
        if max_workers is None:
            max_workers = len(os.sched_getaffinity(0))
        if isinstance(max_workers, bool) or not isinstance(max_workers, int):
            raise TypeError(f"max_workers must be an int, not {type(max_workers).__name__}")
        if not 1 <= max_workers <= 1024:
            raise ValueError(f"max_workers must be from 1 to 1024, not {max_workers}")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be callable")
        _check_tasks(max_tasks_per_child, interpreters)
        most = keeps = seconds = 0
        if memory_limit is not None:
            most = _check_memory("memory_limit", memory_limit)
        if max_memory_per_child is not None:
            keeps = _check_memory("max_memory_per_child", max_memory_per_child)
        if task_time_limit is not None:
            seconds = _check_seconds(task_time_limit)
        _check_limits(
            interpreters,
            memory_limit=memory_limit,
            max_memory_per_child=max_memory_per_child,
            task_time_limit=task_time_limit,
        )
        self._queue = self._threads = None
        if engine() == "threads" and interpreters is None:
            install()
            try:
                self._threads = Pool(max_workers, initializer, tuple(initargs))
            except RuntimeError as error:
                raise _not_started(error) from None
            if is_closing():
                self._threads.close()
            weakref.finalize(self, self._threads.close).atexit = False
            return
        see_own_frames()
        install()
        _warm_pickle()
        turn = max_tasks_per_child or -1, keeps
        if turn == (-1, 0) and seconds == 0:
            turn = None
        queue = Queue(
            max_workers,
            _setup(initializer, initargs, most, turn),
            turn is not None,
            seconds,
            name_crashes=name_crashes,
            memory_limit=most or (bytes_of(None) if keeps != 0 else 0),
        )
        if interpreters is None:
            queue.make()
        # What this module and an interpreter's copy of it both call the main module.
        sys.modules.setdefault("__mp_main__", sys.modules["__main__"])
        self._numbers = itertools.count(1)
        try:
            if interpreters is None:
                queue.start()
            else:
                queue.start_in(interpreters)
        except (OSError, RuntimeError) as error:
            raise _not_started(error) from None
        self._queue = queue
        add(queue)
        weakref.finalize(self, queue.close).atexit = False

    def submit(
        self, fn: Callable[..., T], /, *args: Any, **kwargs: Any
    ) -> concurrent.futures.Future[T]:
        """Calls fn(*args, **kwargs) in any free interpreter; a Future."""
        if self._threads is not None:
            return self._threads.submit(fn, args, kwargs)
        queue = self._queue
        if queue.broken is not None:
            raise BrokenInterpreters(queue.broken)
        number = next(self._numbers)
        future = Future(queue, number)
        try:
            parts = pack((fn, args, kwargs))
        except Exception as error:
            with contextlib.suppress(Exception):  # a class may refuse new attributes
                error.add_note(
                    "homefree.interpreters: what crosses to another interpreter is pickled: "
                    "functions and classes by their names, which a module must define at its top "
                    "level"
                )
            future.set_exception(error)
            return future
        queue.futures[number] = future
        try:
            put = _homefree.work_put(queue.work, number, _name_of(fn, args), *parts)
        except Exception as error:
            # A buffer that cannot be passed on.
            queue.futures.pop(number, None)
            future.set_exception(error)
            return future
        if not put:
            queue.futures.pop(number, None)
            if queue.broken is not None:
                raise BrokenInterpreters(queue.broken)
            raise RuntimeError("cannot schedule new futures after shutdown")
        return future

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        **keywords: Any,
    ) -> Iterator[T]:
        """Like map(), with calls in all interpreters. chunksize: how many calls cross together."""
        if chunksize < 1:
            raise ValueError(f"chunksize must be at least 1, not {chunksize}")
        if chunksize == 1 or self._threads is not None:
            return super().map(fn, *iterables, timeout=timeout, **keywords)
        results = super().map(
            functools.partial(_run_chunk, fn),
            _chunks(iterables, chunksize),
            timeout=timeout,
            **keywords,
        )
        return itertools.chain.from_iterable(results)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Lets the interpreters end after the tasks that are there; without them if cancel_futures
        is true. wait: until they have ended."""
        if self._threads is not None:
            self._threads.close()
            if cancel_futures:
                self._threads.cancel_all()
            if wait:
                self._threads.join()
            return
        if self._queue.broken is not None and not self._queue.thread.is_alive():
            return
        self._queue.close()
        if cancel_futures:
            self._queue.cancel_all()
        if wait:
            self._queue.thread.join()
