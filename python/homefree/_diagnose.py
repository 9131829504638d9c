# SPDX-License-Identifier: BSD-2-Clause
"""homefree.diagnose(): what diagnostics mode finds in a part of a run."""

from typing import Literal, NamedTuple, Optional

from . import _homefree

_SEVERITIES = ("note", "warning", "error")


class Place(NamedTuple):
    """A call: the shared object that it lies in (None: unknown), the function that is called, and
    the offset of the return address in the object's file. `homefree report` shows the line."""

    object: Optional[str]
    function: str
    offset: int

    def __str__(self) -> str:
        return f"{self.offset:#x} in {self.object or 'unknown code'}, with {self.function}"


class Finding(NamedTuple):
    """What was found, and how often in this part of the run. Unknown members are None.

    rule: as in homefree-report(1). severity: "note", "warning" or "error". bytes: the sum of the
    blocks' sizes, where they are known. allocator: the name of the block's allocator;
    allocator_object: the shared object that holds it. allocated, freed: the two calls; first_freed:
    the first free of a block that was freed twice. remedy: a sentence.
    """

    rule: str
    severity: Literal["note", "warning", "error"]
    count: int
    bytes: int
    allocator: Optional[str]
    allocator_object: Optional[str]
    allocated: Optional[Place]
    freed: Optional[Place]
    first_freed: Optional[Place]
    remedy: str

    def __str__(self) -> str:
        text = f"{self.severity}: {self.rule}, {self.count} time{'s' * (self.count != 1)}"
        for name, place in ("allocated", self.allocated), ("freed", self.freed):
            if place is not None:
                text += f"\n  {name} {place}"
        return f"{text}\n  {self.remedy}"


def _place(fields):
    return Place(*fields) if fields is not None else None


def _findings(part):
    found = []
    for rule, severity, count, size, name, holder, *places, remedy in _homefree.findings_list(part):
        found.append(
            Finding(
                rule, _SEVERITIES[severity], count, size, name, holder, *map(_place, places), remedy
            )
        )
    return tuple(found)


class Diagnosis:
    """A part of a run; diagnose() makes it. It counts what any thread of the process does. A
    process that is forked meanwhile counts its own. Threads: any."""

    def __init__(self) -> None:
        self._part = None
        self._since_mark = None
        self._found = ()
        self.marks: dict[str, tuple[Finding, ...]] = {}

    def __enter__(self) -> "Diagnosis":
        self._part = self._since_mark = _homefree.findings_begin()
        self._found = ()
        self.marks = {}
        return self

    def __exit__(self, *exception: object) -> None:
        self._found = _findings(self._part)
        self._part = self._since_mark = None

    @property
    def findings(self) -> "tuple[Finding, ...]":
        """A tuple of Finding: so far, and after the block all of the block."""
        return self._found if self._part is None else _findings(self._part)

    def mark(self, name: str) -> "tuple[Finding, ...]":
        """Give what was found since the last mark, or since the beginning, a name.

        Returns that tuple of Finding, which `marks[name]` has from then on. Raises RuntimeError
        outside the block, and for a name that is taken.
        """
        if self._part is None:
            raise RuntimeError("homefree: mark() belongs into the block of `with diagnose()`")
        if name in self.marks:
            raise RuntimeError(f"homefree: there is a mark {name!r} already; choose another name")
        following = _homefree.findings_begin()
        self.marks[name] = _findings(self._since_mark)
        self._since_mark = following
        return self.marks[name]


def diagnose() -> "Diagnosis":
    """Collect what diagnostics mode finds in a block of code.

        with homefree.diagnose() as diagnosis:
            module.work()
        assert not diagnosis.findings

    Returns a Diagnosis, a context manager with `findings`, `mark(name)` and `marks`. An empty block
    takes a few microseconds. Blocks may overlap and lie in each other.

    Entering it raises RuntimeError, with the remedy, if the process is not diagnosed: start it with
    `homefree run --diagnose -- python3 …`. Reading findings raises RuntimeError if another thread
    keeps the list busy. Threads: any; a block counts what all of them do. Fork: allowed; the child
    counts its own. Since 1.0.
    """
    return Diagnosis()
