from typing import Any, Literal, NamedTuple

class Installed(NamedTuple):
    python: Literal["off", "raw", "arena", "full"]
    numpy: Literal["off", "later", "installed", "context", "too old", "refused"]

class Owner(NamedTuple):
    kind: Literal["unknown", "heap", "pymalloc", "libc", "allocator", "stack", "static", "unmapped"]
    allocator: str | None
    object: str | None
    block: int | None
    size: int | None
    domain: Literal["raw", "mem", "object"] | None

class RouteEntry(NamedTuple):
    state: Literal["changed", "refused", "out of reach"]
    object: str
    function: str | None
    slot: int | None
    reason: str | None
    error: int

class RouteReport(NamedTuple):
    objects: int
    changed: int
    refused: int
    out_of_reach: int
    passes: int
    nanoseconds: int
    entries: tuple[RouteEntry, ...]

def install(python: Literal["arena", "full", "off"] = "arena", numpy: bool = True) -> Installed: ...
def uninstall() -> None: ...
def owner_of(obj_or_address: Any, /) -> Owner: ...
def stats() -> dict[str, int]: ...
def route_report() -> RouteReport: ...
def version() -> str: ...
