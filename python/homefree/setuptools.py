# SPDX-License-Identifier: BSD-2-Clause
"""homefree for setup.py: Extension, in place of setuptools' own.

    from homefree.setuptools import Extension

    setup(ext_modules=[Extension("package.greet", ["greet.c"])])

Nothing else in setup.py changes, including a cmdclass of pybind11, Cython or torch. Files are
written to the build directory only. Threads: `build_ext -j` may build such extensions in parallel.
Since 1.0.
"""

from __future__ import annotations

import contextlib
import copy
import os
import re
import shutil
import sys
import sysconfig
import urllib.parse

import setuptools
from setuptools.command.build_ext import build_ext as _build_ext

from . import _link, _paths

# After setuptools, which provides it where Python has none.
from distutils.errors import DistutilsSetupError  # isort: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Extension", "build_ext"]

# A placeholder for our arguments, which build_ext replaces. If nothing replaces it, the linker
# fails with this text instead of linking a module without homefree. Its end carries our parameters
# through cythonize(), which makes a new Extension and keeps only the arguments of setuptools.
_MARK = "-Wl,--version-script=set cmdclass={'build_ext': homefree.setuptools.build_ext}?"


class Extension(setuptools.Extension):
    """An extension module that is linked with homefree. Takes the arguments of
    setuptools.Extension, and:

    symbols: a file of names, one a line, to export in addition to the module's PyInit_ and
    PyModExport_ functions.
    version: the version node of the exported names.

    The compiler gets homefree's include path and HOMEFREE_MODULE_NAME, the last part of the name.
    The linker gets the shim, libhomefree, a version script, and a RUNPATH to libhomefree, which is
    relative to the module in a wheel and absolute if the module is built in place. A version script
    in extra_link_args replaces the generated one.

    The build fails if the module defines a PyInit or PyModExport function, but none of its name. It
    only warns if there is none at all, as in a library of torch operators, or with symbols, as for
    ctypes.

    Free-threaded CPython has a stable ABI from 3.15 on (abi3t). Where a module asks for the limited
    API (py_limited_api, and Py_LIMITED_API among its macros) of an earlier version, or where Python
    is an earlier one, it is built for that Python alone, with a warning.
    Raises ValueError for an invalid module name. Since 1.0.
    """

    def __init__(
        self,
        name: str,
        sources: list[str],
        *args: Any,
        symbols: str | os.PathLike[str] | None = None,
        version: str | None = None,
        **kw: Any,
    ) -> None:
        super().__init__(name, sources, *args, **kw)
        last = _link.module_name(name)
        # cythonize() turns a pattern into extensions with names of their own.
        if not last.isidentifier() and "*" not in last:
            raise ValueError(
                f"homefree: {name!r} is not the name of a module: {last!r} must be letters, digits "
                "and underscores"
            )
        self._carry(symbols, version)

    @classmethod
    def of(
        cls,
        extension: setuptools.Extension,
        *,
        symbols: str | os.PathLike[str] | None = None,
        version: str | None = None,
    ) -> Extension:
        """A copy of another helper's extension, linked with homefree as well.

        extension: for instance what torch's CppExtension or cffi's distutils_extension() returns;
        it is not changed. symbols, version: as for Extension. Raises TypeError for anything that is
        no Extension of setuptools. Since 1.0.
        """
        if not isinstance(extension, setuptools.Extension):
            raise TypeError(
                "homefree: Extension.of() takes one Extension of setuptools, not "
                f"{extension!r:.100}"
            )
        made = copy.copy(extension)
        cls._convert(made)
        made._carry(symbols, version)
        return made

    @classmethod
    def _convert(cls, extension):
        kind = type(extension)
        if not isinstance(extension, cls):
            extension.__class__ = type(kind.__name__, (cls, kind), {})

    def _carry(self, symbols, version):
        """Store the parameters in extra_link_args, which cythonize() copies unchanged."""
        carried = {}
        for argument in self.extra_link_args:
            if argument.startswith(_MARK):
                carried = dict(urllib.parse.parse_qsl(argument[len(_MARK) :]))
        self.symbols: str | None = carried.get("symbols") if symbols is None else os.fspath(symbols)
        self.version: str | None = carried.get("version") if version is None else version
        mine = {"symbols": self.symbols, "version": self.version}
        mine = {key: value for key, value in mine.items() if value is not None}
        self.extra_link_args: list[str] = [
            *_without_mark(self),
            _MARK + urllib.parse.urlencode(mine),
        ]
        if self.symbols is not None and self.symbols not in self.depends:
            self.depends: list[str] = [*self.depends, self.symbols]

    # setuptools' build_ext sets this attribute of every extension before anything else, so here our
    # steps can be added to any build_ext, whatever its class and however it was started.
    @property
    def _full_name(self):
        return self.__dict__["_full_name"]

    @_full_name.setter
    def _full_name(self, value):
        self.__dict__["_full_name"] = value
        command = sys._getframe(1).f_locals.get("self")
        if not isinstance(command, _build_ext):
            return
        if not isinstance(command, _Builds):
            kind = type(command)
            command.__class__ = type(kind.__name__, (_Builds, kind), {})
        # The files get their names later.
        why = _no_stable_abi(_limited_api(self)) if _asks_for_limited_api(self) else None
        if why is not None:
            _ask_for_no_limited_api(self)
            command.warn(f"{self.name}: {why}; it is built for this Python alone")


