# SPDX-License-Identifier: BSD-2-Clause
"""What goes wrong with packages. Each exception says where, why, and what to do.

Nothing here keeps state. The exceptions can be pickled, so they may cross interpreters and
processes.
"""

from __future__ import annotations

import pickle


class PackageError(Exception):
    """Something is wrong with a package. Every other exception here is one.

    package is the path of the package, member the name of the member that it is about; either is
    None where there is none. Since 1.0.
    """

    def __init__(
        self, message: str, *, package: str | None = None, member: str | None = None
    ) -> None:
        super().__init__(message)
        self.package: str | None = package
        self.member: str | None = member


class DamagedPackage(PackageError):
    """The file or directory is no package, or not what its manifest says: cut short, changed, made
    by another program, or made to do harm. Since 1.0."""


class MissingMember(PackageError, LookupError):
    """The package has no member of that name. Since 1.0."""


class RefusedPickle(PackageError, pickle.UnpicklingError):
    """A pickle is broken, names what its package does not hold and may not use, or cannot be
    loaded; then __cause__ is what was raised. Since 1.0."""


class RefusedImport(PackageError, ModuleNotFoundError):
    """Code of a package imports what is neither in it nor extern, or what is extern and not
    installed. Since 1.0."""


class UnresolvedImports(PackageError):
    """A package cannot be written, because it needs modules for which no rule says what to do.
    modules tells for each one who needs it, and why it cannot be had. Since 1.0."""

    modules: dict[str, tuple[str, list[str]]] = {}


class MockUsed(PackageError, NotImplementedError):
    """Code of a package uses something of a module that was mocked. Since 1.0."""


class Wrong(Exception):
    """Inside of this package: why a file cannot be believed, and the member that it is about."""

    def __init__(self, why, name=None, remedy="get or write the package again"):
        super().__init__(why)
        self.name, self.remedy = name, remedy


# They are known by the names that users have for them.
for _one in list(globals().values()):
    if isinstance(_one, type) and issubclass(_one, PackageError):
        _one.__module__ = __package__


def error(kind, why, remedy, *, package=None, member=None):
    """An exception of that kind, whose text has all parts in the order in which they help."""
    place = ": ".join(str(part) for part in (package, member) if part is not None)
    text = f"homefree: {place}: {why}; {remedy}" if place else f"homefree: {why}; {remedy}"
    return kind(text, package=package, member=member)
