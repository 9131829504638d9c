from importlib.machinery import ModuleSpec
from os import PathLike
from types import ModuleType, TracebackType

class ImportHook:
    def covers(self, name: str) -> bool: ...
    def create(self, loader: object, spec: ModuleSpec) -> ModuleType: ...
    def remove(self) -> None: ...
    def __enter__(self) -> ImportHook: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

def load(
    path: str | PathLike[str],
    *,
    name: str | None = None,
    private: bool = False,
    adopt: bool = False,
) -> ModuleType: ...
