# SPDX-License-Identifier: BSD-2-Clause
"""homefree.interpreters: many interpreters in one process, and memory that crosses between them.

Executor runs calls in interpreters that have no GIL in common. Arrays, memoryviews, DLPack tensors
and Arrow data cross by reference: whoever drops the last reference, in whichever interpreter, lets
the memory go home. share() and prepare() give the same to interpreters that others have made, those
of concurrent.interpreters among them.

Needs CPython 3.12 or newer; a free-threaded CPython uses threads instead. Since 1.0.
"""

from .. import _homefree
from .._lazy import attributes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._crossing import share
    from ._executor import Executor, engine
    from ._inside import RemoteError
    from ._interpreter_memory import InterpreterLeak, InterpreterMemory, leaks, memory
    from ._prepare import prepare
    from ._replica import Replica
    from ._threads import BrokenInterpreters

__all__ = [
    "BrokenInterpreters",
    "Executor",
    "InterpreterLeak",
    "InterpreterMemory",
    "Message",
    "RemoteError",
    "Replica",
    "Shared",
    "engine",
    "leaks",
    "memory",
    "prepare",
    "share",
]

_homefree.add_interpreters()
from .._homefree import Message, Shared  # noqa: E402, they are there now

# Every interpreter imports this package, and most need nothing of it but _inside. The test of
# import circles reads this table.
_LAZY = {
    "_crossing": "share",
    "_executor": "Executor engine",
    "_inside": "RemoteError",
    "_interpreter_memory": "InterpreterLeak InterpreterMemory leaks memory",
    "_prepare": "prepare",
    "_replica": "Replica",
    "_threads": "BrokenInterpreters",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = attributes(__name__, _LAZY, globals())
