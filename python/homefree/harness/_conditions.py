# SPDX-License-Identifier: BSD-2-Clause
"""The conditions: where and when the memory of a crossing is freed.

Each is a function of a cell, which makes the crossing, uses it, and frees it. A function that
returns True leaves freeing to the end of the process, which then comes as a program's end; whoever
comes last writes the line {"end": true}.
"""

import atexit
import json
import os
import pickle
import sys

from . import _between, _cells, _damage, _finder, _kinds


def same_thread(cell):
    cell.use_and_free(cell.make())
    cell.look_for_leaks(cell.cycle)


def other_thread(cell):
    cell.in_thread(cell.use_and_free, cell.make())

    def cycle(count):
        cell.in_thread(cell.free_all, [cell.build() for _ in range(count)])

    cell.look_for_leaks(cycle)


def thread_ended(cell):
    cell.use_and_free(cell.in_thread(cell.make))

    def cycle(count):
        cell.free_all(cell.in_thread(lambda: [cell.build() for _ in range(count)]))

    cell.look_for_leaks(cycle)


def forked_child(cell):
    held = cell.make()
    cell.in_child(cell.use_and_free, held)
    cell.use_and_free(held)


def spawned_child(cell):
    if cell.kind == "pointer":
        raise _cells.Skip("an address means nothing in another process")
    if cell.kind in ("call", "callback"):  # what crosses does so during the call
        cell.in_child(lambda: cell.use_and_free(cell.make()))
        return
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        # This process never had the object: it is to the pickle what a spawned one is.
        status = 0
        try:
            os.close(write_end)
            with os.fdopen(read_end, "rb") as pipe:
                contents, pickled = pipe.read(1), pipe.read()
            if contents:
                cell.tell(step="unpickled")
                held = _cells.Held(pickle.loads(pickled), [])
                held.contents = _kinds.read(held.thing)
                cell.use_and_free(held)
                cell.look_for_leaks(lambda count: [pickle.loads(pickled) for _ in range(count)])
        except BaseException as error:
            cell.tell_error(error)
            status = 1
        os._exit(status)
    os.close(read_end)
    with os.fdopen(write_end, "wb") as pipe:
        held = cell.make()
        cell.tell(step="pickled")
        try:
            pickled = pickle.dumps(held.thing)
        except Exception as error:
            raise _cells.Skip(f"it cannot be pickled: {_cells.describe(error)}") from None
        pipe.write(b"1" + pickled)
        cell.free(held)
    cell.await_child(pid)


# ---- interpreters --------------------------------------------------------------------------------


def _interpreters():
    """(make, run, destroy) for interpreters of this process; make takes whether it gets a GIL of
    its own."""
    try:
        import _interpreters as module  # 3.13 and later

        def make(own):
            return module.create("isolated" if own else "legacy")

        return make, module.run_string, module.destroy
    except ImportError:
        pass
    try:
        import _xxsubinterpreters as module
    except ImportError:
        raise _cells.Skip("this Python cannot make interpreters") from None

    def make_isolated(own):
        # Before 3.12, the argument does not change the GIL, and forbids threads.
        return module.create(isolated=own and sys.version_info >= (3, 12))

    return make_isolated, module.run_string, module.destroy


def subinterpreter(cell):
    make, execute, destroy = _interpreters()
    request = {**cell.request, "root": cell.root, "result": cell.result}
    tries = [True, False] if sys.version_info >= (3, 12) else [False]
    for own in tries:
        cell.tell(step="interpreter")
        interpreter = make(own)
        read_end, write_end = os.pipe()
        request.update(own=own, answer=write_end, last=not own)
        start = f"from {__package__}._conditions import in_interpreter as start\n"
        execute(interpreter, f"{_between.entering()}{start}start({json.dumps(request)!r})\n")
        os.close(write_end)
        cell.tell(step="interpreter-end")
        destroy(interpreter)
        with os.fdopen(read_end, "rb") as pipe:
            if pipe.read():
                break
    _damage.scribble()


def in_interpreter(text):
    """The part of subinterpreter() that runs in the new interpreter: one crossing is freed here,
    another one when the interpreter ends. Writes a byte to `answer` unless the module cannot be
    imported in such an interpreter."""
    request = json.loads(text)
    cell = _cells.Cell(request, request["root"], request["result"])
    try:
        if request["homefree"]:
            _finder.load_homefree(install=False)
        _finder.find_file(cell.root, request["path"])
        __import__(cell.root)
    except BaseException as error:
        if request["last"]:
            cell.tell(skipped=f"importing there raised {_cells.describe(error)}")
        return
    os.write(request["answer"], b"1")
    try:
        cell.use_and_free(cell.make())
        sys.modules["__main__"].homefree_kept = cell.make()
    except BaseException as error:
        cell.tell_error(error)


# ---- ends ----------------------------------------------------------------------------------------


def module_gone(cell):
    held = cell.make()
    cell.tell(step="forgotten")
    _cells.forget(cell.root.partition(".")[0])
    cell.use_and_free(held)


class _Circle:
    """Held by itself, so that only the collector finds it."""

    def __init__(self, held):
        self.held = held
        self.itself = self


def interpreter_exit(cell):
    sys.modules["__main__"].homefree_kept = cell.make()
    _Circle(cell.make())
    cell.tell(step="exiting")
    cell.tell(end=True)
    return True


def at_exit(cell):
    held = cell.make()

    def last():
        try:
            cell.use_and_free(held)
        except BaseException as error:
            cell.tell_error(error)
        cell.tell(step="exiting")
        cell.tell(end=True)

    atexit.register(last)
    return True


def unloading(cell):
    try:
        from . import _unload
    except ImportError as error:
        raise _cells.Skip(f"homefree's module for it does not load: {error}") from None
    held = cell.make()
    cell.use(held)
    found = _kinds.deleters(held.thing)
    if not found:
        raise _cells.Skip("it has no deleter in C that can be called without Python")
    cell.tell(step="exiting")
    for function, argument in found:
        _unload.at_unload(function, argument, cell.result)
    held.drop()
    return True


# The name of each, in the order of columns, with what a reader needs to know.
ALONE = {
    "same thread": (same_thread, "freed in the thread that made it"),
    "other thread": (other_thread, "freed in another thread"),
    "thread ended": (thread_ended, "freed after the thread that made it has ended"),
    "forked child": (forked_child, "freed in a forked child, then in the parent"),
    "spawned child": (spawned_child, "pickled, and freed in another process"),
    "subinterpreter": (subinterpreter, "made and freed in a subinterpreter, and as that ends"),
    "module gone": (module_gone, "freed after the module's last reference has gone"),
    "interpreter exit": (interpreter_exit, "freed while the interpreter ends"),
    "atexit": (at_exit, "freed by a handler of atexit"),
    "unloading": (unloading, "freed by a C destructor after the interpreter's end"),
}
BETWEEN = _between.CONDITIONS  # where they are asked for
CONDITIONS = {**ALONE, **BETWEEN}
