# SPDX-License-Identifier: BSD-2-Clause
"""homefree.limit(): how much of the heap one library may have.

State: the handles that are in force, whose threads a forked child starts again. Threads: any.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import sys
import threading
import warnings
import weakref

from . import _homefree
from ._trim import give_back, tell_of_exception

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ._types import AnyPath

_MODES = "raise", "warn", "trim"
_NONE = (1 << 64) - 1
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT]?)(?:i?B)?", re.IGNORECASE)
_ADOPT = (
    "adopt it before it is imported, by homefree.import_hook([name], adopt=True) or "
    "homefree.load(path, adopt=True), or build it with homefree's shim"
)
_REMEDIES = {
    errno.ENOENT: "no shared object of {library!r} is loaded: import it first",
    errno.EXDEV: "{library!r} does not allocate from homefree's heap: " + _ADOPT,
    errno.EEXIST: "an object of {library!r} has a limit already: close() that first",
    errno.EMFILE: "there are 64 limits: close() one that is not needed",
    errno.EACCES: "the calls of {library!r} cannot be changed: its slots are not writable",
    errno.ENOTSUP: "this process cannot have limits: it runs in diagnostics mode, or "
    "libhomefree-limits.so is not installed beside libhomefree, as a line on stderr says",
}


def bytes_of(size: int | str | None) -> int:
    """A size as limit() takes it; all that there are if there is no limit."""
    if size is None or size == "unlimited":
        return _NONE
    if isinstance(size, str):
        found = _SIZE.fullmatch(size.strip())
        if found is None:
            raise ValueError(f'homefree: a size is wanted, such as "2G", not {size!r}')
        size = float(found[1]) * 1024 ** " KMGT".index(found[2].upper() or " ")
    if isinstance(size, bool) or not isinstance(size, (int, float)):
        raise TypeError(f"homefree: a size is bytes or text, not {type(size).__name__}")
    if size < 0 or math.isnan(size):
        raise ValueError(f"homefree: a size must not be negative or NaN, as {size!r} is")
    return int(min(size, _NONE))


# ---- whose objects ----


def _of_distribution(name: str, deep: bool = True) -> Iterator[str]:
    """The directories, with a slash, and files of a distribution's shared objects."""
    from importlib import metadata

    try:
        distribution = metadata.distribution(name)
    except (metadata.PackageNotFoundError, ValueError):
        return
    found = False
    for file in distribution.files or ():
        if re.search(r"\.so(\.|$)", file.name):
            found = True
            first = os.path.abspath(distribution.locate_file(file.parts[0]))
            yield first if len(file.parts) == 1 else first + "/"
    # One that has none itself may get them from distributions of its own: polars-runtime-32.
    for required in (distribution.requires or ()) if deep and not found else ():
        other = re.match(r"[\w.-]+", required)
        if other is not None and other[0].lower().startswith(name.lower()):
            yield from _of_distribution(other[0], False)


def _of_module(name: str) -> Iterator[str]:
    module = sys.modules.get(name)
    for directory in getattr(module, "__path__", ()):
        yield os.path.abspath(directory) + "/"
        yield os.path.abspath(directory) + ".libs/"
    if not hasattr(module, "__path__") and getattr(module, "__file__", None):
        yield os.path.abspath(module.__file__)


def _places(library: str) -> list[str]:
    """Each once, also by its real path."""
    if "/" in library or re.search(r"\.so(\.|$)", library):
        found = [library]
        if "/" in library:
            end = "/" if os.path.isdir(library) else ""
            found = [os.path.abspath(library) + end, library]
    else:
        found = [*_of_distribution(library), *_of_module(library)]
    real = [os.path.realpath(each) + "/" * each.endswith("/") for each in found if "/" in each]
    return list(dict.fromkeys(found + real))


# ---- limits ----


