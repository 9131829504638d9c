"""Reader: a package that is opened, verified and loaded."""

from __future__ import annotations

import hashlib
import io
import mmap
import os

from . import _unpickle
from ._manifest import LIMIT, parse
from ._modules import Importer
from ._names import BUFFERS, MANIFEST, is_module, resource, shown, wrong_pattern
from ._package_errors import DamagedPackage, MissingMember, PackageError, error
from ._store import open_store
from ._tree import Directory, tree
from ._zip import Wrong

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from .._types import AnyPath, Patterns

_SMALL = 1 << 16


def _patterns(value):
    found = [value] if isinstance(value, str) else list(value)
    for one in found:
        why = wrong_pattern(one)
        if why:
            raise ValueError(f"{shown(one)}: {why}")
    return found


def in_main_interpreter():
    try:
        import _interpreters as interpreters  # 3.13 and later
    except ImportError:
        try:
            import _xxsubinterpreters as interpreters
        except ImportError:
            return True
    return interpreters.get_current() == interpreters.get_main()


class Reader:
    """Open a package.

    path: the file or folder that a Writer has made.
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
        try:
            self._store = open_store(self.path)
        except Wrong as wrong:
            raise self._damaged(wrong) from None
        try:
            self._manifest = self._open_manifest(sha256)
            self._compare_with_store()
            if private is None:
                private = not in_main_interpreter()
            extern = None if extern is None else _patterns(extern)
            self._importer = Importer(
                self.path, self._manifest, self._code, extern, bool(private), bool(adopt)
            )
            self._check_extern()
            if verify:
                self.verify()
        except BaseException:
            self._store.close()
            raise

    # ---- verification ----

    def _damaged(self, wrong, member=None):
        return error(
            DamagedPackage,
            str(wrong),
            "get or write the package again",
            package=self.path,
            member=member if wrong.name is None else shown(wrong.name),
        )

    def _open_manifest(self, wanted):
        if MANIFEST not in self._store.sizes:
            raise self._damaged(Wrong(f"it has no {MANIFEST}: it is no homefree package"))
        try:
            data = self._store.read(MANIFEST, LIMIT)
        except Wrong as wrong:
            raise self._damaged(wrong, MANIFEST) from None
        self.sha256: str = hashlib.sha256(data).hexdigest()
        if wanted is not None and self.sha256 != wanted:
            raise error(
                DamagedPackage,
                f"its manifest's hash is {self.sha256}, not {shown(wanted)}: it is another package",
                "get the one that was meant",
                package=self.path,
            )
        return parse(data, self.path)

    def _compare_with_store(self):
        members, sizes = self._manifest.members, self._store.sizes
        for name in sizes:
            if name not in members and name != MANIFEST:
                raise self._damaged(Wrong("the manifest does not have it", name))
        for name, member in members.items():
            if name not in sizes:
                raise self._damaged(Wrong("it is missing", name))
            if sizes[name] != member.size:
                raise self._damaged(
                    Wrong(f"it has {sizes[name]} bytes, and should have {member.size}", name)
                )

    def _check_extern(self):
        for name in self._manifest.extern:
            if not self._importer._allows(name):
                raise error(
                    PackageError,
                    f"it needs {name}, which extern= does not allow",
                    "allow it there, if that is meant",
                    package=self.path,
                )

    def _check_open(self):
        if not self._store.close.alive:
            raise error(
                PackageError, "the reader was closed", "open the package again", package=self.path
            )

    def _check(self, name, data):
        if self._verify is not False:
            self._compare(name, hashlib.sha256(data))

    def _compare(self, name, found):
        if found.hexdigest() != self._manifest.members[name].sha256:
            raise self._damaged(Wrong("its hash is not the manifest's: it was changed", name))

    def _read(self, name, data=None):
        """A member's bytes, verified; in `data`, if that is given."""
        self._check_open()
        try:
            if data is None:
                data = bytearray(self._manifest.members[name].size)
            self._store.read_into(name, data)
        except Wrong as wrong:
            raise self._damaged(wrong, name) from None
        except MemoryError:
            size = self._manifest.members[name].size
            raise error(
                PackageError,
                f"there is no memory for its {size} bytes",
                "free some, or open the package with mapped=True",
                package=self.path,
                member=name,
            ) from None
        self._check(name, data)
        return data

    def _code(self, name):
        """For the importer and its loaders."""
        self._member(name)
        return self._read(name)

    def verify(self) -> None:
        """Compare the hashes of all members with the manifest's. Raises DamagedPackage. Since
        1.0."""
        self._check_open()
        for name in self._manifest.members:
            found = hashlib.sha256()
            try:
                for piece in self._store.pieces(name):
                    found.update(piece)
            except Wrong as wrong:
                raise self._damaged(wrong, name) from None
            self._compare(name, found)

    # ---- what is in it ----

    def _member(self, name):
        found = self._manifest.members.get(name)
        if found is None:
            raise error(
                MissingMember,
                "the package has no such member",
                "print(reader.file_structure()) shows what it has",
                package=self.path,
                member=shown(name),
            )
        return found

    def _resource(self, package, name):
        if package and not is_module(package):
            raise ValueError(f"{shown(package)} is no name of a package")
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
        include = [include] if isinstance(include, str) else include
        exclude = [exclude] if isinstance(exclude, str) else exclude
        return tree(os.path.basename(self.path), self._manifest.members, include, exclude)

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
            self._importer._refuse(
                name, f"it has no module {shown(name)}", "modules() has those that it has"
            )
        return self._importer.module(name)

    def load_pickle(self, package: str, name: str) -> Any:
        """Load a pickle. Classes and functions are those of the package's modules, or of modules
        that it has as extern. Each call makes objects anew. Raises RefusedPickle, and what the
        others here raise. Since 1.0."""
        path = self._resource(package, name)
        member = self._manifest.members[path]
        if member.kind != "pickle":
            raise error(
                PackageError,
                f"it is no pickle, but of the kind {member.kind}",
                "use load_bytes() or import_module()",
                package=self.path,
                member=path,
            )
        data = self._read(path)
        return _unpickle.load(data, self._buffers(path, member), self._importer, self.path, path)

    def _buffers(self, path, member):
        if not member.buffers:
            return []
        name = path + BUFFERS
        view = self._map(name) if self._mapped else None
        if view is None:
            size = self._manifest.members[name].size
            # A mapping begins at a page, so every buffer is as aligned as in the file.
            room = mmap.mmap(-1, size) if size >= _SMALL else bytearray(size)
            view = memoryview(self._read(name, room))
        return [view[offset : offset + size] for offset, size in member.buffers]

    def _map(self, name):
        """A view of a member, or None if it cannot be mapped."""
        self._check_open()
        try:
            view = self._store.map(name)
        except Wrong as wrong:
            raise self._damaged(wrong, name) from None
        if view is not None and name not in self._verified:
            self._check(name, view)
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
