"""homefree for setup.py: Extension, in place of setuptools' own.

    from homefree.setuptools import Extension

    setup(ext_modules=[Extension("package.greet", ["greet.c"])])

That is all; a cmdclass of one's own (pybind11's, Cython's, torch's) stays as it is. The only files
that this writes are in the build folder. `build_ext -j` may build such extensions side by side.
"""

import contextlib
import copy
import os
import shutil
import sys
import urllib.parse

import setuptools
from setuptools.command.build_ext import build_ext as _build_ext

from . import _link, _paths

# After setuptools, which brings it where Python has none.
from distutils.errors import DistutilsSetupError  # isort: skip

__all__ = ["Extension", "build_ext"]

# An argument that holds the place of ours until build_ext puts them in. Where nobody does, the
# linker says this name, instead of making a module without homefree. What follows it carries our
# parameters through cythonize(), which makes a new Extension out of the arguments of setuptools'.
_MARK = "-Wl,--version-script=set cmdclass={'build_ext': homefree.setuptools.build_ext}?"


class Extension(setuptools.Extension):
    """An extension module that is linked with homefree; takes what setuptools.Extension takes.

    symbols: a file with names to export beside the module's PyInit_ function, one a line.
    version: a version node for what is exported.

    The compiler gets homefree's include path and HOMEFREE_MODULE_NAME, the last part of the name;
    the linker gets the shim, libhomefree, a version script, and a RUNPATH by which the module finds
    libhomefree: relative to the module in a wheel, absolute where the module is built in place. A
    version script in extra_link_args takes the place of the generated one.

    Raises ValueError for a name that no module can have.
    """

    def __init__(self, name, sources, *args, symbols=None, version=None, **kw):
        super().__init__(name, sources, *args, **kw)
        last = _link.module_name(name)
        # A pattern is what cythonize() makes extensions from, with names of their own.
        if not last.isidentifier() and "*" not in last:
            raise ValueError(
                f"homefree: {name!r} is not the name of a module: {last!r} must be letters, digits "
                "and underscores"
            )
        self._carry(symbols, version)

    @classmethod
    def of(cls, extension, *, symbols=None, version=None):
        """An extension that another helper made, linked with homefree as well.

        extension: what torch's CppExtension or cffi's distutils_extension() returns, for instance;
        it is not changed. symbols, version: as for Extension.
        """
        kind = type(extension)
        made = copy.copy(extension)
        if not isinstance(extension, cls):
            made.__class__ = type(kind.__name__, (cls, kind), {})
        made._carry(symbols, version)
        return made

    def _carry(self, symbols, version):
        """Keep the parameters where cythonize() leaves them alone."""
        carried = {}
        for argument in self.extra_link_args:
            if argument.startswith(_MARK):
                carried = dict(urllib.parse.parse_qsl(argument[len(_MARK) :]))
        self.symbols = carried.get("symbols") if symbols is None else os.fspath(symbols)
        self.version = carried.get("version") if version is None else version
        mine = {"symbols": self.symbols, "version": self.version}
        mine = {key: value for key, value in mine.items() if value is not None}
        self.extra_link_args = [*_without_mark(self), _MARK + urllib.parse.urlencode(mine)]
        if self.symbols is not None and self.symbols not in self.depends:
            self.depends = [*self.depends, self.symbols]

    # What setuptools' build_ext sets first of all in every extension, so that it can be met here
    # whatever class it has, and however it was started.
    @property
    def _full_name(self):
        return self.__dict__["_full_name"]

    @_full_name.setter
    def _full_name(self, value):
        self.__dict__["_full_name"] = value
        command = sys._getframe(1).f_locals.get("self")
        if isinstance(command, _build_ext) and not isinstance(command, _Builds):
            kind = type(command)
            command.__class__ = type(kind.__name__, (_Builds, kind), {})


def _without_mark(extension):
    return [word for word in extension.extra_link_args if not word.startswith(_MARK)]


class _Builds:
    """What a build_ext does for the extensions of homefree; all others are none of its business."""

    _in_place = False

    def run(self):
        # setuptools forgets it while it builds, and copies what was built afterwards.
        self._in_place = bool(self.inplace or getattr(self, "editable_mode", False))
        super().run()

    def build_extension(self, ext):
        if not isinstance(ext, Extension):
            super().build_extension(ext)
            return
        stub = None if self._in_place else _link.stub()
        super().build_extension(self._with_homefree(ext, stub))
        if stub is not None:
            self._copy_stub(ext, stub)

    def get_outputs(self):
        outputs = super().get_outputs()
        if self._in_place or self.inplace or _link.stub() is None:
            return outputs
        mine = [ext for ext in self.extensions if isinstance(ext, Extension)]
        return sorted({*outputs, *(self._place_of_stub(ext) for ext in mine)})

    def _with_homefree(self, ext, stub):
        """A copy of ext with everything that compiling and linking it takes."""
        full_name = self.get_ext_fullname(ext.name)
        module = _link.module_name(full_name)
        # Not to be taken for the files of another extension, one that is built beside this one.
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
                folders = _link.folders_on_this_machine()
                if not folders and _link.passes():
                    self.warn(
                        f"{ext.name}: homefree is in an environment that will be deleted, so the "
                        "module cannot know where it will be: import homefree before the module, "
                        "or build without isolation"
                    )
            else:
                folders = _link.folders_from(full_name)
            if stub is not None:
                folders += _link.folders_of_stub(full_name)
            os.makedirs(self.build_temp, exist_ok=True)
            script = None
            if not any("--version-script" in word for word in own):
                script = base + ".exports.map"
                _link.write_exports(script, module, ext.symbols, ext.version)
            ext.depends = [*ext.depends, *_link.libraries()]
            ext.extra_link_args = [*own, *_link.arguments(script, folders)]
            self._link_again_if_changed(ext, base + ".link", script)
        except (OSError, RuntimeError) as error:
            raise DistutilsSetupError(f"{ext.name}: {error}") from error
        return ext

    def _link_again_if_changed(self, ext, note, script):
        """Remove what was linked in another way, for instance in place: times are too coarse."""
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
        folder = os.path.join(self.build_lib, *full_name.split(".")[:-1])
        return os.path.join(folder, _link.stub_folder(full_name), _paths.SONAME)

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


class build_ext(_Builds, _build_ext):
    """setuptools' build_ext for extensions of homefree; Extension alone does the same.

    It is needed only as a base for a build_ext of one's own that is not setuptools'.
    """