def _without_mark(extension):
    return [word for word in extension.extra_link_args if not word.startswith(_MARK)]


class _Builds:
    """The steps that build_ext takes for homefree's extensions. Other extensions are left alone."""

    _in_place = False

    def run(self) -> None:
        # setuptools resets it during the build, and copies the results afterwards.
        self._in_place = bool(self.inplace or getattr(self, "editable_mode", False))
        for ext in _of_cffi(self.distribution):
            if not isinstance(ext, Extension):
                self.warn(
                    f"{ext.name}: cffi_modules builds it without homefree; add "
                    "cmdclass={'build_ext': homefree.setuptools.build_ext} to setup()"
                )
        super().run()

    def build_extension(self, ext: setuptools.Extension) -> None:
        stub = None if self._in_place or not isinstance(ext, Extension) else _link.stub()
        if stub is None and not self._in_place:
            self._remove_stub(ext)
        if not isinstance(ext, Extension):
            super().build_extension(ext)
            return
        super().build_extension(self._with_homefree(ext, stub))
        self._check(ext)
        if stub is not None:
            self._copy_stub(ext, stub)

    def _check(self, ext):
        """A module without a function that Python calls cannot be imported. A library with its own
        symbols need not have one, and neither need one that registers itself when it is loaded."""
        path = self.get_ext_fullpath(ext.name)
        if not os.path.exists(path):
            return
        try:
            _link.check_exports(path, _link.module_name(self.get_ext_fullname(ext.name)))
        except RuntimeError as error:
            if ext.symbols is not None:
                self.warn(f"{ext.name}: {error}")
            elif self._has_init(ext):
                raise DistutilsSetupError(f"{ext.name}: {error}") from error
            else:
                self.warn(
                    f"{ext.name}: it has no PyInit function and no PyModExport function, so "
                    "nothing can import it; a library for torch.ops.load_library needs none, one "
                    "for ctypes needs symbols=FILE"
                )

    def _has_init(self, ext):
        """Whether an object of the extension names a function by which Python enters a module, as
        far as can be told."""
        try:
            built = self.compiler.object_filenames(ext.sources, output_dir=self.build_temp)
            return any(_names_function(path) for path in [*built, *ext.extra_objects])
        except Exception:  # unknown kinds of sources, objects in other places
            return True

    def get_outputs(self) -> list[str]:
        outputs = super().get_outputs()
        if self._in_place or self.inplace or _link.stub() is None:
            return outputs
        mine = [ext for ext in self.extensions if isinstance(ext, Extension)]
        return sorted({*outputs, *(self._place_of_stub(ext) for ext in mine)})

    def _with_homefree(self, ext, stub):
        """A copy of ext with all arguments for compiling and linking it."""
        full_name = self.get_ext_fullname(ext.name)
        module = _link.module_name(full_name)
        # The full name keeps the files of extensions that are built in parallel apart.
        base = os.path.join(self.build_temp, full_name)
        own = _without_mark(ext)
        ext = copy.copy(ext)
        if getattr(self, "dry_run", False):
            return ext
        try:
            ext.include_dirs = [*ext.include_dirs, _link.include_dir()]
            if not any(macro[0] == "HOMEFREE_MODULE_NAME" for macro in ext.define_macros):
                ext.define_macros = [*ext.define_macros, ("HOMEFREE_MODULE_NAME", module)]
            if self._in_place:
                directories = _link.directories_on_this_machine()
                if not directories and _link.passes():
                    self.warn(
                        f"{ext.name}: homefree is in an environment that will be deleted, so the "
                        "module cannot find it by itself: import homefree before the module, or "
                        "build without isolation"
                    )
            else:
                directories = _link.directories_from(full_name)
            if stub is not None:
                directories.append(_link.directory_of_stub(full_name))
            os.makedirs(self.build_temp, exist_ok=True)
            script = None
            if not any("--version-script" in word for word in own):
                script = base + ".exports.map"
                _link.write_exports(script, module, ext.symbols, ext.version)
            ext.depends = [*ext.depends, *_link.libraries()]
            named, runtimes = _link.runtimes_apart([f"-l{name}" for name in ext.libraries])
            ext.libraries = [word[len("-l") :] for word in named]
            own, more = _link.runtimes_apart(own)
            ext.extra_link_args = [*own, *_link.arguments(script, directories), *runtimes, *more]
            self._link_again_if_changed(ext, base + ".link", script)
        except (OSError, RuntimeError) as error:
            raise DistutilsSetupError(f"{ext.name}: {error}") from error
        return ext

    def _link_again_if_changed(self, ext, note, script):
        """Remove a module that was linked with other arguments, for instance in place: its times
        alone do not tell."""
        text = "\n".join(ext.extra_link_args)
        if script is not None:
            with open(script, encoding="utf-8") as file:
                text += "\n" + file.read()
        if not _holds(note, text):
            with contextlib.suppress(FileNotFoundError):
                os.remove(self.get_ext_fullpath(ext.name))
            with open(note, "w", encoding="utf-8") as file:
                file.write(text)

    def _place_of_stub(self, ext):
        full_name = self.get_ext_fullname(ext.name)
        directory = os.path.join(self.build_lib, *full_name.split(".")[:-1])
        return os.path.join(directory, _link.stub_directory(full_name), _paths.SONAME)

    def _remove_stub(self, ext):
        """Remove the stub of an earlier build, which the wheel would take along."""
        place = self._place_of_stub(ext)
        with contextlib.suppress(OSError):
            os.remove(place)
            os.rmdir(os.path.dirname(place))

    def _copy_stub(self, ext, stub):
        place = self._place_of_stub(ext)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        shutil.copyfile(stub, place)


