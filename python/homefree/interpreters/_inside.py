# SPDX-License-Identifier: BSD-2-Clause
"""What runs inside an interpreter: its preparation, and the loop of an executor's worker.

State: of this interpreter alone, used by the worker's thread: the objects of replicas, and whether
the program's main module was imported. In a free-threaded CPython, each thread of an Executor has
objects of its own.
"""

import contextlib
import functools
import gc
import pickle
import sys
import threading

from .. import _homefree
from .._install import install
from ..loading._interpreter_modules import prepare
from ._crossing import pack, unpack

__all__ = [
    "RemoteError",
    "begin_thread",
    "replicas",
    "see_own_frames",
    "set_up",
    "sweep",
    "work",
]

_ANY = (1 << 64) - 1  # HF_LIMIT_NONE

# Outcomes of a task, and what else a worker has to say; _homefree's work_threads.c has two of them,
# too. A worker that has done as many tasks as it may is RETIRED, once its thread has ended; shortly
# before, it says that it is NEARLY, and gives its index. The queue (_queue.py) tells itself that
# one has ENDED, and that it LACKS what one more needs.
DONE, RAISED, BROKEN, RETIRED, NEARLY, ENDED, LACKS = range(7)


class RemoteError(Exception):
    """An exception that could not be passed on as itself, with the text of its traceback."""


def see_own_frames():
    """CPython's sys._current_frames() also looks at the threads of other interpreters, which run
    meanwhile, and makes frame objects of theirs in this one's memory."""
    if _homefree.own_frames() is not None:
        sys._current_frames = _homefree.own_frames


def set_up():
    """Prepares a new interpreter: modules that would be refused are loaded as private copies, and
    arrays are the heap's, so that they can outlive it."""
    see_own_frames()
    prepare(lends=True)
    install("off", numpy=True)


# ---- the program's main module ----

_main = None  # how to find it, until it was imported: ("name" or "path", value)


def _import_main():
    """Imports the program's main module under another name, as `multiprocessing` does, so that what
    it defines can be unpickled. Returns whether there was something left to try."""
    global _main
    found, _main = _main, None
    if found is None:
        return False
    import runpy

    how, where = found
    run = runpy.run_module if how == "name" else runpy.run_path
    module = type(sys)("__mp_main__")
    module.__dict__.update(run(where, run_name="__mp_main__"))
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module
    return True


def _unpack(pickled, buffers):
    try:
        return unpack(pickled, buffers)
    except (AttributeError, ModuleNotFoundError) as error:
        # A function of the main module, which has not been imported here yet. Who passes it on from
        # an interpreter calls that module __mp_main__.
        missing = isinstance(error, ModuleNotFoundError) and error.name != "__mp_main__"
        if missing or not _import_main():
            raise
    return unpack(pickled, buffers)


# ---- replicas ----

_replicas = {}  # by number: the object, and a byte that is 0 once the replica was dropped
_thread = threading.local()  # `replicas` of a thread that has its own


def begin_thread():
    """Gives the calling thread replicas of its own, as an interpreter has, and returns them."""
    _thread.replicas = {}
    return _thread.replicas


def replicas(*, own=False):
    """The objects of replicas that the calling thread uses; with own, None if it has none of its
    own."""
    return getattr(_thread, "replicas", None if own else _replicas)


def sweep():
    """Drops the objects of replicas that were dropped."""
    known = replicas()
    for number, (_, alive) in list(known.items()):
        if alive[0] == 0:
            del known[number]


# ---- the loop ----


def _attempt(make, otherwise):
    """What an exception's own code says of it. That may raise anything, which must not end the
    worker."""
    try:
        return make()
    except BaseException:
        return otherwise


