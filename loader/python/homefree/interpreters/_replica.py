"""Objects that each interpreter has one of.

State: the numbers of replicas. Threads: any. Fork: allowed; a child makes replicas of its own.
"""

import itertools
import pickle

from . import _inside
from ._crossing import pack, unpack

__all__ = ["Replica"]

_numbers = itertools.count(1)


class Replica:
    """An object that is pickled once and made in each interpreter when that first uses it.

    Passing a replica to an Executor passes a few bytes, whatever the size of the object; where it
    arrives, it is that interpreter's object. Buffers inside of it (NumPy arrays) stay by reference,
    so they exist once in the process. Calling a replica calls the object in any free interpreter:

        model = Replica(load_model(), executor)
        answer = model(inputs)

    value: what to replicate; the caller keeps it. executor: where calling it runs; may be None for
    a replica that is only passed as an argument. When the replica is dropped, the interpreters drop
    their objects after their next task.

    Threads: any. Since 1.0.
    """

    def __init__(self, value, executor=None):
        self._executor = executor
        self._number = next(_numbers)
        self._pickle, self._buffers = pack(value)
        self._alive = bytearray(b"\1")

    def __call__(self, *arguments, **keywords):
        return self.submit(*arguments, **keywords).result()

    def submit(self, *arguments, **keywords):
        """Calls the object in any free interpreter; a Future."""
        if self._executor is None:
            raise RuntimeError(
                "this Replica has no executor: pass one when it is made, Replica(value, executor)"
            )
        return self._executor.submit(self, *arguments, **keywords)

    def __reduce__(self):
        buffers = [pickle.PickleBuffer(buffer) for buffer in self._buffers]
        whole = pickle.PickleBuffer(self._pickle)
        alive = pickle.PickleBuffer(self._alive)
        return _made, (self._number, whole, buffers, alive)

    def __del__(self):
        alive = getattr(self, "_alive", None)
        if alive is not None:
            alive[0] = 0


def _made(number, pickled, buffers, alive):
    """This interpreter's object."""
    found = _inside.replicas.get(number)
    if found is None:
        found = unpack(pickled, buffers), memoryview(alive)
        _inside.replicas[number] = found
    return found[0]
