# SPDX-License-Identifier: BSD-2-Clause
"""Interpreters that homefree has not made: prepare(), and how they work for an Executor.

State: whether NumPy's arrays are waited for, in this interpreter; a lock keeps threads apart that
prepare it. Threads: any.
"""

import sys
import threading

from .. import _homefree, _install, _numpy
from ._inside import see_own_frames, set_up, work

__all__ = ["join", "prepare"]

_lock = threading.Lock()
_CORES = ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath")


def _register_arrays(core):
    _homefree.register_crossing(core.ndarray)


def prepare() -> None:
    """Make this interpreter one that works with others, whoever made it.

    NumPy's arrays (ndarray itself, not its subclasses) then cross by reference wherever CPython
    passes objects between interpreters: queues of concurrent.interpreters, Interpreter.call(),
    arguments and results of InterpreterPoolExecutor's tasks. Inside of lists and dictionaries they
    do after share(). Extension modules that refuse interpreters with a GIL of their own are loaded
    as private copies, arrays belong to no interpreter, and blocks of this interpreter that others
    free are sent home. Call it in each interpreter before anything else is imported, and in the
    main interpreter, too:

        prepare()
        with InterpreterPoolExecutor(initializer=prepare) as executor:
            executor.submit(function, array)

    A second call does nothing. Raises RuntimeError if this CPython is older than 3.12. Threads:
    any. Fork: the child keeps it. Since 1.0.
    """
    if sys.version_info < (3, 12):
        raise RuntimeError(
            "homefree.interpreters: CPython {}.{} has one GIL for all interpreters: use CPython "
            "3.12 or newer".format(*sys.version_info)
        )
    with _lock:
        if _register_arrays not in _numpy.after:
            _prepare()


def _prepare():
    _numpy.after.append(_register_arrays)
    if _homefree.interpreter_current() == 0:
        see_own_frames()
        _install.install()
    else:
        set_up()
        _homefree.interpreter_make_known()
    _homefree.register_crossing(_homefree.Shared)
    _homefree.register_crossing(_homefree.Message)
    for name in _CORES:
        if name in sys.modules:
            _register_arrays(sys.modules[name])
            break
    else:
        _install.wait_for_numpy()


def join(address):
    """Does the tasks of a queue, of which it has the address, in an interpreter of others."""
    prepare()
    work(_homefree.work_join(address), None)
