from collections.abc import Iterable, Sequence
from os import PathLike
from types import ModuleType
from typing import TypeAlias

_Path: TypeAlias = str | bytes | PathLike[str] | PathLike[bytes]

class BuildError(ImportError): ...

def load(
    name: str,
    sources: _Path | Iterable[_Path] = (),
    *,
    extra_cflags: Sequence[str] | None = None,
    extra_cxxflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: _Path | Iterable[_Path] | None = None,
    build_directory: _Path | None = None,
    verbose: bool | None = None,
    with_cuda: bool | None = None,
    torch: bool = False,
    prebuilt: _Path | ModuleType | None = None,
    reload: bool = False,
) -> ModuleType: ...
def build(
    name: str,
    sources: _Path | Iterable[_Path],
    output: _Path,
    *,
    extra_cflags: Sequence[str] | None = None,
    extra_cxxflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: _Path | Iterable[_Path] | None = None,
    build_directory: _Path | None = None,
    verbose: bool | None = None,
    with_cuda: bool | None = None,
    torch: bool = False,
) -> str: ...
