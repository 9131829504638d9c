# SPDX-License-Identifier: BSD-2-Clause
"""homefree for setup.py where homefree is pure Python: Extension is setuptools' own, so that one
setup.py serves every system.

Threads: as setuptools. Since 1.0.
"""

from __future__ import annotations

import setuptools
from setuptools.command.build_ext import build_ext

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any

__all__ = ["Extension", "build_ext"]


class Extension(setuptools.Extension):
    """An extension module without homefree. Takes the arguments of homefree's Extension on Linux;
    symbols and version are for its linker, and are not used here. The compiler gets
    HOMEFREE_MODULE_NAME, as there. Since 1.0."""

    def __init__(
        self,
        name: str,
        sources: list[str],
        *args: Any,
        symbols: str | os.PathLike[str] | None = None,
        version: str | None = None,
        **kw: Any,
    ) -> None:
        super().__init__(name, sources, *args, **kw)
        _name_module(self)

    @classmethod
    def of(
        cls,
        extension: setuptools.Extension,
        *,
        symbols: str | os.PathLike[str] | None = None,
        version: str | None = None,
    ) -> setuptools.Extension:
        """The extension itself. Raises TypeError for anything that is no Extension of setuptools.
        Since 1.0."""
        if not isinstance(extension, setuptools.Extension):
            raise TypeError(
                "homefree: Extension.of() takes one Extension of setuptools, not "
                f"{extension!r:.100}"
            )
        return extension


def _name_module(extension):
    if not any(macro[0] == "HOMEFREE_MODULE_NAME" for macro in extension.define_macros):
        module = extension.name.rpartition(".")[2]
        extension.define_macros = [*extension.define_macros, ("HOMEFREE_MODULE_NAME", module)]