def _describe(error):
    """An exception as a message: itself if it can be pickled, and what to show if it cannot be
    unpickled."""
    import traceback

    kind = type(error)
    name = _attempt(lambda: f"{kind.__module__}.{kind.__qualname__}", "an exception")
    text = _attempt(lambda: "".join(traceback.format_exception(error)), name)
    text = f"In interpreter {_homefree.interpreter_current()}:\n{text}"
    pickled = _attempt(lambda: pickle.dumps(error, 5), None)
    # str() may return an object of a subclass, which need not be picklable.
    message = _attempt(lambda: str.__str__(str(error)), "its str() failed")
    return pack((pickled, name, message, text))


def _limited(most):
    """Two functions, to be called before a task and after it. The memory that an interpreter may
    have is a limit for tasks alone: whatever they keep, the next one is taken, and told of."""
    if most == 0:
        return int, int
    return functools.partial(_homefree.interpreter_limit, most), functools.partial(
        _homefree.interpreter_limit, _ANY
    )


def _let_go(error, most):
    """Drops what the frames of a task have that got no memory."""
    at = error.__traceback__
    while at is not None:
        with contextlib.suppress(RuntimeError):  # it runs
            at.tb_frame.clear()
        at = at.tb_next
    if 0 < most < _ANY:
        error.add_note(f"homefree.interpreters: the interpreter may have {most} bytes")


def _keeps_more(most):
    """Whether this interpreter has more memory than that when no task runs."""
    if _homefree.interpreter_limit(most) != 0:
        _homefree.interpreter_limit(_ANY)
        gc.collect()
    more = _homefree.interpreter_limit(most) != 0
    _homefree.interpreter_limit(_ANY)
    return more


def work(queue, index):
    """Does the tasks of a queue until it is closed, or as many as it may. index: the worker's; None
    in an interpreter of others, where what is on its path comes first.

    The queue's setup: the pickle of (main module, path, the pickle of (initializer, arguments) or
    None, the memory that it may have, 0 for any, (how many tasks, -1 for any number, how much
    memory it may keep, 0 for any) or None), and the buffers of the inner pickle. With these two it
    waits for a seat first: it may have been made ahead of its time, and matters, also if it could
    not begin, once another one has retired. Returns whether it has done all that it may."""
    global _main
    take, give = _homefree.work_take, _homefree.work_give
    setup, buffers = _homefree.work_setup(queue)
    _main, path, initializer, most, turn = pickle.loads(setup)
    if index is None:
        path = [*sys.path, *(directory for directory in path if directory not in sys.path)]
    sys.path[:] = path
    left, keeps = turn or (-1, 0)
    failed = None
    if initializer is not None:
        try:
            function, arguments = _unpack(initializer, buffers)
            function(*arguments)
        except BaseException as error:
            failed = error
        function = arguments = None
    setup = buffers = initializer = None
    if turn is not None and not _homefree.work_sit(queue):
        return False
    if failed is not None:
        raise failed
    nearly = max(1, left // 10)
    begin, end = _limited(most)
    while left != 0:
        end()
        if left == nearly:
            give(queue, index, NEARLY, b"", [])
        task = take(queue)
        if task is None:
            return False
        left -= 1
        number, pickled, buffers = task
        task = None
        lacked = False
        begin()
        try:
            function, arguments, keywords = _unpack(pickled, buffers)
            # What the task was given is let go before its result is passed on.
            pickled = buffers = None
            parts = pack(function(*arguments, **keywords))
            outcome = DONE
        except BaseException as error:
            end()
            if isinstance(error, MemoryError):
                lacked = True
                _let_go(error, most)
            parts = _describe(error)
            outcome = RAISED
        end()
        function = arguments = keywords = pickled = buffers = None
        try:
            give(queue, number, outcome, *parts)
        except Exception as error:
            # A buffer that cannot be passed on.
            give(queue, number, RAISED, *_describe(error))
        parts = None
        if lacked:
            gc.collect()
        if _replicas:
            sweep()
        if keeps != 0 and _keeps_more(keeps):
            break
    return True
