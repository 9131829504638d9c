from types import TracebackType
from typing import Literal, NamedTuple

class Place(NamedTuple):
    object: str | None
    function: str
    offset: int

class Finding(NamedTuple):
    rule: str
    severity: Literal["note", "warning", "error"]
    count: int
    bytes: int
    allocator: str | None
    allocator_object: str | None
    allocated: Place | None
    freed: Place | None
    first_freed: Place | None
    remedy: str

class Diagnosis:
    marks: dict[str, tuple[Finding, ...]]
    def __enter__(self) -> Diagnosis: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> Literal[False]: ...
    @property
    def findings(self) -> tuple[Finding, ...]: ...
    def mark(self, name: str) -> tuple[Finding, ...]: ...

def diagnose() -> Diagnosis: ...