class Limit:
    """A limit that is in force, until close() or the end of a with statement. Since 1.0."""

    def __init__(
        self, library: str, size: int, mode: int, callback: Callable[[Limit], object] | None
    ) -> None:
        self._library, self._mode, self._callback = library, mode, callback
        this = weakref.ref(self)

        def told(asked: int, waits: bool) -> None:
            limit = this()
            if limit is not None:
                limit._reached(waits)

        needs = told if callback is not None or mode != 0 else None
        self._limit = _begin(library, size, mode, needs)
        self._last: tuple[Any, ...] = ()
        _in_force.add(self)
        if mode == _MODES.index("trim"):
            try:
                self._start_thread()
            except RuntimeError:
                self.close()
                raise

    def _start_thread(self) -> None:
        threading.Thread(
            target=_run, args=(self._limit, weakref.ref(self)), name="homefree limit", daemon=True
        ).start()

    def _reached(self, waits: bool) -> None:
        """waits: in the middle of an allocation, of this thread's perhaps."""
        if self._mode == _MODES.index("warn"):
            warnings.warn(
                f"homefree: {self.name} uses {self.used} bytes, above its limit of {self.limit}",
                RuntimeWarning,
                stacklevel=3,
            )
        if waits:
            give_back()
        if self._callback is not None:
            try:
                self._callback(self)
            except BaseException as error:
                # Whoever allocates, and the limit's own thread, go on after sys.exit(), too.
                if not waits and not isinstance(error, Exception):
                    raise
                tell_of_exception()

    def _state(self) -> tuple[Any, ...]:
        limit = self._limit
        if limit is not None:
            with contextlib.suppress(OSError):  # another thread closes it
                return _homefree.limit_read(limit)
        return self._last

    @property
    def name(self) -> str:
        """The library, as limit() was told."""
        return self._library

    @property
    def limit(self) -> int | None:
        """The limit in bytes; None: there is none. It can be set, as limit()'s size."""
        most = self._state()[1]
        return most if most != _NONE else None

    @limit.setter
    def limit(self, size: int | str | None) -> None:
        limit = self._limit
        try:
            if limit is not None:
                _homefree.limit_set(limit, bytes_of(size))
                return
        except OSError:  # another thread has closed it
            pass
        raise ValueError("limit(): this one is closed")

    @property
    def used(self) -> int:
        """Bytes in live blocks of the library, with a page that each thread may have at hand."""
        return self._state()[2]

    @property
    def peak(self) -> int:
        """The most that was ever used."""
        return self._state()[3]

    @property
    def refused(self) -> int:
        """How many allocations were refused."""
        return self._state()[4]

    @property
    def crossings(self) -> int:
        """How often the limit was reached. It counts again once a sixteenth of it was free."""
        return self._state()[5]

    @property
    def objects(self) -> int:
        """How many shared objects of the library were found, by now."""
        return self._state()[7]

    @property
    def on(self) -> str:
        """ "raise", "warn" or "trim"."""
        return _MODES[self._mode]

    def close(self) -> None:
        """Ends the limit. What it knew last can still be read. A second call does nothing."""
        limit = self._limit
        if limit is not None:
            self._last, self._limit = self._state(), None
            _in_force.discard(self)
            _homefree.limit_end(limit)

    def __enter__(self) -> Limit:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._limit is None else f"{self.used} of {self.limit} bytes"
        return f"<homefree.Limit {self.name!r}: {state}>"


def _begin(library: str, size: int, mode: int, told: Any) -> Any:
    """The capsule of a limit with all places of the library."""
    limit, errors = None, [errno.ENOENT]
    name = os.fsencode(library)
    for place in _places(library):
        try:
            if limit is None:
                limit = _homefree.limit_begin(os.fsencode(place), size, mode, name, told)
            else:
                _homefree.limit_add(limit, os.fsencode(place))
        except OSError as error:
            errors.append(error.errno)
            if error.errno not in (errno.ENOENT, errno.EXDEV):
                break
    # An object that is loaded and no homefree's says more than one that is not loaded.
    worst = next((each for each in errors if each not in (errno.ENOENT, errno.EXDEV)), None)
    if limit is not None and worst is None:
        return limit
    worst = worst or (errno.EXDEV if errno.EXDEV in errors else errno.ENOENT)
    why = _REMEDIES.get(worst, os.strerror(worst)).format(library=library)
    raise RuntimeError(f"limit(): {why}") from None


