# SPDX-License-Identifier: BSD-2-Clause
"""What a cell does with its crossing, in a process of its own: make it, use it, free it.

Runs in processes that a host forked. What happens is written to the result pipe as one JSON line
for each step, because the process may die at any of them. The controller judges what came out.
"""

import gc
import json
import os
import sys
import threading
import time

from . import _damage, _finder, _kinds, _recipes

# Repetitions when a leak is looked for: some to fill caches, then rounds that must all grow.
_WARM, _ROUND, _ROUNDS = 60, 100, 3
_STEP = 20  # of which this many are made and then freed
_LEAK_SECONDS = 0.6
_LEAK_PART = 0.25  # of the cell's time limit that looking may take: the making may sleep
_LEAST = (16, 0.9)  # bytes and objects that a cycle must leave behind to be a leak
_KINDS_OF_CALLS = ("call", "callback")  # what crosses are the arguments
_KINDS_THAT_END = ("capsule", "dlpack", "arrow", "array", "buffer", "object", "string", "pointer")


class Skip(Exception):
    """The crossing cannot be put under this condition."""


class Held:
    """A crossing that was made: its object, the objects made on the way, its contents."""

    def __init__(self, thing, kept):
        self.thing = thing
        self.kept = kept
        self.contents = None

    def drop(self):
        self.thing = None
        while self.kept:
            self.kept.pop()


def _size_of(contents):
    return len(contents) if isinstance(contents, bytes) else None


