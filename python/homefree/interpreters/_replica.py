# SPDX-License-Identifier: BSD-2-Clause
"""Objects that each interpreter has one of.

State: the numbers of replicas. Threads: any. Fork: allowed; a child makes replicas of its own.
"""

from __future__ import annotations

import itertools
import os
import pickle

from . import _inside
from ._crossing import pack, unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from concurrent.futures import Future
    from typing import Any, Generic

    from .._types import AnyPath, T
    from ._executor import Executor
else:  # importing typing costs more than all the rest of this module
    T, Generic = None, {None: object}

__all__ = ["Replica", "object_of"]

_numbers = itertools.count(1)


class Replica(Generic[T]):
    """An object that is pickled once and made in each interpreter when that first uses it.

    Passing a replica to an Executor passes a few bytes, whatever the size of the object; where it
    arrives, it is that interpreter's object. Buffers inside of it (NumPy arrays) stay by reference,
    so they exist once in the process. Calling a replica calls the object in any free interpreter:

        model = Replica(load_model(), executor)
        answer = model(inputs)

    value: what to replicate; the caller keeps it. executor: where calling it runs; may be None for
    a replica that is only passed as an argument. When the replica is dropped, the interpreters drop
    their objects after their next task.

    In a free-threaded CPython each thread of an Executor has an object of its own. As nothing else
    is pickled there, a replica becomes that object where it is an argument itself; inside of
    another argument it stays a replica, and calling it calls the thread's object.

    Threads: any. Since 1.0.
    """

    def __init__(self, value: T, executor: Executor | None = None) -> None:
        self._executor = executor
        self._number = next(_numbers)
        self._pickle, self._buffers = pack(value)
        self._alive = bytearray(b"\1")

    @classmethod
    def from_package(
        cls, path: AnyPath, package: str, name: str, executor: Executor | None = None
    ) -> Replica[Any]:
        """A replica of a pickle in a package, which each interpreter loads by itself when it first
        uses it: nothing of it is loaded here.

        path: the file or directory that homefree.package.Writer has made. package, name: the
        pickle's, as for Writer.add_pickle(). executor: as for Replica(). Arrays of the pickle are
        mapped, so pages that nobody writes to exist once in the process; do not change the file
        meanwhile.

        Raises FileNotFoundError if there is nothing at that path. What is wrong with the package is
        raised by calls. Since 1.0.
        """
        path = os.path.realpath(os.fsdecode(path), strict=True)
        return cls(_Packaged(path, package, name), executor)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        if _inside.replicas(own=True) is not None:
            return object_of(self)(*arguments, **keywords)
        return self.submit(*arguments, **keywords).result()

    def submit(self, *arguments: Any, **keywords: Any) -> Future[Any]:
        """Calls the object in any free interpreter; a Future."""
        if self._executor is None:
            raise RuntimeError(
                "this Replica has no executor: pass one when it is made, Replica(value, executor)"
            )
        return self._executor.submit(self, *arguments, **keywords)

    def __reduce__(self) -> tuple[Any, ...]:
        buffers = [pickle.PickleBuffer(buffer) for buffer in self._buffers]
        whole = pickle.PickleBuffer(self._pickle)
        alive = pickle.PickleBuffer(self._alive)
        return _made, (self._number, whole, buffers, alive)

    def __del__(self) -> None:
        alive = getattr(self, "_alive", None)
        if alive is not None:
            alive[0] = 0


class _Packaged:
    """What becomes the object of a package where it is unpickled."""

    def __init__(self, *place):
        self._place = place

    def __reduce__(self):
        return load, self._place


def load(path, package, name):
    """The object of a pickle in a package; hf_replica_from_package() calls this, too."""
    from ..package import Reader

    return Reader(path, mapped=True).load_pickle(package, name)


def object_of(replica):
    """The object that the calling thread uses of a replica."""
    return _made(replica._number, replica._pickle, replica._buffers, replica._alive)


def _made(number, pickled, buffers, alive):
    """This interpreter's object."""
    known = _inside.replicas()
    found = known.get(number)
    if found is None:
        # Another thread of this interpreter may have made it meanwhile.
        found = known.setdefault(number, (unpack(pickled, buffers), memoryview(alive)))
    return found[0]
