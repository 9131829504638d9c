# SPDX-License-Identifier: BSD-2-Clause
"""The modules of a package: finding, loading, and what they may import.

A module of a package gets builtins of its own, whose __import__ asks the package first, then its
rules, and then imports what is extern as anybody does. So code of a package meets nothing of the
environment that was not declared, and the environment nothing of the package.

In a private namespace the module `app.model` stands in sys.modules as `<package 1>.app.model`;
installed, as `app.model`. Importer keeps the state of one reader. Threads: any; importlib's locks
order the imports, _lock the rest. Fork: the child keeps it all.
"""

import builtins
import importlib
import importlib.machinery
import io
import itertools
import linecache
import os
import sys
import threading
import types

from . import _pickles
from ._manifest import modules
from ._names import decide, is_standard, matches, parents, shown
from ._package_errors import DamagedPackage, MockUsed, PackageError, RefusedImport, error

_numbers = itertools.count(1)


class Importer:
    """read(member) gives a member's bytes, with its hash verified. extern: patterns, or None."""

    def __init__(self, package, manifest, read, extern, private, adopt):
        self.package, self.manifest, self.read = package, manifest, read
        self.modules = modules(manifest.members)
        self._extern, self._private, self._adopt = extern, private, adopt
        self._tops = {name.partition(".")[0] for name in self.modules}
        self._mocked = {
            part for name in manifest.mocked for part in (*parents(name), name)
        } - self.modules.keys()
        self._permitted = {}  # names of modules that code may import: whether from the namespace
        self._directory = None
        self._files = {}
        self._lock = threading.RLock()
        self._present = False
        self.prefix = f"<package {next(_numbers)}>."
        self.builtins = {**vars(builtins), "__import__": self._import}

    # ---- becoming part of the interpreter ----

    def _appear(self):
        """Make the namespace, when something is first imported from it."""
        with self._lock:
            if self._present:
                return
            if self.prefix:
                name = self.prefix[:-1]
                root = types.ModuleType(name, f"The modules of {self.package}.")
                root.__path__ = []
                root.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
                sys.modules[name] = root
            sys.meta_path.insert(0, self)
            self._present = True

    def install(self):
        with self._lock:
            if not self.prefix:
                return
            there = sorted(name for name in sys.modules if name.partition(".")[0] in self._tops)
            if self._present:
                why = "its modules were imported under private names already"
                remedy = "call install() before anything else that imports"
            elif there:
                why = f"the interpreter has a module {there[0]!r} already"
                remedy = (
                    "call install() before it is imported, in an interpreter of its own, or use "
                    "import_module(), which gives the package's modules private names"
                )
            else:
                self.prefix = ""
                return self._appear()
        raise error(PackageError, why, remedy, package=self.package)

    def remove(self):
        with self._lock:
            if self._present and self in sys.meta_path:
                sys.meta_path.remove(self)

    # ---- what may be imported ----

    def refuse(self, name, why, remedy):
        found = error(RefusedImport, why, remedy, package=self.package)
        found.name = name
        raise found from None

    def _refuse_missing(self, fullname, name):
        self.refuse(fullname, f"it has no module {name}", f'have the writer intern("{name}")')

    def allows(self, name):
        """Whether the reader has not narrowed what is extern so that this module is out."""
        return self._extern is None or any(matches(one, name) for one in self._extern)

    def _own(self, name):
        """Whether code that imports this name gets it from the package. Raises RefusedImport if it
        gets it from nowhere."""
        if name in self.modules or name in self._mocked:
            return True
        action, text = decide(self.manifest.rules, name), shown(name)
        if action == "mock":
            return True
        if name.partition(".")[0] in self._tops:
            self._refuse_missing(name, text)
        if action == "deny":
            why, remedy = "is denied", "do without it"
        elif is_standard(name):
            return False
        elif action != "extern":
            why = "is neither in the package nor extern"
            remedy = f'have the writer add it: intern("{text}") or extern("{text}")'
        elif not self.allows(name):
            why = "extern= of this reader does not allow"
            remedy = "allow it there, if that is meant"
        else:
            return False
        return self.refuse(name, f"its code imports {text}, which {why}", remedy)

    def _import(self, name, globals=None, locals=None, fromlist=(), level=0):
        plain = builtins.__import__
        if level or not isinstance(name, str):
            return plain(name, globals, locals, fromlist, level)
        own = self._permitted.get(name)
        if own is None:
            own = self._permitted[name] = self._own(name)
        if own:
            found = plain(self.prefix + name, globals, locals, fromlist, 0)
            return found if fromlist else sys.modules[self.prefix + name.partition(".")[0]]
        try:
            return plain(name, globals, locals, fromlist, 0)
        except ModuleNotFoundError as failed:
            missing = failed.name
            if missing is None or is_standard(name) or not f"{name}.".startswith(f"{missing}."):
                raise
            return self.refuse(name, f"it needs {missing}, which is not installed", "install it")

    def module(self, name):
        """A module for a reader or a pickle."""
        if name in self.modules:
            self._appear()
            return importlib.import_module(self.prefix + name)
        return importlib.import_module(name)

    def why_not_named(self, module, name, scan=None):
        """(why, remedy) if a pickle must not name this, or None."""
        is_own = self.modules.__contains__
        why = _pickles.why_not(self.manifest.rules, is_own, scan, (module, name))
        standard = is_standard(module) and _pickles.may_name(module, name)
        if why is None and not (is_own(module) or standard or self.allows(module)):
            return (
                f"it names {shown(f'{module}.{name}')}, and extern= of this reader does not allow "
                "that",
                "allow it there, if that is meant",
            )
        return why

    # ---- finding and loading ----

    def find_spec(self, fullname, path=None, target=None):
        """For importlib."""
        if not fullname.startswith(self.prefix):
            return None
        make = importlib.machinery.ModuleSpec
        name = fullname[len(self.prefix) :]
        module = self.modules.get(name)
        if module is None:
            is_ours = self.prefix or name.partition(".")[0] in self._tops
            if name in self._mocked or decide(self.manifest.rules, name) == "mock":
                return make(fullname, MockLoader(name), is_package=True)
            if is_ours:
                self._refuse_missing(fullname, shown(name))
            return None
        if not module.members:
            return make(fullname, PackageLoader(self, name, None), is_package=True)
        if module.members[0].endswith(".so"):
            from ..loading import _load

            path = self._file(name, module)
            loader = _load._Loader(fullname, path, private=self._private, adopt=self._adopt)
        else:
            loader = PackageLoader(self, name, module.members[0])
            path = loader.path
        spec = make(fullname, loader, origin=path, is_package=module.is_package)
        spec.has_location = True
        return spec

    def _file(self, name, module):
        """The path of an extension module's file for this Python."""
        from .._importing import suffixes
        from ._extracted import Directory

        ends = {f".{one.rpartition('/')[2].partition('.')[2]}": one for one in module.members}
        with self._lock:
            if os.path.exists(self._files.get(name, "")):
                return self._files[name]
            for end in suffixes():
                if end in ends:
                    self._directory = self._directory or Directory(self.package)
                    member = ends[end]
                    self._files[name] = self._directory.place(member, self.read(member))
                    return self._files[name]
        names = ", ".join(member.rpartition("/")[2] for member in module.members)
        return self.refuse(
            name,
            f"the extension module {name} is for other Pythons ({names})",
            "use one of these, or add a file for this one when the package is written",
        )


