# SPDX-License-Identifier: BSD-2-Clause
"""What an Executor (_executor.py) and the thread that collects its results share: the queue in C
(work.c), the group or groups of interpreters, which are replaced when they have done what they may,
and futures by number.

State: of each queue, guarded by the GIL; the queues that have not ended. Threads: any. Fork: the
child's queues are broken, and say so.
"""

import concurrent.futures
import contextlib
import os
import pickle
import threading
import warnings
import weakref

from .. import _homefree
from ._crossing import unpack
from ._inside import BROKEN, DONE, ENDED, LACKS, NEARLY, RAISED, RETIRED, RemoteError
from ._prepare import join
from ._threads import BrokenInterpreters, break_all, close_all, settle

__all__ = ["Future", "Queue", "add", "error_of", "is_closing", "places"]


def _group(count, name_crashes, memory_limit):
    try:
        return _homefree.interpreters_start(count, name_crashes, memory_limit)
    except OSError as error:
        raise RuntimeError(
            f"homefree.interpreters: the interpreters could not be started: {error.strerror}"
        ) from None


# ---- errors that come back ----


class _RemoteTraceback(Exception):
    def __init__(self, text):
        self.text = text

    def __str__(self):
        return self.text


def error_of(pickled, kind, message, text):
    cause = _RemoteTraceback(f'\n"""\n{text}"""')
    if pickled is not None:
        try:
            error = pickle.loads(pickled)
            # Not by an assignment, which the class may refuse.
            BaseException.__cause__.__set__(error, cause)
            return error
        except BaseException:  # whatever the class's own code raises
            pass
    error = RemoteError(f"{kind}: {message}")
    error.__cause__ = cause
    return error


# ---- the queue ----


class Future(concurrent.futures.Future):
    def __init__(self, queue, number):
        super().__init__()
        self._queue, self._number = queue, number

    def cancel(self):
        if self.cancelled():
            return True
        if self.done() or not self._queue.withdraw(self._number):
            return False
        self._cancelled()
        return True

    def _cancelled(self):
        super().cancel()
        self.set_running_or_notify_cancel()

    def running(self):
        return not self.done() and not _homefree.work_waits(self._queue.work, self._number)