def _run(capsule: Any, this: weakref.ref[Limit]) -> None:
    """The thread of a limit that trims."""
    while _homefree.limit_wait(capsule) is not None:
        limit = this()
        try:
            if limit is not None:
                limit._reached(True)
        finally:
            del limit
            _homefree.limit_answer(capsule)


_in_force: set[Limit] = set()


def _in_child() -> None:
    for limit in list(_in_force):
        if limit._limit is not None:
            _homefree.limit_in_child(limit._limit)
            if limit._mode == _MODES.index("trim"):
                try:
                    limit._start_thread()
                except RuntimeError as error:
                    print(f"homefree: no callbacks of {limit!r} here: {error}", file=sys.stderr)


os.register_at_fork(after_in_child=_in_child)


def limit(
    library: AnyPath,
    size: int | str | None,
    on: str = "raise",
    callback: Callable[[Limit], object] | None = None,
) -> Limit:
    """Limits how much of the heap one library may have.

    library: a distribution ("polars"), a module that is imported, or the path of a shared object or
    directory. Its objects must be loaded, and allocate from homefree's heap: built with the shim,
    or adopted (import_hook([name], adopt=True), load(path, adopt=True)), or under `homefree run`.
    Objects of its directories that are loaded later have the limit, too.

    size: bytes, or text such as "2G" or "512M"; 0 refuses everything, None or "unlimited" nothing.
    Live blocks count from the call that allocates them until they are freed, whoever frees them.
    What the library had before does not count, nor what it maps by itself. The count is exact but
    for a page of 4 KiB that each thread may have at hand.

    on: what happens to an allocation that would be above the limit.

    - "raise": it gets NULL: MemoryError, std::bad_alloc, ENOMEM. Most libraries in Rust end the
      process then. The callback is called afterwards, by the main thread between two instructions.
    - "warn": it succeeds; the main thread gets a RuntimeWarning, and calls the callback.
    - "trim": unused memory of all allocators is given back, caches of pyarrow and torch are
      emptied, and the callback is called; then it is tried again, and gets NULL if it is still too
      much. If the allocating thread is attached to this interpreter (it holds the GIL), it calls
      the callback itself, in the middle of the allocation; otherwise it waits for a thread of the
      limit's own that does, for a second at most.

    callback(limit): called once for each time that the limit is reached, which counts again after
    a sixteenth of it was free. With "trim" it drops caches; it must not wait for what other
    threads of the library do. What it raises goes to threading.excepthook. What it allocates
    through the library beyond the limit gets NULL at once.

    Returns a Limit: a context manager with used, peak, limit (which can be set), refused, and
    close(). It lasts until it is closed, whether or not somebody keeps it.

    RuntimeError, with a remedy, if no object is loaded, or none allocates from the heap, or one
    has a limit already, or there are 64, or there can be no thread for "trim"; ValueError for
    another size or `on`. A subinterpreter has limits with "raise" and without a callback, until it
    ends; others are a RuntimeError there. Threads: any. Fork: the child has the limits. Since 1.0.
    """
    if on not in _MODES:
        raise ValueError(f'limit(): on must be "raise", "warn" or "trim", not {on!r}')
    if callback is not None and not callable(callback):
        raise TypeError(f"limit(): a function is wanted, not {type(callback).__name__}")
    return Limit(os.fsdecode(library), bytes_of(size), _MODES.index(on), callback)


def limits() -> list[Limit]:
    """The limits that limit() began and nobody closed, in no order. Threads: any. Since 1.0."""
    return list(_in_force)
