"""Writer: a package is collected in a folder beside its place, and takes that place when it is
whole.

Members are written as they are added, so that later changes of an object do not reach the package;
what they need is resolved at the end, when all rules are known.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import pickle
import shutil
import stat
import tempfile
import zlib

from . import _sources, _standard, _unpickle
from ._dependencies import imports
from ._manifest import ALIGNMENT, LIMIT, Manifest, Member, module_of, modules
from ._names import (
    BUFFERS,
    MANIFEST,
    Rule,
    decide,
    is_module,
    matches,
    parents,
    resource,
    shown,
    wrong_member,
    wrong_pattern,
)
from ._package_errors import PackageError, RefusedPickle, UnresolvedImports, error
from ._zip import ZipWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._types import AnyPath, Patterns

_CHUNK = 1 << 20


class _Sink:
    """A file of the folder, and what is known of what was written to it."""

    def __init__(self, file):
        self._file = file
        self._hash = hashlib.sha256()
        self.size, self.crc = 0, 0

    def write(self, data):
        view = memoryview(data).cast("B")
        for start in range(0, len(view), _CHUNK):
            part = view[start : start + _CHUNK]
            self._file.write(part)
            self._hash.update(part)
            self.crc = zlib.crc32(part, self.crc)
        self.size += len(view)

    def sha256(self):
        return self._hash.hexdigest()


class Writer:
    """Write a package; it is there when the with statement ends, and not if that ends by an
    exception.

    path: the file, or with folder=True the folder, that is to be made. A file that is there already
    is replaced as a whole, and stays as it was if anything fails; a folder must not be there.

    Modules get into the package because they are added, because a pickle names them, or because
    a module in it imports them. Rules say what becomes of a module that is needed; the first one
    that covers it counts:

        intern(…)   its source, or its extension module, goes into the package
        extern(…)   it is imported where the package is loaded
        mock(…)     it can be imported, and raises MockUsed when it is used
        deny(…)     it must not be needed

    Modules of the standard library are extern without a rule, and so are only for imports: what a
    pickle may name of them is a short list. Modules below a package that add_package() was given
    are interned without a rule. Any other module raises UnresolvedImports, which says who needs it.

    Patterns are dotted names in which `*` stands for any characters of one part, and a part `**`
    for any number of parts: "numpy.**" is numpy and all below it.

    The same content makes the same file, whatever the order in which it is added. sha256 is the
    hash of the manifest, once the package is written. Threads: one at a time. Fork: a child must
    not go on with it. Since 1.0.
    """

    def __init__(self, path: AnyPath, *, folder: bool = False) -> None:
        self.path: str = os.path.abspath(os.fsdecode(path))
        self.sha256: str | None = None
        self._is_folder = bool(folder)
        self._rules, self._whole = [], []
        self._members, self._crcs = {}, {}
        self._modules = {}  # name: whether its imports were looked at
        self._needed = {}  # name: who needs it, in the order in which that was found
        self._pickles = []  # (member, Scan)
        self._extern, self._mocked = set(), set()
        parent = os.path.dirname(self.path)
        if os.path.isdir(self.path) and not os.path.islink(self.path):
            self._refuse("it is a folder already", "remove it, or give another path")
        if self._is_folder and os.path.lexists(self.path):
            self._refuse("it is a file already", "remove it, or give another path")
        prefix = f".{os.path.basename(self.path)[:100]}-"
        try:
            self._working = tempfile.mkdtemp(prefix=prefix, dir=parent)
        except FileNotFoundError:
            raise error(
                PackageError, "its folder does not exist", "make it first", package=self.path
            ) from None

        # What becomes the package has the mode that the user's umask gives it.
        self._folder = os.path.join(self._working, "package")
        os.mkdir(self._folder)

    def _refuse(self, why, remedy, member=None, kind=PackageError, cause=None):
        raise error(kind, why, remedy, package=self.path, member=member) from cause

    def _open(self):
        if self._folder is None:
            self._refuse("it is closed", "use a new Writer")

    # ---- rules ----

    def _rule(self, action, include, exclude):
        include = [include] if isinstance(include, str) else list(include)
        exclude = [exclude] if isinstance(exclude, str) else list(exclude)
        for pattern in (*include, *exclude):
            why = wrong_pattern(pattern)
            if why:
                raise ValueError(f"{shown(pattern)}: {why}")
        self._rules.append(Rule(action, include, exclude))

    def intern(self, include: Patterns, *, exclude: Patterns = ()) -> None:
        """Put the modules of these patterns into the package if they are needed. Since 1.0."""
        self._rule("intern", include, exclude)

    def extern(self, include: Patterns, *, exclude: Patterns = ()) -> None:
        """Take the modules of these patterns from where the package is loaded. A module of the
        standard library whose name a pattern begins with is then open to pickles, too. Since
        1.0."""
        self._rule("extern", include, exclude)

    def mock(self, include: Patterns, *, exclude: Patterns = ()) -> None:
        """Let the modules of these patterns be imported without being there. Since 1.0."""
        self._rule("mock", include, exclude)

    def deny(self, include: Patterns, *, exclude: Patterns = ()) -> None:
        """Refuse to write a package that needs modules of these patterns. Since 1.0."""
        self._rule("deny", include, exclude)

    # ---- members ----

    @contextlib.contextmanager
    def _member(self, name, kind):
        """A sink for a new member."""
        self._open()
        why = wrong_member(name)
        if why or name == MANIFEST:
            self._refuse(why or "the name is the manifest's", "choose another name", shown(name))
        path = os.path.join(self._folder, name)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except (FileExistsError, IsADirectoryError, NotADirectoryError):
            self._refuse("the package has it already", "choose another name, or add it once", name)
        try:
            with os.fdopen(fd, "wb") as file:
                sink = _Sink(file)
                yield sink
        except BaseException:
            os.unlink(path)
            raise
        self._members[name] = Member(kind, sink.size, sink.sha256())
        self._crcs[name] = sink.crc

    def _resource(self, package, name):
        if package and not is_module(package):
            raise ValueError(f"{shown(package)} is no name of a package")
        if not isinstance(name, str):
            raise TypeError(f"the name must be a str, not {type(name).__name__}")
        return resource(package, name)

    def add_bytes(self, package: str, name: str, data: bytes | bytearray | memoryview) -> None:
        """Add a resource, which Reader.load_bytes() gives, and importlib.resources to modules of
        the package. package: a dotted name, or "" for none. Since 1.0."""
        with self._member(self._resource(package, name), "resource") as sink:
            sink.write(data)

    def add_text(self, package: str, name: str, text: str) -> None:
        """Add a text, in UTF-8. Since 1.0."""
        self.add_bytes(package, name, text.encode("utf-8"))

    def add_file(self, package: str, name: str, file: AnyPath) -> None:
        """Add the content of a file. Since 1.0."""
        with (
            open(file, "rb") as source,
            self._member(self._resource(package, name), "resource") as sink,
        ):
            for chunk in iter(lambda: source.read(_CHUNK), b""):
                sink.write(chunk)

    def add_pickle(self, package: str, name: str, value: object) -> None:
        """Add an object. The modules of its classes and functions are needed from now on. What
        gives its memory as buffers (NumPy's arrays) lies beside the pickle, aligned, so that
        readers can map it. Since 1.0."""
        member = self._resource(package, name)
        self._open()
        file, buffers = io.BytesIO(), []
        try:
            pickle.Pickler(file, 5, buffer_callback=buffers.append).dump(value)
        except RecursionError as failed:
            self._refuse("the object is nested too deeply", "flatten it", member, cause=failed)
        except (pickle.PicklingError, TypeError, AttributeError) as failed:
            self._refuse(
                f"the object cannot be pickled: {failed}",
                "leave that part out, or give its class __reduce__() or __getstate__()",
                member,
                cause=failed,
            )
        scan = _unpickle.scanned(file.getbuffer(), self.path, member)
        for module, attribute in scan.named:
            self._check_named(member, module, attribute)
        places = []
        if buffers:
            with self._member(member + BUFFERS, "buffers") as sink:
                for buffer in buffers:
                    sink.write(bytes(-sink.size % ALIGNMENT))
                    with buffer.raw() as raw:
                        places.append((sink.size, len(raw)))
                        sink.write(raw)
                    buffer.release()
        try:
            with self._member(member, "pickle") as sink:
                sink.write(file.getbuffer())
        except PackageError:
            if buffers:
                self._forget(member + BUFFERS)
            raise
        self._members[member].buffers = places
        self._pickles.append((member, scan))
        for module, _ in scan.named:
            if not _standard.is_standard(module):
                self._need(module, f"the pickle {member}")

    def _forget(self, member):
        os.unlink(os.path.join(self._folder, member))
        del self._members[member], self._crcs[member]

    def _check_named(self, member, module, attribute):
        if module == "__main__" or module.startswith("<package "):
            where = "__main__" if module == "__main__" else "a package that a Reader has loaded"
            self._refuse(
                f"{attribute} is defined in {where}, which cannot be put into a package",
                "move it into a module that can be imported",
                member,
                kind=RefusedPickle,
            )

    def add_source(self, name: str, text: str, *, package: bool = False) -> None:
        """Add a module with this source. package: whether it is a package. Since 1.0."""
        if not is_module(name):
            raise ValueError(f"{shown(name)} is no name of a module")
        self._open()
        if name in self._modules:
            self._refuse(f"the module {name} is in the package already", "add it once")
        path = name.replace(".", "/")
        path += "/__init__.py" if package else ".py"
        try:
            found = imports(text, name if package else name.rpartition(".")[0])
        except (SyntaxError, ValueError) as failed:
            self._refuse(f"it is no Python source: {failed}", "correct it", path, cause=failed)
        with self._member(path, "source") as sink:
            sink.write(text.encode("utf-8"))
        self._modules[name] = True
        for parent in parents(name):
            self._need(parent, name)
        for one in found:
            self._need(one.module, name, one.optional)
            for attribute in one.names:
                # An attribute, or a module: that is known when it is known what becomes of its
                # package.
                self._need(f"{one.module}.{attribute}", name, one.optional, attribute=True)

    def add_module(self, name: str) -> None:
        """Add a module with its packages, found as import finds it. Since 1.0."""
        if not is_module(name):
            raise ValueError(f"{shown(name)} is no name of a module")
        self._open()
        if name in self._modules:
            return
        found = _sources.find(name)
        if found is None:
            self._refuse(f"there is no module {name}", "check the name, or use add_source()")
        self._add_found(name, found)

    def _add_found(self, name, found):
        if found.kind == "source":
            self.add_source(name, found.text, package=found.folders is not None)
        elif found.kind == "extension":
            self.add_extension(name, found.file)
        elif found.kind == "namespace":
            self._modules[name] = True
        else:
            self._refuse(
                f"the module {name} has neither a source nor a file of an extension module",
                f'use add_source(), or extern("{name}")',
            )

    def add_package(self, name: str, *, data: Patterns = ()) -> None:
        """Add a package with all modules below it.

        data: patterns of the files to add as resources, as they lie in the package's folder, such
        as "**/*.json". Since 1.0."""
        self._open()
        data = [data] if isinstance(data, str) else list(data)
        found = _sources.find(name) if is_module(name) else None
        if found is None or found.folders is None:
            self._refuse(f"there is no package {shown(name)}", "use add_module() for a module")
        self._whole.append(name)
        waiting = [name]
        while waiting:
            module = waiting.pop()
            found = _sources.find(module)
            if found is None or found.kind == "other":
                continue
            if module not in self._modules:
                self._add_found(module, found)
            if found.folders is not None:
                waiting += _sources.below(found.folders, module)
        if data:
            for folder in _sources.find(name).folders:
                self._add_data(name, folder, data)

    def _add_data(self, name, folder, patterns):
        from ._tree import covered

        for path, folders, files in os.walk(folder):
            folders[:] = sorted(one for one in folders if one != "__pycache__")
            below = os.path.relpath(path, folder).replace(os.sep, "/")
            for file in sorted(files):
                relative = file if below == "." else f"{below}/{file}"
                if covered(patterns, relative) and not file.endswith((".py", ".pyc")):
                    self.add_file(name, relative, os.path.join(path, file))

    def add_extension(self, module: str, file: AnyPath) -> None:
        """Add an extension module. Add files for several Pythons under one name: the reader takes
        the one for its own. Libraries that it needs must be where it is loaded. Since 1.0."""
        if not is_module(module):
            raise ValueError(f"{shown(module)} is no name of a module")
        base = os.path.basename(os.fsdecode(file))
        member = resource(module.rpartition(".")[0], module.rpartition(".")[2])
        member += base[len(base.partition(".")[0]) :]
        if module_of(member, "extension") != (module, False):
            self._refuse(f"{file} is not called as an extension module is", "give a .so file")
        with open(file, "rb") as source, self._member(member, "extension") as sink:
            for chunk in iter(lambda: source.read(_CHUNK), b""):
                sink.write(chunk)
        self._modules[module] = True
        for parent in parents(module):
            self._need(parent, module)

    # ---- what is needed ----

    def _need(self, name, importer, optional=False, attribute=False):
        if name in self._modules:
            return
        key = (name, attribute)
        known = self._needed.setdefault(key, {})
        known[importer] = known.get(importer, True) and optional

    def _resolve(self):
        """Find what is needed until nothing new is. Raises UnresolvedImports."""
        problems = {}
        done = {}  # whether it was optional for all that needed it then
        while True:
            waiting = [
                key
                for key, users in self._needed.items()
                if key not in done or (done[key] and not all(users.values()))
            ]
            if not waiting:
                break
            for key in waiting:
                name, attribute = key
                done[key] = all(self._needed[key].values())
                if name not in self._modules:
                    why = self._resolve_one(name, attribute, done[key])
                    if why:
                        problems[name] = why
        tops = {name.partition(".")[0] for name in self._modules}
        for name in self._extern:
            if name.partition(".")[0] in tops:
                # A module has one parent, so a top-level package is here or there as a whole.
                problems[name] = "it is extern, and its package is in the package"
        if problems:
            self._report({name: (why, self._users(name)) for name, why in problems.items()})

    def _users(self, name):
        return sorted({*self._needed.get((name, False), {}), *self._needed.get((name, True), {})})

    def _is_parent(self, name):
        return any(one.startswith(name + ".") for one in self._modules)

    def _resolve_one(self, name, attribute, optional):
        """Do what the rules say about a module. Returns why nothing can be done, or None."""
        rule = decide(self._rules, name)
        action = rule.action if rule is not None else None
        if attribute:
            if _sources.find_spec(name) is None:
                return None  # no module, but something in one
            if name.rpartition(".")[0] not in self._modules:
                return "it is denied" if action == "deny" and not optional else None
        if action != "deny" and self._is_parent(name):
            action = "intern"
        if action is None and any(matches(f"{one}.**", name) for one in self._whole):
            action = "intern"
        if action == "mock":
            self._mocked.add(name)
        elif action == "deny":
            return None if optional else "it is denied"
        elif action == "extern":
            if not _standard.is_standard(name) and (
                not optional or _sources.find_spec(name) is not None
            ):
                self._extern.add(name)
        elif action == "intern":
            found = _sources.find(name)
            if found is not None:
                self._add_found(name, found)
            elif self._is_parent(name):
                self._modules[name] = True  # a package without a file
            else:
                return None if optional else "there is no such module"
        elif not _standard.is_standard(name):
            if optional and _sources.find_spec(name) is None:
                return None
            return "no rule covers it"
        return None

    def _report(self, problems):
        lines = []
        for name, (why, users) in sorted(problems.items()):
            more = f" and {len(users) - 5} more" if len(users) > 5 else ""
            lines.append(f"{name}: {why}; needed by {', '.join(users[:5])}{more}")
        found = error(
            UnresolvedImports,
            "it needs modules that it cannot have:\n  " + "\n  ".join(lines) + "\n",
            "say intern(), extern() or mock() for each, with patterns such as "
            f'"{min(problems).partition(".")[0]}.**"',
            package=self.path,
        )
        found.modules = problems
        raise found

    def _check_pickles(self):
        for member, scan in self._pickles:
            for name in scan.named:
                why = _unpickle.why_not(self._rules, self._modules.__contains__, scan, name)
                if why:
                    self._refuse(*why, member, kind=RefusedPickle)

    # ---- the end ----

    def close(self) -> None:
        """Write the package, as the end of a with statement does. Raises UnresolvedImports,
        RefusedPickle if a pickle has what none may, or OSError; then nothing is written. Since
        1.0."""
        if self._folder is None:
            return
        try:
            self._resolve()
            self._check_pickles()
            manifest = Manifest(self._rules, self._extern, self._mocked, self._members)
            modules(manifest, self.path)
            data = manifest.dump()
            if len(data) > LIMIT:
                self._refuse("it has too many members", "write several packages")
            if self._is_folder:
                self._finish_folder(data)
            else:
                self._finish_zip(data)
            self.sha256 = hashlib.sha256(data).hexdigest()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Forget what was added, and write nothing. Since 1.0."""
        if self._folder is not None:
            shutil.rmtree(self._working, ignore_errors=True)
        self._folder = None

    def _finish_folder(self, data):
        with open(os.path.join(self._folder, MANIFEST), "wb") as file:
            file.write(data)
        try:
            # Fails if something came there meanwhile; an empty folder is replaced.
            os.rename(self._folder, self.path)
        except OSError as failed:
            if failed.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
            self._refuse("it is there already", "remove it, or give another path")

    def _finish_zip(self, data):
        path = os.path.join(self._working, "zip")
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with os.fdopen(fd, "wb") as file:
            writer = ZipWriter(file)
            writer.add(MANIFEST, [data], len(data), zlib.crc32(data))
            for name, member in sorted(self._members.items()):
                alignment = ALIGNMENT if member.kind == "buffers" else 1
                chunks = self._chunks(name)
                writer.add(name, chunks, member.size, self._crcs[name], alignment)
            writer.finish()
            file.flush()
            os.fsync(file.fileno())
        if stat.S_ISDIR(_mode(self.path)):
            self._refuse("it is a folder already", "remove it, or give another path")
        os.replace(path, self.path)

    def _chunks(self, name):
        path = os.path.join(self._folder, name)
        with open(path, "rb") as file:
            yield from iter(lambda: file.read(_CHUNK), b"")
        os.unlink(path)  # so that the package is not there twice

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def __repr__(self) -> str:
        return f"homefree.package.Writer({self.path!r})"


def _mode(path):
    try:
        return os.lstat(path).st_mode
    except FileNotFoundError:
        return 0