class Queue:
    """What an executor and the thread that collects share."""

    def __init__(self, count, setup, turns, seconds, **options):
        """setup: of _setup(). turns: whether new interpreters take the places of others. seconds:
        for how long a task may run; 0: for ever. options: of _group()."""
        self.count, self.turns, self.seconds, self.options = count, turns, seconds, options
        # One for all workers, or one for each, if new ones take their places: None where there is
        # none, False while it is made.
        self.groups = []
        self.owed = self.spares = 0  # of those: not made yet; made, and nobody has retired for them
        self.ending = self.ended = 0  # of those that have retired
        self.lacks = None  # why none can be made until a further one has ended
        self.nearly = set()  # indices of those that will retire soon
        self.closed = False
        self.work = _homefree.work_new(count, *setup)
        self.futures = {}
        self.broken = None
        self.threads = []  # for interpreters of others
        self.done = threading.Event()
        self.thread = threading.Thread(
            target=self._collect, name="homefree.interpreters", daemon=False
        )

    def make(self):
        """Makes the interpreters."""
        try:
            while len(self.groups) < (self.count if self.turns else 1):
                self.groups.append(self._group())
        except BaseException:
            self._end()
            raise

    def _group(self):
        return _group(1 if self.turns else self.count, **self.options)

    def _end(self):
        for group in self.groups:
            if group:
                _homefree.interpreters_end(group, 10_000)

    def start(self):
        """Starts all threads; without them, the interpreters are ended again."""
        try:
            self.thread.start()
        except BaseException:
            self._end()
            raise
        try:
            for index in range(self.count):
                self._begin(index)
        except BaseException:
            self.close()
            self.thread.join()
            raise

    def _begin(self, index):
        group, place = (self.groups[index], 0) if self.turns else (self.groups[0], index)
        _homefree.work_start(self.work, group, place, index)

    def _retire(self, index, patience=10_000):
        """An interpreter has done what it may. A spare one works already, unless it was not known
        before that this one would retire."""
        if index in self.nearly:
            self.nearly.remove(index)
        else:
            self.owed += 1
        self.spares -= 1
        group, self.groups[index] = self.groups[index], None
        self.ending += 1
        self._aside(self._end_one, group, patience)

    def _end_one(self, group, patience):
        _homefree.interpreters_end(group, patience)
        _homefree.work_give(self.work, 0, ENDED, b"", [])

    def _renew(self):
        """Makes what is to take the places of those that retire, one ahead of its time."""
        while self.owed and self.spares < 1 and self.lacks is None:
            if self.closed and not _homefree.work_waits(self.work, 0):
                return
            self.owed -= 1
            self.spares += 1
            if None not in self.groups:
                self.groups.append(None)
            index = self.groups.index(None)
            self.groups[index] = False
            self._aside(self._replace, index, self.ended)

    def _replace(self, index, ended):
        group = None
        try:
            self.groups[index] = group = self._group()
            self._begin(index)
        except (OSError, RuntimeError) as error:
            self.groups[index] = None
            if group is not None:
                _homefree.interpreters_end(group, 0)
            _homefree.work_give(self.work, ended, LACKS, str(error).encode(), [])

    def _lack(self, ended, why):
        """None could be made, when so many had ended. One that ends may leave what the next one
        needs, and those that there are go on without it."""
        self.owed += 1
        self.spares -= 1
        if ended == self.ended:
            self.lacks = why
        if self.lacks is not None and not self.ending and not any(self.groups):
            self._break(why)

    def _aside(self, function, *arguments):
        """Calls what takes a moment on a thread of its own, which counts as a worker meanwhile."""
        _homefree.work_expect(self.work)
        try:
            thread = threading.Thread(target=self._call, args=(function, arguments))
            thread.start()
        except BaseException as error:
            _homefree.work_left(self.work, str(error))
        else:
            self.threads = [one for one in self.threads if one.is_alive()] + [thread]

    def _call(self, function, arguments):
        why = None
        try:
            function(*arguments)
        except Exception as error:
            why = str(error)
        _homefree.work_left(self.work, why)

    def start_in(self, interpreters):
        """Works in interpreters of others, each on a thread of this one."""
        self.thread.start()
        try:
            for interpreter in interpreters:
                self._begin_in(interpreter)
        except BaseException:
            self.close()
            self.thread.join()
            raise

    def _begin_in(self, interpreter):
        arguments = interpreter, _homefree.work_expect(self.work)
        try:
            thread = threading.Thread(target=self._work_in, args=arguments, daemon=True)
            thread.start()
        except BaseException:
            _homefree.work_left(self.work, None)
            raise
        self.threads.append(thread)

    def _work_in(self, interpreter, address):
        why = None
        try:
            interpreter.call(join, address)
        except Exception as error:
            why = str(error).strip().rpartition("\n")[2]
        _homefree.work_left(self.work, why)

    def withdraw(self, number):
        if not _homefree.work_withdraw(self.work, number):
            return False
        self.futures.pop(number, None)
        return True

    def cancel_all(self):
        for number in _homefree.work_clear(self.work):
            future = self.futures.pop(number, None)
            if future is not None:
                future._cancelled()

    def close(self):
        self.closed = True
        _homefree.work_close(self.work)

    def _break(self, why):
        self.broken = why
        self.close()
        _homefree.work_clear(self.work)
        while self.futures:
            _, future = self.futures.popitem()
            settle(future.set_exception, BrokenInterpreters(why))

    def _note(self, number, outcome, text):
        """What is no task's result."""
        why = f"an interpreter is lost: {bytes(text).decode('utf-8', 'replace')}"
        if outcome == BROKEN:
            self._break(why)
        elif outcome == LACKS:
            self._lack(number, why)
        elif outcome == RETIRED:
            self._retire(number)
        elif outcome == NEARLY:
            self.nearly.add(number)
            self.owed += 1
        elif outcome == ENDED:
            self.ending -= 1
            self.ended += 1
            self.lacks = None
        self._renew()

    def _complete(self, number, outcome, pickled, buffers):
        if outcome not in (DONE, RAISED):
            self._note(number, outcome, pickled)
            return
        future = self.futures.pop(number, None)
        if future is None:
            return
        try:
            value = unpack(pickled, buffers)
        except BaseException as error:
            settle(future.set_exception, error)
            return
        if outcome == DONE:
            settle(future.set_result, value)
        else:
            settle(future.set_exception, error_of(*value))

    def _results(self):
        try:
            return _homefree.work_collect(self.work, self.seconds)
        except MemoryError:
            self._break("there was no memory for results")
            return []

    def _give_up(self):
        """Tasks that run for too long are interrupted, and new interpreters take the places."""
        for index, number in _homefree.work_overdue(self.work, self.seconds):
            future = self.futures.pop(number, None)
            if future is not None:
                error = TimeoutError(f"the task ran for more than {self.seconds} seconds")
                settle(future.set_exception, error)
            self._retire(index, 0)
            self._renew()

    def _collect(self):
        while (results := self._results()) is not None:
            for result in results:
                self._complete(*result)
            results = result = None
            if self.seconds != 0:
                self._give_up()
        if self.futures:
            self._break("its interpreters have ended")
        # One of them may have the last reference to its interpreter, which it then ends.
        for thread in self.threads:
            thread.join()
        self._end()
        self.done.set()


_queues = weakref.WeakSet()
_closing = False  # whether _close_all() was called


def is_closing():
    """Whether the interpreter ends, so that nobody else will close what is made now."""
    return _closing


def add(queue):
    """Has a queue closed when the interpreter ends, or now if it does already."""
    _queues.add(queue)
    if _closing:
        queue.close()


def places():
    """{number: index} of the interpreters of all executors."""
    found = {}
    for queue in list(_queues):
        for at, group in enumerate(list(queue.groups)):
            with contextlib.suppress(ValueError):  # it is being replaced
                for index, number in enumerate(_homefree.interpreters_numbers(group)):
                    found[number] = at + index
    return found


def _close_all():
    """Before the interpreter ends: lets the workers finish, as ThreadPoolExecutor's do."""
    global _closing
    _closing = True
    queues = list(_queues)
    for queue in queues:
        queue.close()
    for queue in queues:
        queue.thread.join()
    close_all()
    # Those that somebody still holds something of; CPython 3.12 ends only without any.
    _homefree.interpreters_finish(10_000)


def _warn():
    """CPython cannot fork beside interpreters with GILs of their own: the child of 3.12.1 hangs,
    and those of 3.13.0 and 3.14.10 die, before any code of ours runs there."""
    if any(not queue.done.is_set() for queue in _queues):
        warnings.warn(
            "homefree.interpreters: os.fork() beside an Executor hangs or crashes in the child, a "
            "fault of CPython's; start processes by subprocess, or with multiprocessing's 'spawn'",
            RuntimeWarning,
            stacklevel=2,
        )


def _break_all():
    why = "this process was forked from the one that has the interpreters; make an Executor here"
    for queue in list(_queues):
        queue.broken = why
    break_all(why)


threading._register_atexit(_close_all)
os.register_at_fork(before=_warn, after_in_child=_break_all)
