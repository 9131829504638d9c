# SPDX-License-Identifier: BSD-2-Clause
"""Reader: a package that is opened, verified and loaded."""

from __future__ import annotations

import contextlib
import hashlib
import io
import mmap
import os

from . import _pickles
from ._manifest import LIMIT, parse
from ._modules import Importer
from ._names import BUFFERS, MANIFEST, covered, listed, resource, several, shown
from ._package_errors import DamagedPackage, MissingMember, PackageError, Wrong, error
from ._store import open_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from .._types import AnyPath, Patterns

_SMALL = 1 << 16


def in_main_interpreter():
    try:
        import _interpreters as interpreters  # 3.13 and later
    except ImportError:
        try:
            import _xxsubinterpreters as interpreters
        except ImportError:
            return True
    return interpreters.get_current() == interpreters.get_main()


class Directory:
    """A directory of a package, or a file in it. name: the last part of its path. is_dir: whether
    it is a directory. children: {name: Directory}. str() draws it. Since 1.0."""

    def __init__(self, name: str, paths: list[str] | None) -> None:
        self.name: str = name
        self.is_dir: bool = paths is not None
        below = {}
        for path in paths or ():
            first, _, rest = path.partition("/")
            below.setdefault(first, []).append(rest)
        self.children: dict[str, Directory] = {
            first: Directory(first, inner if inner != [""] else None)
            for first, inner in below.items()
        }

    def has_file(self, path: str) -> bool:
        """Whether there is a file with that path, which has slashes. Since 1.0."""
        first, _, rest = path.partition("/")
        found = self.children.get(first)
        return found is not None and (found.has_file(rest) if rest else not found.is_dir)

    def _lines(self, indent=""):
        yield self.name
        # Directories first, as listings have them.
        children = sorted(self.children.values(), key=lambda one: (not one.is_dir, one.name))
        for child in children:
            start, rest = ("└── ", "    ") if child is children[-1] else ("├── ", "│   ")
            lines = child._lines(indent + rest)
            yield f"{indent}{start}{next(lines)}"
            yield from lines

    def __str__(self) -> str:
        return "\n".join(self._lines()) + "\n"


