from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Future
from concurrent.futures import Executor as _Executor
from os import PathLike
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")

class BrokenInterpreters(BrokenExecutor): ...
class RemoteError(Exception): ...

class Parcel(Generic[_T]):
    def open(self) -> _T: ...

class Shared:
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __len__(self) -> int: ...

class Executor(_Executor):
    def __init__(
        self,
        max_workers: int | None = None,
        *,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        interpreters: Iterable[Any] | None = None,
        name_crashes: bool = False,
    ) -> None: ...
    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]: ...
    def map(
        self,
        fn: Callable[..., _T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        **keywords: Any,
    ) -> Iterator[_T]: ...
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None: ...

class Replica(Generic[_T]):
    def __init__(self, value: _T, executor: Executor | None = None) -> None: ...
    @classmethod
    def from_package(
        cls,
        path: str | bytes | PathLike[str] | PathLike[bytes],
        package: str,
        name: str,
        executor: Executor | None = None,
    ) -> Replica[Any]: ...
    def __call__(self, *arguments: Any, **keywords: Any) -> Any: ...
    def submit(self, *arguments: Any, **keywords: Any) -> Future[Any]: ...

def engine() -> str: ...
def prepare() -> None: ...
def share(value: _T) -> Parcel[_T]: ...
