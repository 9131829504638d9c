# SPDX-License-Identifier: BSD-2-Clause
"""Writer: a package is collected in a directory beside its place, and takes that place when it is
whole.

Members are written as they are added, so that later changes of an object do not reach the package;
what they need is resolved at the end, when all rules are known.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.machinery
import io
import os
import pickle
import shutil
import stat
import struct
import tempfile
import zipfile

from . import _imports, _pickles
from ._manifest import ALIGNMENT, LIMIT, Manifest, module_of, modules
from ._names import (
    BUFFERS,
    MANIFEST,
    Rule,
    covered,
    decide,
    is_module,
    is_standard,
    listed,
    matches,
    parents,
    resource,
    several,
    shown,
    wrong_member,
)
from ._package_errors import PackageError, RefusedPickle, UnresolvedImports, Wrong, error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._types import AnyPath, Patterns

_CHUNK = 1 << 20
_LOCAL = 30  # bytes in front of a member's name in a zip
_ALIGN = 0xD935  # the extra field by which members of zips are aligned


def _chunks(path):
    with open(path, "rb") as file:
        yield from iter(lambda: file.read(_CHUNK), b"")


class Writer:
    """Write a package; it is there when the with statement ends, and not if that ends by an
    exception.

    path: the file, or with directory=True the directory, that is to be made. A file that is there
    already is replaced as a whole, and stays as it was if anything fails; a directory must not be
    there.

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

    def __init__(self, path: AnyPath, *, directory: bool = False) -> None:
        self.path: str = os.path.abspath(os.fsdecode(path))
        self.sha256: str | None = None
        self._is_directory = bool(directory)
        self._rules, self._whole = [], []
        self._members = {}  # as in the manifest
        self._modules = set()
        self._needed = {}  # (name, whether it may be an attribute): {who needs it: optional}
        self._pickles = []  # (member, Scan)
        self._extern, self._mocked = set(), set()
        self._check_place()
        if self._is_directory and os.path.lexists(self.path):
            self._refuse("it is a file already", "remove it, or give another path")
        parent, name = os.path.split(self.path)
        try:
            self._working = tempfile.mkdtemp(prefix=f".{name[:100]}-", dir=parent)
        except FileNotFoundError:
            self._refuse("its directory does not exist", "make it first")
        # What becomes the package has the mode that the user's umask gives it.
        self._directory = os.path.join(self._working, "package")
        os.mkdir(self._directory)

    def _refuse(self, why, remedy, member=None, kind=PackageError, cause=None):
        raise error(kind, why, remedy, package=self.path, member=member) from cause

    def _check_place(self):
        if os.path.isdir(self.path) and not os.path.islink(self.path):
            self._refuse("it is a directory already", "remove it, or give another path")

    def _check_open(self):
        if self._directory is None:
            self._refuse("it is closed", "use a new Writer")

    # ---- rules ----

    def _rule(self, action, include, exclude):
        self._rules.append(Rule(action, several(include), several(exclude)))

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

    def _check_new(self, name):
        self._check_open()
        why = "the name is the manifest's" if name == MANIFEST else wrong_member(name)
        if why:
            self._refuse(why, "choose another name", shown(name))
        if name in self._members:
            self._refuse("the package has it already", "choose another name, or add it once", name)

    def _add(self, name, kind, chunks, **more):
        self._check_new(name)
        path = os.path.join(self._directory, name)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            file = open(path, "xb")  # noqa: SIM115
        except (FileExistsError, IsADirectoryError, NotADirectoryError):
            self._refuse("the package has it already, as a directory", "choose another name", name)
        size, hashed = 0, hashlib.sha256()
        try:
            with file:
                for chunk in chunks:
                    file.write(chunk)
                    hashed.update(chunk)
                    size += len(chunk)
        except BaseException:
            os.unlink(path)
            raise
        self._members[name] = {"kind": kind, "size": size, "sha256": hashed.hexdigest(), **more}

    def add_bytes(self, package: str, name: str, data: bytes | bytearray | memoryview) -> None:
        """Add a resource, which Reader.load_bytes() gives, and importlib.resources to modules of
        the package. package: a dotted name, or "" for none. Since 1.0."""
        self._add(resource(package, name), "resource", [memoryview(data).cast("B")])

    def add_text(self, package: str, name: str, text: str) -> None:
        """Add a text, in UTF-8. Since 1.0."""
        self.add_bytes(package, name, text.encode("utf-8"))

    def add_file(self, package: str, name: str, file: AnyPath) -> None:
        """Add the content of a file. Since 1.0."""
        self._add(resource(package, name), "resource", _chunks(file))

    def add_pickle(self, package: str, name: str, value: object) -> None:
        """Add an object. The modules of its classes and functions are needed from now on. What
        gives its memory as buffers (NumPy's arrays) lies beside the pickle, aligned, so that
        readers can map it. Since 1.0."""
        member = resource(package, name)
        self._check_new(member)
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
        scan = _pickles.scanned(file.getvalue(), self.path, member)
        for module, attribute in scan.named:
            if module == "__main__" or module.startswith("<package "):
                where = module if module == "__main__" else "a package that a Reader has loaded"
                self._refuse(
                    f"{attribute} is defined in {where}, which cannot be put into a package",
                    "move it into a module that can be imported",
                    member,
                    RefusedPickle,
                )
        places, chunks, at = [], [], 0
        for raw in (buffer.raw() for buffer in buffers):
            padding = -at % ALIGNMENT
            places.append([at + padding, len(raw)])
            chunks += [bytes(padding), raw]
            at = sum(places[-1])
        if places:
            self._add(member + BUFFERS, "buffers", chunks)
        more = {"buffers": places} if places else {}
        self._add(member, "pickle", [file.getbuffer()], **more)
        self._pickles.append((member, scan))
        for module, _ in scan.named:
            if not is_standard(module):
                self._need(module, f"the pickle {member}")

    def _check_module(self, name):
        if not is_module(name):
            raise ValueError(f"{shown(name)} is no name of a module")
        self._check_open()

    def add_source(self, name: str, text: str, *, package: bool = False) -> None:
        """Add a module with this source. package: whether it is a package. Since 1.0."""
        self._check_module(name)
        if name in self._modules:
            self._refuse(f"the module {name} is in the package already", "add it once")
        path = name.replace(".", "/") + ("/__init__.py" if package else ".py")
        try:
            found = _imports.imports(text, name if package else name.rpartition(".")[0])
        except (SyntaxError, ValueError) as failed:
            self._refuse(f"it is no Python source: {failed}", "correct it", path, cause=failed)
        self._add(path, "source", [text.encode("utf-8")])
        self._add_name(name)
        for module, names, optional in found:
            self._need(module, name, optional)
            for attribute in names:
                # An attribute, or a module: that is known when it is known what becomes of its
                # package.
                self._need(f"{module}.{attribute}", name, optional, attribute=True)

    def _add_name(self, name):
        self._modules.add(name)
        for parent in parents(name):
            self._need(parent, name)

    def add_module(self, name: str) -> None:
        """Add a module with its packages, found as import finds it. Since 1.0."""
        self._check_module(name)
        if name in self._modules:
            return
        spec = _imports.find_spec(name)
        if spec is None:
            self._refuse(f"there is no module {name}", "check the name, or use add_source()")
        self._add_spec(name, spec)

    def _add_spec(self, name, spec, needed=True):
        """Returns whether it could be added. needed: it is refused if it cannot be."""
        is_package = spec.submodule_search_locations is not None
        if isinstance(spec.loader, importlib.machinery.ExtensionFileLoader):
            self.add_extension(name, spec.origin)
        elif is_package and (spec.loader is None or spec.origin is None):
            self._modules.add(name)  # a package without a file
        elif (text := _imports.source_of(name, spec)) is not None:
            self.add_source(name, text, package=is_package)
        elif needed:
            self._refuse(
                f"the module {name} has neither a source nor a file of an extension module",
                f'use add_source(), or extern("{name}")',
            )
        else:
            return False
        return True

    def add_package(self, name: str, *, data: Patterns = ()) -> None:
        """Add a package with all modules below it.

        data: patterns of the files to add as resources, as they lie in the package's directory,
        such as "**/*.json". Since 1.0."""
        self._check_open()
        data = listed(data)
        package = _imports.find_spec(name) if is_module(name) else None
        if package is None or package.submodule_search_locations is None:
            self._refuse(f"there is no package {shown(name)}", "use add_module() for a module")
        self._whole.append(f"{name}.**")
        waiting = [name]
        while waiting:
            module = waiting.pop()
            spec = _imports.find_spec(module)
            if spec is None or not (module in self._modules or self._add_spec(module, spec, False)):
                continue
            if spec.submodule_search_locations is not None:
                waiting += _imports.below(list(spec.submodule_search_locations), module)
        for directory in list(package.submodule_search_locations) if data else ():
            for path, directories, files in os.walk(directory):
                directories[:] = [one for one in directories if one != "__pycache__"]
                for file in (os.path.join(path, one) for one in files):
                    relative = os.path.relpath(file, directory)
                    if covered(data, relative) and not file.endswith((".py", ".pyc")):
                        self.add_file(name, relative, file)

    def add_extension(self, module: str, file: AnyPath) -> None:
        """Add an extension module. Add files for several Pythons under one name: the reader takes
        the one for its own. Libraries that it needs must be where it is loaded. Since 1.0."""
        self._check_module(module)
        ends = os.path.basename(os.fsdecode(file)).partition(".")[2]
        member = f"{module.replace('.', '/')}.{ends}"
        if module_of(member, "extension") != (module, False):
            self._refuse(f"{file} is not called as an extension module is", "give a .so file")
        self._add(member, "extension", _chunks(file))
        self._add_name(module)

    # ---- what is needed ----

    def _need(self, name, importer, optional=False, attribute=False):
        if name not in self._modules:
            known = self._needed.setdefault((name, attribute), {})
            known[importer] = known.get(importer, True) and optional

    def _resolve(self):
        """Find what is needed until nothing new is. Raises UnresolvedImports."""
        problems = {}
        done = {}  # whether it was optional for all that needed it then
        while True:
            now = {key: all(users.values()) for key, users in self._needed.items()}
            waiting = [key for key in now if done.get(key) is not now[key]]
            if not waiting:
                break
            for key in waiting:
                done[key] = now[key]
                why = self._resolve_one(*key, now[key])
                if why:
                    problems[key[0]] = why
        tops = {name.partition(".")[0] for name in self._modules}
        for name in self._extern:
            if name.partition(".")[0] in tops:
                # A module has one parent, so a top-level package is here or there as a whole.
                problems[name] = "it is extern, and its package is in the package"
        if problems:
            self._report(problems)

    def _resolve_one(self, name, attribute, optional):
        """Do what the rules say about a module. Returns why nothing can be done, or None."""
        if name in self._modules:
            return None
        action = decide(self._rules, name)
        if attribute:
            if _imports.find_spec(name) is None:
                return None  # no module, but something in one
            if name.rpartition(".")[0] not in self._modules:
                return "it is denied" if action == "deny" and not optional else None
        is_parent = any(one.startswith(name + ".") for one in self._modules)
        if is_parent and action != "deny":
            action = "intern"
        if action is None and any(matches(one, name) for one in self._whole):
            action = "intern"
        if action == "mock":
            self._mocked.add(name)
        elif action == "deny":
            return None if optional else "it is denied"
        elif action == "intern":
            spec = _imports.find_spec(name)
            if spec is not None:
                self._add_spec(name, spec)
            elif is_parent:
                self._modules.add(name)  # a package without a file
            else:
                return None if optional else "there is no such module"
        elif not is_standard(name) and not (optional and _imports.find_spec(name) is None):
            if action is None:
                return "no rule covers it"
            self._extern.add(name)
        return None

    def _report(self, problems):
        lines, found = [], {}
        for name, why in sorted(problems.items()):
            needed = [self._needed.get((name, attribute), {}) for attribute in (False, True)]
            users = sorted({*needed[0], *needed[1]})
            more = f" and {len(users) - 5} more" if len(users) > 5 else ""
            lines.append(f"{name}: {why}; needed by {', '.join(users[:5])}{more}")
            found[name] = (why, users)
        raised = error(
            UnresolvedImports,
            "it needs modules that it cannot have:\n  " + "\n  ".join(lines) + "\n",
            "say intern(), extern() or mock() for each, with patterns such as "
            f'"{min(problems).partition(".")[0]}.**"',
            package=self.path,
        )
        raised.modules = found
        raise raised

    # ---- the end ----

    def close(self) -> None:
        """Write the package, as the end of a with statement does. Raises UnresolvedImports,
        RefusedPickle if a pickle has what none may, or OSError; then nothing is written. Since
        1.0."""
        if self._directory is None:
            return
        try:
            self._resolve()
            for member, scan in self._pickles:
                for name in scan.named:
                    why = _pickles.why_not(self._rules, self._modules.__contains__, scan, name)
                    if why:
                        self._refuse(*why, member, RefusedPickle)
            try:
                modules(self._members)
            except Wrong as wrong:
                self._refuse(str(wrong), "add it once", wrong.name)
            data = Manifest(self._rules, self._extern, self._mocked, self._members).dump()
            if len(data) > LIMIT:
                self._refuse("it has too many members", "write several packages")
            with open(os.path.join(self._directory, MANIFEST), "xb") as file:
                file.write(data)
            if self._is_directory:
                self._finish_directory()
            else:
                self._finish_zip()
            self.sha256 = hashlib.sha256(data).hexdigest()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Forget what was added, and write nothing. Since 1.0."""
        if self._directory is not None:
            shutil.rmtree(self._working, ignore_errors=True)
        self._directory = None

    def _finish_directory(self):
        try:
            # Fails if something came there meanwhile; an empty directory is replaced.
            os.rename(self._directory, self.path)
        except OSError as failed:
            if failed.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
            self._refuse("it is there already", "remove it, or give another path")

    def _finish_zip(self):
        path = os.path.join(self._working, "zip")
        with open(path, "xb") as file:
            with zipfile.ZipFile(file, "w") as archive:
                for name in (MANIFEST, *sorted(self._members)):
                    self._zip(archive, file.tell(), name)
            file.flush()
            os.fsync(file.fileno())
        self._check_place()
        os.replace(path, self.path)

    def _zip(self, archive, at, name):
        path = os.path.join(self._directory, name)
        info = zipfile.ZipInfo(name)  # with the first date that a zip can have
        info.external_attr = (stat.S_IFREG | 0o644) << 16
        large = os.path.getsize(path) >= zipfile.ZIP64_LIMIT
        if self._members.get(name, {}).get("kind") == "buffers":
            # zipfile puts 20 bytes for a large member's size behind these.
            start = at + _LOCAL + len(name.encode("utf-8")) + 6 + 20 * large
            padding = -start % ALIGNMENT
            info.extra = struct.pack("<3H", _ALIGN, 2 + padding, ALIGNMENT) + bytes(padding)
        with archive.open(info, "w", force_zip64=large) as file:
            for chunk in _chunks(path):
                file.write(chunk)
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
