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
import itertools
import linecache
import os
import sys
import threading
import types

from . import _standard, _unpickle
from ._manifest import modules as modules_of
from ._mocks import MockLoader
from ._names import decide, matches, parents, shown
from ._package_errors import DamagedPackage, PackageError, RefusedImport, error

_numbers = itertools.count(1)


class Importer:
    """read(member) gives a member's bytes, with its hash verified."""

    def __init__(self, package, manifest, read, extern, private, adopt):
        self.package, self.manifest, self.read = package, manifest, read
        self.modules = modules_of(manifest, package)
        self._extern, self._private, self._adopt = extern, private, adopt
        self._tops = {name.partition(".")[0] for name in self.modules}
        self._mocked = {
            part for name in manifest.mocked for part in (*parents(name), name)
        } - self.modules.keys()
        self._permitted = {}  # names of modules that code may import: whether from the namespace
        self._folder = None
        self._files = {}
        self._lock = threading.RLock()
        self._present = False
        self.prefix = f"<package {next(_numbers)}>."
        self._builtins = {**vars(builtins), "__import__": self._import}

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
            if self._present:
                raise error(
                    PackageError,
                    "its modules were imported under private names already",
                    "call install() before anything else that imports",
                    package=self.package,
                )
            there = sorted(name for name in sys.modules if name.partition(".")[0] in self._tops)
            if there:
                raise error(
                    PackageError,
                    f"the interpreter has a module {there[0]!r} already",
                    "call install() before it is imported, in an interpreter of its own, or use "
                    "import_module(), which gives the package's modules private names",
                    package=self.package,
                )
            self.prefix = ""
            self._appear()

    def remove(self):
        with self._lock:
            if self._present and self in sys.meta_path:
                sys.meta_path.remove(self)

    # ---- what may be imported ----

    def _refuse(self, name, why, remedy):
        found = error(RefusedImport, why, remedy, package=self.package)
        found.name = name
        raise found from None

    def _refuse_missing(self, fullname, name):
        name = shown(name)
        self._refuse(fullname, f"it has no module {name}", f'have the writer intern("{name}")')

    def _allows(self, name):
        """Whether the reader has not narrowed what is extern so that this module is out."""
        return self._extern is None or any(matches(one, name) for one in self._extern)

    def _own(self, name):
        """Whether code that imports this name gets it from the package. Raises RefusedImport if it
        gets it from nowhere."""
        if name in self.modules or name in self._mocked:
            return True
        rule = decide(self.manifest.rules, name)
        if rule is not None and rule.action == "mock":
            return True
        if name.partition(".")[0] in self._tops:
            self._refuse_missing(name, name)
        if rule is not None and rule.action == "deny":
            self._refuse(name, f"its code imports {name}, which is denied", "do without it")
        if rule is not None and rule.action == "extern":
            if not self._allows(name) and not _standard.is_standard(name):
                self._refuse(
                    name,
                    f"its code imports {name}, which extern= of this reader does not allow",
                    "allow it there, if that is meant",
                )
            return False
        if _standard.is_standard(name):
            return False
        return self._refuse(
            name,
            f"its code imports {shown(name)}, which is neither in the package nor extern",
            f'have the writer add it: intern("{shown(name)}") or extern("{shown(name)}")',
        )

    def _import(self, name, globals=None, locals=None, fromlist=(), level=0):
        plain = builtins.__import__
        if level or not isinstance(name, str):
            return plain(name, globals, locals, fromlist, level)
        own = self._permitted.get(name)
        if own is None:
            own = self._permitted[name] = self._own(name)
        if not own:
            return self._from_environment(plain, name, globals, locals, fromlist)
        if not self.prefix:
            return plain(name, globals, locals, fromlist, 0)
        found = plain(self.prefix + name, globals, locals, fromlist, 0)
        return found if fromlist else sys.modules[self.prefix + name.partition(".")[0]]

    def _from_environment(self, plain, name, *more):
        try:
            return plain(name, *more, 0)
        except ModuleNotFoundError as failed:
            if failed.name is None or not f"{name}.".startswith(f"{failed.name}."):
                raise
            if _standard.is_standard(name):
                raise
            return self._refuse(
                name, f"it needs {failed.name}, which is not installed", "install it"
            )

    def module(self, name):
        """A module for a reader or a pickle."""
        if name in self.modules:
            self._appear()
            return importlib.import_module(self.prefix + name)
        return importlib.import_module(name)

    # ---- what a pickle may name ----

    def _holds(self, name):
        return name in self.modules

    def why_not(self, scan, name):
        """(why, remedy) if a pickle must not name this (module, name), or None."""
        why = _unpickle.why_not(self.manifest.rules, self._holds, scan, name)
        module = name[0]
        standard = _standard.is_standard(module) and _standard.may_name(*name)
        if why is None and not (self._holds(module) or standard or self._allows(module)):
            return (
                f"it names {shown('.'.join(name))}, and extern= of this reader does not allow that",
                "allow it there, if that is meant",
            )
        return why

    def why_not_named(self, module, name):
        return self.why_not(_Nothing, (module, name))

    def why_not_object(self, found, text):
        return _unpickle.why_not_object(found, text, self.why_not_named)

    # ---- finding and loading ----

    def find_spec(self, fullname, path=None, target=None):
        """For importlib."""
        if not fullname.startswith(self.prefix):
            return None
        name = fullname[len(self.prefix) :]
        module = self.modules.get(name)
        if module is not None:
            return self._spec(fullname, name, module)
        rule = decide(self.manifest.rules, name)
        if name in self._mocked or (rule is not None and rule.action == "mock"):
            return importlib.machinery.ModuleSpec(fullname, MockLoader(name), is_package=True)
        if self.prefix or name.partition(".")[0] in self._tops:
            self._refuse_missing(fullname, name)
        return None

    def _spec(self, fullname, name, module):
        make = importlib.machinery.ModuleSpec
        if not module.members:
            return make(fullname, PackageLoader(self, name, None), is_package=True)
        if module.members[0].endswith(".so"):
            from .. import _load

            path = self._file(name, module)
            loader = _load._Loader(fullname, path, private=self._private, adopt=self._adopt)
            spec = make(fullname, loader, origin=path)
        else:
            loader = PackageLoader(self, name, module.members[0])
            path = loader.get_filename()
            spec = make(fullname, loader, origin=path, is_package=module.is_package)
        spec.has_location = True
        return spec

    def _file(self, name, module):
        """The path of an extension module's file for this Python."""
        from .._importing import suffixes

        with self._lock:
            if name in self._files and os.path.exists(self._files[name]):
                return self._files[name]
            for end in suffixes():
                for member in module.members:
                    base = member.rpartition("/")[2]
                    if base[len(base.partition(".")[0]) :] == end:
                        return self._place(name, member)
        ends = ", ".join(member.rpartition("/")[2] for member in module.members)
        return self._refuse(
            name,
            f"the extension module {name} is for other Pythons ({ends})",
            "use one of these, or add a file for this one when the package is written",
        )

    def _place(self, name, member):
        from ._extracted import Folder

        if self._folder is None:
            self._folder = Folder(self.package)
        self._files[name] = self._folder.place(member, self.read(member))
        return self._files[name]


