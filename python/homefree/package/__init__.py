# SPDX-License-Identifier: BSD-2-Clause
"""Packages: a model with its code, its data and its extension modules in one file.

    from homefree import package

    with package.Writer("model.hfp") as writer:
        writer.extern("numpy.**")
        writer.intern("app.**")
        writer.add_pickle("models", "model.pkl", model)

    reader = package.Reader("model.hfp")
    model = reader.load_pickle("models", "model.pkl")

The package holds the modules that the pickle names, and what they import, as its rules say. Its
code runs in modules of its own: two packages may hold modules of the same names, and neither meets
those that are installed. In an interpreter that serves one package, `reader.install()` gives its
modules their plain names.

A package is code: loading one runs it, so load those that you would install. What is checked is
that it is whole (each member has its SHA-256 in the manifest; give Reader the manifest's own as
`sha256=` and nothing can be exchanged), that nothing leads out of it, and that a pickle names only
what the package holds or has declared.
"""

# Imports go one way:
#
#   _writer       Writer; _imports reads imports from sources, and finds these
#   _reader       Reader, and Directory, which shows what is in it
#   _modules      finders and loaders; _extracted has extension modules' files
#   _pickles      what a pickle may do, and loading it
#   _store        bytes of members, from a zip or a directory
#   _manifest     _names, _package_errors

from ._package_errors import (
    DamagedPackage,
    MissingMember,
    MockUsed,
    PackageError,
    RefusedImport,
    RefusedPickle,
    UnresolvedImports,
)
from ._reader import Directory, Reader
from ._writer import Writer

__all__ = [
    "DamagedPackage",
    "Directory",
    "MissingMember",
    "MockUsed",
    "PackageError",
    "Reader",
    "RefusedImport",
    "RefusedPickle",
    "UnresolvedImports",
    "Writer",
]
