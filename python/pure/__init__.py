# SPDX-License-Identifier: BSD-2-Clause
"""homefree in pure Python, for systems on which it has no heap: macOS, Windows, and what else is no
Linux with glibc. A project can depend on it everywhere.

What works: `homefree inspect` of objects for macOS and Windows, `homefree report` of documents,
`homefree doctor --log`, and homefree.setuptools, whose Extension is setuptools' own. The rest
raises Unavailable, which says so in a line.

python/backend/pure_wheel.py makes the package of this directory and of the parts of
python/homefree/ that need no C; the names of what is missing are those of homefree/__init__.py.
"""

from ._unavailable import MODULES, NAMES, Unavailable, stand_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Unavailable", *NAMES]
__version__: str = "@version@"


def __getattr__(name: str) -> "Any":
    if name in MODULES:
        raise Unavailable(name)
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = stand_in(name)
    return found


def __dir__() -> "list[str]":
    return sorted({*globals(), *NAMES})