class _Nothing:
    called = ranged = ()


class PackageLoader:
    """Loads a module from its source, or a package that has none."""

    def __init__(self, importer, name, member):
        self._importer, self._name, self._member = importer, name, member

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        """For importlib."""
        # Before the code runs: what it defines refers to these.
        module.__dict__["__builtins__"] = self._importer._builtins
        if self._member is not None:
            code = self.get_code()
            linecache.lazycache(code.co_filename, module.__dict__)
            exec(code, module.__dict__)

    def is_package(self, fullname=None):
        return self._importer.modules[self._name].is_package

    def get_filename(self, fullname=None):
        return os.path.join(self._importer.package, self._member or self._name)

    def _source(self):
        if self._member is None:
            return ""
        data = bytes(self._importer.read(self._member))
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as failed:
            raise error(
                DamagedPackage,
                f"it is not in UTF-8: {failed}",
                "write the package again",
                package=self._importer.package,
                member=self._member,
            ) from None

    def get_source(self, fullname=None):
        """For linecache, which shows no source if it gets none."""
        try:
            return self._source()
        except PackageError as failed:
            raise ImportError(str(failed)) from None

    def get_code(self, fullname=None):
        return compile(self._source(), self.get_filename(), "exec", dont_inherit=True)

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
        from ._tree import ResourceReader

        if not self.is_package():
            return None
        folder = self._name.replace(".", "/")
        return ResourceReader(self._importer.manifest.members, self._importer.read, folder)