class Reader:
    """Open a package.

    path: the file or directory that a Writer has made.
    verify: when hashes are compared. None: each member's whenever it is read. True: also all of
    them now. False: never, for a package that nobody can have changed since it was verified.
    mapped: map the buffers of pickles (arrays) in place of reading them. The pages are then shared
    by all processes and interpreters that map the package, until they are written to, which changes
    nothing in the file. Do not change the file while it is mapped: a process dies that uses a page
    which is gone.
    extern: the modules of the environment that this package may use, as patterns; a package that
    needs others is refused. None allows what the package declares.
    sha256: what the manifest must hash to (Writer.sha256, Reader.sha256). The manifest has the hash
    of every member, so this settles the whole content.
    private: load extension modules as homefree.load(private=True) does, with globals of their own
    in each interpreter. None does so everywhere but in the main interpreter. adopt: as there.

    Reads the manifest now, and members when they are used, from the file that it opened: another
    file that takes its place meanwhile changes nothing. Raises DamagedPackage, or OSError if the
    file cannot be opened. close(), or leaving a with statement, closes the file; modules and
    objects stay. Threads: any. Fork: the child may go on with it. Since 1.0."""

    def __init__(
        self,
        path: AnyPath,
        *,
        verify: bool | None = None,
        mapped: bool = False,
        extern: Patterns | None = None,
        sha256: str | None = None,
        private: bool | None = None,
        adopt: bool = False,
    ) -> None:
        self.path: str = os.path.abspath(os.fsdecode(path))
        self._verify, self._mapped = verify, mapped
        self._verified = set()
        with self._believing():
            self._store = open_store(self.path)
        try:
            with self._believing():
                self._manifest = self._open_manifest(sha256)
                if private is None:
                    private = not in_main_interpreter()
                extern = None if extern is None else several(extern)
                self._importer = Importer(
                    self.path, self._manifest, self._read, extern, bool(private), bool(adopt)
                )
            for name in self._manifest.extern:
                if not self._importer.allows(name):
                    why = f"it needs {name}, which extern= does not allow"
                    self._refuse(why, "allow it there, if that is meant")
            if verify:
                self.verify()
        except BaseException:
            self._store.close()
            raise

    # ---- verification ----

    def _refuse(self, why, remedy, member=None, kind=PackageError):
        raise error(kind, why, remedy, package=self.path, member=member) from None

    @contextlib.contextmanager
    def _believing(self):
        """What is found wrong in the block is a DamagedPackage."""
        try:
            yield
        except Wrong as wrong:
            member = None if wrong.name is None else shown(wrong.name)
            self._refuse(str(wrong), wrong.remedy, member, DamagedPackage)

    def _open_manifest(self, wanted):
        sizes = self._store.sizes
        if MANIFEST not in sizes:
            raise Wrong(f"it has no {MANIFEST}: it is no homefree package")
        if sizes[MANIFEST] > LIMIT:
            raise Wrong(f"it has {sizes[MANIFEST]} bytes, too many", MANIFEST)
        data = bytearray(sizes[MANIFEST])
        self._store.read_into(MANIFEST, data)
        self.sha256: str = hashlib.sha256(data).hexdigest()
        if wanted is not None and self.sha256 != wanted:
            raise Wrong(
                f"its manifest's hash is {self.sha256}, not {shown(wanted)}: it is another package",
                remedy="get the one that was meant",
            )
        manifest = parse(data)
        for name in sizes.keys() - manifest.members.keys() - {MANIFEST}:
            raise Wrong("the manifest does not have it", name)
        for name, member in manifest.members.items():
            if name not in sizes:
                raise Wrong("it is missing", name)
            if sizes[name] != member["size"]:
                raise Wrong(f"it has {sizes[name]} bytes, and should have {member['size']}", name)
        return manifest

    def _check_open(self):
        if not self._store.close.alive:
            self._refuse("the reader was closed", "open the package again")

    def _compare(self, name, found):
        if found.hexdigest() != self._manifest.members[name]["sha256"]:
            raise Wrong("its hash is not the manifest's: it was changed", name)

    def _read(self, name, data=None):
        """A member's bytes, verified; in `data`, if that is given."""
        self._check_open()
        size = self._member(name)["size"]
        with self._believing():
            try:
                data = bytearray(size) if data is None else data
                self._store.read_into(name, data)
            except MemoryError:
                remedy = "free some, or open the package with mapped=True"
                self._refuse(f"there is no memory for its {size} bytes", remedy, name)
            if self._verify is not False:
                self._compare(name, hashlib.sha256(data))
        return data

    def verify(self) -> None:
        """Compare the hashes of all members with the manifest's. Raises DamagedPackage. Since
        1.0."""
        self._check_open()
        with self._believing():
            for name in self._manifest.members:
                found = hashlib.sha256()
                for piece in self._store.pieces(name):
                    found.update(piece)
                self._compare(name, found)

    # ---- what is in it ----

    def _member(self, name):
        found = self._manifest.members.get(name)
        if found is None:
            remedy = "print(reader.file_structure()) shows what it has"
            self._refuse("the package has no such member", remedy, shown(name), MissingMember)
        return found

    def _resource(self, package, name):
        path = resource(package, name)
        self._member(path)
        return path

    def load_bytes(self, package: str, name: str) -> bytes:
        """The bytes of a resource, or of any member. Since 1.0."""
        return bytes(self._read(self._resource(package, name)))

    def load_text(
        self, package: str, name: str, encoding: str = "utf-8", errors: str = "strict"
    ) -> str:
        """The text of a resource, or of any member. Since 1.0."""
        return str(self._read(self._resource(package, name)), encoding, errors)

    def open(self, package: str, name: str) -> io.BytesIO:
        """A file object over the bytes of a resource. Since 1.0."""
        return io.BytesIO(self._read(self._resource(package, name)))

    def has(self, package: str, name: str) -> bool:
        """Whether there is such a resource. Since 1.0."""
        return resource(package, name) in self._manifest.members

    def modules(self) -> list[str]:
        """The names of the modules in the package, sorted. Since 1.0."""
        return sorted(self._importer.modules)

    def extern_modules(self) -> list[str]:
        """The names of the modules that it needs from the environment, without those of the
        standard library, sorted. Since 1.0."""
        return sorted(self._manifest.extern)

    def file_structure(self, include: Patterns = "**", exclude: Patterns = ()) -> Directory:
        """The members as a Directory, which print() draws. include, exclude: patterns of paths,
        such as "app/**" or "**/*.json". Since 1.0."""
        include, exclude = listed(include), listed(exclude)
        members = self._manifest.members
        paths = [one for one in members if covered(include, one) and not covered(exclude, one)]
        return Directory(os.path.basename(self.path), paths)

    # ---- loading ----

    def install(self) -> Reader:
        """Give the package's modules their plain names in this interpreter: from now on `import
        app` imports the package's. For interpreters that serve one package; modules that it lacks
        are imported as before. Raises PackageError if one of its top-level modules is imported
        already. Returns the reader. Since 1.0."""
        self._importer.install()
        return self

    def import_module(self, name: str) -> ModuleType:
        """Import a module of the package. Without install() it belongs to this reader alone, under
        the name `<package 1>.name`. Raises RefusedImport if it is not in the package. Since 1.0."""
        if not isinstance(name, str) or name not in self._importer.modules:
            self._importer.refuse(
                name, f"it has no module {shown(name)}", "modules() has those that it has"
            )
        return self._importer.module(name)

    def load_pickle(self, package: str, name: str) -> Any:
        """Load a pickle. Classes and functions are those of the package's modules, or of modules
        that it has as extern. Each call makes objects anew. Raises RefusedPickle, and what the
        others here raise. Since 1.0."""
        path = self._resource(package, name)
        member = self._manifest.members[path]
        if member["kind"] != "pickle":
            why = f"it is no pickle, but of the kind {member['kind']}"
            self._refuse(why, "use load_bytes() or import_module()", path)
        buffers = []
        if member.get("buffers"):
            view = self._view(path + BUFFERS)
            buffers = [view[at : at + size] for at, size in member["buffers"]]
        return _pickles.load(self._read(path), buffers, self._importer, self.path, path)

    def _view(self, name):
        """The buffers of a pickle, mapped if that is wanted."""
        size = self._manifest.members[name]["size"]
        if not self._mapped or not size:
            # A mapping begins at a page, so every buffer is as aligned as in the file.
            room = mmap.mmap(-1, size) if size >= _SMALL else bytearray(size)
            return memoryview(self._read(name, room))
        self._check_open()
        with self._believing():
            view = self._store.map(name)
            if name not in self._verified and self._verify is not False:
                self._compare(name, hashlib.sha256(view))
                self._verified.add(name)
        return view

    # ---- the end ----

    def close(self) -> None:
        """Close the file. Modules that were not imported yet, and members, cannot be had any more.
        Since 1.0."""
        self._importer.remove()
        self._store.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"homefree.package.Reader({self.path!r})"