class PackageLoader:
    """Loads a module from its source, or a package that has none."""

    def __init__(self, importer, name, member):
        self._importer, self._name, self._member = importer, name, member
        self.path = os.path.join(importer.package, member or name)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        """For importlib."""
        # Before the code runs: what it defines refers to these.
        module.__dict__["__builtins__"] = self._importer.builtins
        if self._member is not None:
            source = self.get_source()
            lines = source.splitlines(keepends=True)
            linecache.cache[self.path] = (len(source), None, lines, self.path)
            exec(compile(source, self.path, "exec", dont_inherit=True), module.__dict__)

    def get_source(self, fullname=None):
        try:
            return str(self._importer.read(self._member), "utf-8") if self._member else ""
        except UnicodeDecodeError as failed:
            raise error(
                DamagedPackage,
                f"it is not in UTF-8: {failed}",
                "write the package again",
                package=self._importer.package,
                member=self._member,
            ) from None

    def get_data(self, path):
        """For pkgutil.get_data()."""
        start = os.path.join(self._importer.package, "")
        path = os.fspath(path)
        if not path.startswith(start):
            raise OSError(f"{path} is not in {self._importer.package}")
        try:
            return bytes(self._importer.read(path[len(start) :]))
        except LookupError as failed:
            raise OSError(str(failed)) from None

    def get_resource_reader(self, fullname=None):
        try:
            from importlib.resources.abc import TraversableResources  # 3.11 and later
        except ImportError:
            from importlib.abc import TraversableResources

        directory = Traversable(self._importer, self._name.replace(".", "/"))

        class ResourceReader(TraversableResources):
            def files(self):
                return directory

        return ResourceReader() if self._importer.modules[self._name].is_package else None


class Traversable:
    """A directory or a file of a package, for importlib.resources.files()."""

    def __init__(self, importer, path):
        self._importer, self._path, self.name = importer, path, path.rpartition("/")[2]

    def is_file(self):
        return self._path in self._importer.manifest.members

    def _below(self):
        start = self._path + "/"
        members = self._importer.manifest.members
        return {one[len(start) :].partition("/")[0] for one in members if one.startswith(start)}

    def is_dir(self):
        return bool(self._below())

    def iterdir(self):
        return iter([self / one for one in sorted(self._below())])

    def joinpath(self, *names):
        return Traversable(self._importer, "/".join([self._path, *map(str, names)]))

    __truediv__ = joinpath

    def read_bytes(self):
        return self.open("rb").read()

    def read_text(self, encoding="utf-8", errors="strict"):
        return self.open("r", encoding=encoding, errors=errors).read()

    def open(self, mode="r", *, encoding="utf-8", errors="strict", **_):
        if not self.is_file():
            raise FileNotFoundError(f"the package has no file {self._path}")
        file = io.BytesIO(self._importer.read(self._path))
        return file if "b" in mode else io.TextIOWrapper(file, encoding=encoding, errors=errors)


# ---- modules that the package does without ----


def _is_special(name):
    return name.startswith("__") and name.endswith("__")


class Mock:
    """What a mocked module has under any name: it raises MockUsed when it is used."""

    def __init__(self, name):
        self.__dict__["_mocked"] = name

    def __getattr__(self, name):
        if _is_special(name):
            raise AttributeError(name)
        return Mock(f"{self._mocked}.{name}")

    def _use(self, *_, **__):
        raise error(
            MockUsed,
            f"{self._mocked} is used, and its module was mocked when the package was written",
            "write the package with intern() or extern() for it",
        )

    __call__ = __getitem__ = __iter__ = __enter__ = __mro_entries__ = _use

    def __repr__(self):
        return f"<mock of {self._mocked}>"


class MockLoader:
    def __init__(self, name):
        self._mock = Mock(name)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        module.__getattr__ = self._mock.__getattr__
