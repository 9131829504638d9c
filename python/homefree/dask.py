# SPDX-License-Identifier: BSD-2-Clause
"""homefree.dask: Dask workers whose tasks run in interpreters with GILs of their own.

    dask worker tcp://scheduler:8786 --preload homefree.dask
    cluster = LocalCluster(preload="homefree.dask")

Each of a worker's threads becomes an interpreter, so pure Python runs on as many cores as the
worker has threads. Arrays between the tasks of a worker stay where they are, and cross by
reference; between workers Dask moves them as always. Dask's scheduler, spilling, retries, nannies
and dashboard know nothing of it.

Needs CPython 3.12 or newer; in a free-threaded CPython, where Dask's own threads do the same, the
worker stays as it is. Since 1.0.
"""

from __future__ import annotations

import concurrent.futures
import functools
import io
import pickle
import sys
import threading
import time
import traceback
import types

from .interpreters import Executor, engine
from .interpreters._crossing import Pickler
from .interpreters._queue import error_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["TaskExecutor", "dask_setup"]

_TASK = "_run_task_simple"  # what a worker submits for a task, with (task, data, delay)


# ---- what crosses ----


def _is_found(value):
    """Whether a function or class is found by its name, in whichever interpreter."""
    module = sys.modules.get(value.__module__) if value.__module__ != "__main__" else None
    for name in value.__qualname__.split("."):
        module = getattr(module, name, None)
    return module is value


@functools.lru_cache(4096)
def _by_value(function):
    import cloudpickle

    return cloudpickle.dumps(function, 5)


@functools.lru_cache(4096)
def _made(pickled):
    return pickle.loads(pickled)


class _Pickler(Pickler):
    """What cannot be found by its name crosses as Dask's clients send it: by value."""

    def reducer_override(self, value):
        if isinstance(value, (types.FunctionType, type)) and not _is_found(value):
            return _made, (_by_value(value),)
        return super().reducer_override(value)


def _pack(value):
    """A pickle, and the buffers that it leaves out."""
    file, buffers = io.BytesIO(), []
    try:
        _Pickler(file, 5, buffer_callback=buffers.append).dump(value)
        return file.getvalue(), buffers
    except Exception:
        import cloudpickle

        return cloudpickle.dumps(value, 5), []  # or why not


def _run(task, buffers):
    """Runs in an interpreter. Result: start and end by time.time(), the thread, and the packed
    result, or what an exception says of itself."""
    start, result, error = time.time(), None, None
    try:
        task, data = pickle.loads(task, buffers=buffers)
        buffers = None
        result = _pack(task(data))
    except BaseException as raised:
        kind = type(raised)
        try:
            pickled = _pack(raised)[0]
        except Exception:
            pickled = None
        name = f"{kind.__module__}.{kind.__qualname__}"
        error = pickled, name, str(raised), traceback.format_exc()
    return start, time.time(), threading.get_ident(), result, error


# ---- the executor ----


class TaskExecutor(concurrent.futures.Executor):
    """Runs a Dask worker's tasks in interpreters, and everything else on threads.

    count: how many interpreters. threads: the executor for the rest, which is the caller's.
    Raises what homefree.interpreters.Executor raises. Threads: any. Since 1.0.
    """

    def __init__(self, count: int, threads: concurrent.futures.Executor) -> None:
        self._interpreters, self._threads = Executor(count), threads

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        """A Future of fn(*args, **kwargs); of a task, what the worker wants to know of it."""
        if getattr(fn, "__name__", None) != _TASK or len(args) != 3 or kwargs:
            return self._threads.submit(fn, *args, **kwargs)
        task, data, delay = args
        outer = concurrent.futures.Future()
        try:
            inner = self._interpreters.submit(_run, *_pack((task, data)))
        except Exception as error:
            outer.set_result(_failed(error, time.time() + delay, time.time() + delay, 0))
            return outer
        inner.add_done_callback(functools.partial(_finish, outer, delay))
        return outer

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:
        """Ends the interpreters, after the tasks that run. The worker ends the threads."""
        self._interpreters.shutdown(wait, cancel_futures=cancel_futures)


def _failed(error, start, stop, thread):
    from distributed.core import error_message

    return {
        **error_message(error),
        "op": "task-erred",
        "actual_exception": error,
        "start": start,
        "stop": stop,
        "thread": thread,
    }


def _finish(outer, delay, inner):
    if inner.cancelled():
        outer.cancel()
        outer.set_running_or_notify_cancel()
        return
    from dask.sizeof import sizeof

    try:
        start, stop, thread, packed, error = inner.result()
        start, stop = start + delay, stop + delay
        if error is None:
            result = pickle.loads(packed[0], buffers=packed[1])
            outer.set_result(
                {
                    "op": "task-finished",
                    "status": "OK",
                    "result": result,
                    "nbytes": sizeof(result),
                    "type": None if result is None else type(result),
                    "start": start,
                    "stop": stop,
                    "thread": thread,
                }
            )
            return
        error = error_of(*error)
    except BaseException as raised:
        error, start, stop, thread = raised, time.time() + delay, time.time() + delay, 0
    outer.set_result(_failed(error, start, stop, thread))


def dask_setup(worker: Any) -> None:
    """Called by Dask in a worker that has --preload homefree.dask: its tasks then run in as many
    interpreters as it has threads. Tasks that need the worker itself (get_worker(),
    worker_client()), or a module that interpreters cannot have, run on its threads if they ask for
    them: dask.annotate(executor="threads").

    Raises RuntimeError, with the reason and a remedy, if this Python can have no interpreters.
    """
    if engine() == "threads":
        return
    threads = worker.executors["default"]
    worker.executors["threads"] = threads
    worker.executors["default"] = TaskExecutor(worker.state.nthreads, threads)