class Cell:
    """One cell. `request` comes from the controller; `result` is the descriptor for steps."""

    def __init__(self, request, root, result):
        self.request = request
        self.recipe = request["recipe"]
        self.kind = request["kind"]
        self.root = root
        self.result = result

    def tell(self, **step):
        os.write(self.result, (json.dumps(step) + "\n").encode())

    # ---- the three steps of every condition ----

    def make(self):
        self.tell(step="made")
        kept = []
        try:
            thing = _recipes.build(self.recipe, kept)
        except Exception as error:
            del kept[:]
            raise Skip(f"making it raised {describe(error)}") from None
        held = Held(thing, kept)
        if self.request["late"] and "homefree" not in sys.modules:
            self.tell(step="loaded")
            _finder.load_homefree()
        if self.kind == "pointer" and not self.request["pointers"]:
            raise Skip("a raw pointer is freed only with --pointers")
        contents = _kinds.read(thing)
        if contents == _kinds.read(thing):  # else somebody else writes to it
            held.contents = contents
        if self.kind not in _KINDS_OF_CALLS:
            del held.kept[:]  # as after any call: what is made must not live on its arguments
        _damage.scribble(_size_of(contents))
        return held

    def use(self, held):
        self.tell(step="used")
        contents = _kinds.read(held.thing)
        if held.contents is not None and contents != held.contents:
            raise _damage.Damaged("the contents are not those that it was made with")

    def free(self, held):
        self.tell(step="freed")
        size = _size_of(held.contents)
        address = held.thing if self.kind == "pointer" else None
        held.drop()
        if address is not None:
            _damage.release(address)
        gc.collect()
        _damage.scribble(size)

    def use_and_free(self, held):
        self.use(held)
        self.free(held)

    # ---- helpers of conditions ----

    def in_thread(self, function, *arguments):
        """The result of a function that runs in a thread, which has ended."""
        outcome = []

        def run():
            try:
                outcome.append((True, function(*arguments)))
            except BaseException as error:
                outcome.append((False, error))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        _await_thread(thread.native_id)
        good, value = outcome.pop()
        if not good:
            raise value
        return value

    def in_child(self, function, *arguments):
        """Runs a function in a forked child. What it raises is told; a death is the cell's."""
        pid = os.fork()
        if pid == 0:
            status = 0
            try:
                function(*arguments)
            except BaseException as error:
                self.tell_error(error)
                status = 1
            os._exit(status)
        self.await_child(pid)

    def await_child(self, pid):
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            self.tell(child=True, signal=os.WTERMSIG(status))
            os._exit(0)
        if os.WEXITSTATUS(status) != 0:
            self.tell(child=True, status=os.WEXITSTATUS(status))
            os._exit(0)

    def tell_error(self, error):
        if isinstance(error, Skip):
            self.tell(skipped=str(error))
        elif isinstance(error, _damage.Damaged):
            self.tell(damaged=str(error))
        else:
            self.tell(skipped=f"raised {describe(error)}")

    def look_for_leaks(self, cycle):
        """Repeats making and freeing, and tells if live memory grows in every round alike."""
        if self.kind not in _KINDS_THAT_END:
            return
        self.tell(step="repeated")
        self.repeat_until = time.monotonic() + _LEAK_PART * self.request["timeout"]
        end = time.process_time() + _LEAK_SECONDS
        try:
            before, worked = time.monotonic(), time.process_time()
            cycle(1)
            took, worked = time.monotonic() - before, time.process_time() - worked
            # The rounds are all or nothing. What cannot come near their end does not begin: a first
            # cycle may be some times slower than the next ones.
            if (
                _STEP * took < _LEAK_PART * self.request["timeout"]
                and (_WARM + _ROUNDS * _ROUND) * worked < 8 * _LEAK_SECONDS
            ):
                self.compare_rounds(cycle, end)
        except Exception:  # it may not be made so often: no memory leaked as far as is known
            return

    def compare_rounds(self, cycle, end):
        rounds = self.grown(cycle, [_WARM] + [_ROUND] * _ROUNDS, end)
        suspects = [i for i in range(2) if _steady([one[i] for one in rounds], _LEAST[i], 2)]
        if not rounds or not suspects:
            return
        # Caches grow too, but not for long, and not by the same amount each time: some ten
        # kilobytes in all, which are less than a leak's least for so many.
        self.repeat_until = time.monotonic() + 2 * _LEAK_PART * self.request["timeout"]
        longer = self.grown(cycle, [16 * _ROUND] * 3, end + 16 * _LEAK_SECONDS)
        for i in suspects:
            each = [one[i] for one in longer]
            if each and _steady(each, _LEAST[i], 1.1):
                mean = sum(each) / len(each)
                what = ("bytes", "objects")[i]
                self.tell(leaked=f"{mean:.0f} {what} stay behind each time it is made and freed")
                return

    def grown(self, cycle, counts, end):
        """What stays behind of one cycle, as (bytes, objects), for each count but the first. An
        empty list if that takes too long."""
        measured = []
        for count in counts:
            for _ in range(count // _STEP):
                cycle(_STEP)
                if time.process_time() > end or time.monotonic() > self.repeat_until:
                    return []
            measured.append(_damage.live())
        return [
            [(after[i] - before[i]) / count for i in range(2)]
            for before, after, count in zip(measured, measured[1:], counts[1:])
        ]

    def build(self):
        """Makes the crossing without checks, to be freed by free_all()."""
        kept = []
        return Held(_recipes.build(self.recipe, kept), kept)

    def free_all(self, several):
        while several:
            held = several.pop()
            if self.kind == "pointer":
                _damage.release(held.thing)
            held.drop()

    def cycle(self, count):
        """Makes and frees the crossing some times."""
        self.free_all([self.build() for _ in range(count)])


def _steady(rates, least, spread):
    """Whether all rates are at least that high, and much the same."""
    return bool(rates) and min(rates) >= least and max(rates) <= spread * min(rates)


def _await_thread(number):
    """Before 3.13, join() returns when Python is done with a thread, whose own data goes later."""
    task = f"/proc/self/task/{number}"
    end = time.monotonic() + 2
    while os.path.exists(task) and time.monotonic() < end:
        time.sleep(0.0002)


def describe(error):
    """An exception in one line."""
    try:
        words = " ".join(str(error).split())
    except Exception:
        words = ""
    return f"{type(error).__name__}: {words}"[:300] if words else type(error).__name__


def forget(root):
    """Takes a module and its submodules out of sys.modules, and lets the collector run."""
    names = [name for name in sys.modules if name == root or name.startswith(root + ".")]
    for name in names:
        module = sys.modules.pop(name)
        parent, _, last = name.rpartition(".")
        if parent in sys.modules:
            vars(sys.modules[parent]).pop(last, None)
        del module
    gc.unfreeze()
    for _ in range(3):
        gc.collect()


def run(cell, condition):
    """Runs one cell. Ends the process, unless the interpreter's end belongs to the condition: then
    it returns, and the process is to end as a program does."""
    try:
        ends = condition(cell)
    except BaseException as error:
        cell.tell_error(error)
        ends = False
    if ends:
        gc.unfreeze()  # the collector must find at the end what it finds in any program
        return
    cell.tell(end=True)
    os._exit(0)
