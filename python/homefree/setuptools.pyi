import os
from typing import Any

import setuptools
from setuptools.command.build_ext import build_ext as _build_ext

class Extension(setuptools.Extension):
    symbols: str | None
    version: str | None
    def __init__(
        self,
        name: str,
        sources: list[str],
        *args: Any,
        symbols: str | os.PathLike[str] | None = None,
        version: str | None = None,
        **kw: Any,
    ) -> None: ...
    @classmethod
    def of(
        cls,
        extension: setuptools.Extension,
        *,
        symbols: str | os.PathLike[str] | None = None,
        version: str | None = None,
    ) -> Extension: ...

class build_ext(_build_ext): ...
