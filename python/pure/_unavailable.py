# SPDX-License-Identifier: BSD-2-Clause
"""What stands where homefree has functions that need Linux and C. State: none. Threads: any."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SYSTEMS = {"darwin": "macOS", "win32": "Windows", "linux": "this Linux"}

# What homefree/__init__.py has, and which of it are modules.
NAMES: "tuple[str, ...]" = ()  # @names@
MODULES: "tuple[str, ...]" = ()  # @modules@


class Unavailable(NotImplementedError, ImportError):
    """Raised by what homefree has on Linux with glibc alone. An ImportError where a module is
    imported. Since 1.0."""

    def __init__(self, what: str) -> None:
        super().__init__(f"homefree: {message(what)}")


def message(what: str) -> str:
    system = _SYSTEMS.get(sys.platform, sys.platform)
    return (
        f"{what} needs homefree's heap, which is for Linux with glibc; on {system} "
        "homefree is pure Python, with 'homefree inspect', 'homefree report', 'homefree doctor "
        "--log' and homefree.setuptools"
    )


def stand_in(name: str) -> "Any":
    """A function that raises, or a class of which there are no objects."""

    def unavailable(*_: object, **__: object) -> None:
        raise Unavailable(f"{name}()")

    if name[0].isupper():
        return type(name, (), {"__module__": __package__, "__init__": unavailable})
    unavailable.__name__ = unavailable.__qualname__ = name
    return unavailable