def _holds(path, text):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read() == text
    except (FileNotFoundError, UnicodeDecodeError):
        return False


def _names_function(path):
    with open(path, "rb") as file:
        content = file.read()
    return any(function.encode() in content for function, _ in _paths.MODULE_FUNCTIONS)


# ---- the stable ABI ----

# A macro that selects the limited API, among the arguments of a compiler or alone, and its version.
_LIMITED = re.compile(r"(?:-D)?(?:Py_LIMITED_API|Py_TARGET_ABI3T)(?:=(.*))?")


def _limited_words(extension):
    """The macros of an extension, as words for _LIMITED."""
    words = [
        name if value is None else f"{name}={value}" for name, value in extension.define_macros
    ]
    arguments = extension.extra_compile_args or []
    # torch has a dict of lists, by compiler.
    lists = arguments.values() if isinstance(arguments, dict) else [arguments]
    return [*words, *(word for words in lists for word in words)]


def _asks_for_limited_api(extension):
    return extension.py_limited_api or any(map(_LIMITED.fullmatch, _limited_words(extension)))


def _limited_api(extension):
    """The lowest version of the limited API that an extension asks for, as Py_LIMITED_API has it.
    None if it asks for the one of the Python that it is built with."""
    found = []
    for match in filter(None, map(_LIMITED.fullmatch, _limited_words(extension))):
        try:
            found.append(int(match[1] or "3", 0))
        except ValueError:  # a name that the compiler knows
            continue
    return min(found, default=None)


def _no_stable_abi(version, python=sys.version_info[:2]):
    """Why this Python has no stable ABI of that version of the limited API; None if it has one."""
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None
    begins = "free-threaded CPython has a stable ABI from 3.15 on (abi3t)"
    if python < (3, 15):
        return f"{begins}, and this one is {python[0]}.{python[1]}"
    if version is not None and version < 0x030F0000:
        asked = f"{version >> 24}.{version >> 16 & 255}" if version > 3 else "3.2"
        return f"{begins}, and the limited API of {asked} is asked for"
    return None


def _ask_for_no_limited_api(extension):
    """Build an extension with the full API."""
    extension.py_limited_api = False
    extension.define_macros = [
        macro for macro in extension.define_macros if not _LIMITED.fullmatch(macro[0])
    ]
    arguments = extension.extra_compile_args or []
    if isinstance(arguments, dict):
        kept = {key: _without_limited_api(words) for key, words in arguments.items()}
    else:
        kept = _without_limited_api(arguments)
    extension.extra_compile_args = kept


def _without_limited_api(words):
    return [word for word in words if not _LIMITED.fullmatch(word)]


def _of_cffi(distribution):
    """The extensions that cffi made for cffi_modules, before and after it wrote their source. cffi
    knows them by identity, so they are changed and not replaced."""
    if not getattr(distribution, "cffi_modules", None):
        return []
    return [
        ext
        for ext in distribution.ext_modules or []
        if ext.sources and os.path.basename(ext.sources[0]) in ("$PLACEHOLDER", *_written(ext))
    ]


def _written(extension):
    """The names of the source that cffi writes for an extension."""
    return [f"{extension.name}{suffix}" for suffix in (".c", ".cc", ".cpp")]


class build_ext(_Builds, _build_ext):
    """setuptools' build_ext with homefree's steps. Extension adds them to any build_ext of
    setuptools, so this class is needed only as a base for a build_ext that is not one, and for
    cffi_modules, whose extensions it links with homefree as well:

        setup(cffi_modules=["build_greet.py:ffi"], cmdclass={"build_ext": build_ext})

    Since 1.0.
    """

    def finalize_options(self) -> None:
        for ext in _of_cffi(self.distribution):
            Extension._convert(ext)
            ext._carry(None, None)
        super().finalize_options()
