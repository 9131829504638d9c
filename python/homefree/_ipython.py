# SPDX-License-Identifier: BSD-2-Clause
"""%%homefree: a notebook's cell in C or C++ becomes a module, its functions the notebook's names.

    %load_ext homefree

The package hands load_ipython_extension() on; nothing else imports this file. IPython is imported
when it calls. One thing is kept: the sources of cells, in the directory `cells` of
homefree.extension's cache, where debuggers find them. Threads: the shell's.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import re
import shlex
import shutil
import sys

from . import _importing, extension
from .extension import _files, _request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# How many cells without a name the cache keeps, and the seconds for which it keeps each.
_KEPT = 200
_KEPT_FOR = 86400

_SUFFIXES = {"c": ".c", "c++": ".cc", "cuda": ".cu"}
_PREFIX = "cell_"

# A header without a suffix is the C++ library's; the others are C++ as well.
_CXX = re.compile(
    r'^\s*#\s*include\s*(<\w+>|[<"](pybind11|nanobind|torch|ATen|c10)/)', re.MULTILINE
)
_CXX_WORDS = re.compile(r"\b(class|template|namespace|nullptr|constexpr|public)\b|::")
_QUOTED = re.compile(r'^\s*#\s*include\s*"', re.MULTILINE)
_INCLUDED = re.compile(r'^\s*#\s*include\s*[<"](pybind11|numpy)/', re.MULTILINE)

_DESCRIPTION = """\
Compile the cell, a C or C++ extension module, and import its functions.

The cell defines the module under the name that the macro HOMEFREE_MODULE_NAME has: with
`PyMODINIT_FUNC HF_MODULE_INIT(void)` of <homefree/python.h>, or
`PYBIND11_MODULE(HOMEFREE_MODULE_NAME, m)`. Its public names (`__all__`, or those without an
underscore in front) become variables of the notebook, as after `from module import *`. The module
is linked with homefree; a cell that was compiled before is loaded from the cache.
"""


class CellError(extension.BuildError):
    """A cell that cannot be compiled or imported; shown as its message, without a traceback."""

    def _render_traceback_(self):
        return str(self).splitlines()


class _Refused(Exception):
    """A line that the parser does not take; the text is the user's message."""


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        options = " ".join(self.format_usage().split()[2:])
        raise _Refused(f"%%homefree: {message}; it takes {options}")


def _parser():
    parser = _Parser(
        prog="%%homefree",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("-n", "--name", help="the module's name, to import it elsewhere; a later cell may reuse it")
    add(
        "--language",
        choices=list(_SUFFIXES),
        help="without it, C++ if the cell includes a header of C++, pybind11, nanobind or torch, "
        "else C",
    )
    add("-+", "--cplus", action="store_const", const="c++", dest="language", help="C++")
    add("-c", "--compile-args", action="append", default=[], metavar="FLAGS", help="-c=-O3")
    add("--link-args", action="append", default=[], metavar="FLAGS", help="--link-args=-lm")
    add("-I", "--include", action="append", default=[], metavar="DIRECTORY", help="has headers")
    add(
        "-L",
        "--library-dir",
        action="append",
        default=[],
        metavar="DIRECTORY",
        help="has libraries",
    )
    add("-l", "--lib", action="append", default=[], metavar="NAME", help="a library to link")
    add("--torch", action="store_true", help="compile and link with torch")
    add("-v", "--verbose", action="store_true", help="show each step and the compiler's warnings")
    add("-h", "--help", action="store_true", help="show this")
    return parser


def _directories(given):
    return [os.path.abspath(os.path.expanduser(directory)) for directory in given]


def _words(given):
    return [word for words in given for word in shlex.split(words)]


def _headers(text):
    """The header directories of the packages that the cell includes, as far as they are
    installed."""
    found = []
    for name in sorted(set(_INCLUDED.findall(text))):
        with contextlib.suppress(ImportError, AttributeError):
            found.append(__import__(name).get_include())
    return found


def _source(root, file, text):
    """The cell's file. Its first line is empty: in the cell, that is %%homefree's own."""
    path = os.path.join(root, "cells", file)
    text = "\n" + text
    with contextlib.suppress(OSError), open(path, "rb") as file:
        if file.read() == text.encode():
            return path
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    _files.replace(path, text)
    return path


def _remove_old(root):
    """Removes cells without a name, the oldest first. Who loads one meanwhile compiles it again."""
    with contextlib.suppress(OSError):
        cells = [
            (entry.stat().st_mtime, entry.path)
            for entry in os.scandir(root)
            if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False)
        ]
        newest = max(cells)[0]
        for time, path in sorted(cells)[:-_KEPT]:
            if time < newest - _KEPT_FOR:
                shutil.rmtree(path, ignore_errors=True)
                for suffix in _SUFFIXES.values():
                    with contextlib.suppress(OSError):
                        os.unlink(os.path.join(root, "cells", os.path.basename(path) + suffix))


def _load(options, text):
    """The cell's module. CellError if it cannot be had, _Refused for a name that is none."""
    language = options.language or ("c++" if _CXX.search(text) else "c")
    digest = hashlib.sha256(f"{language}\0{text}".encode()).hexdigest()
    name = options.name or _PREFIX + digest[:16]
    file = name if not options.name else f"{name}-{digest[:16]}"
    try:
        _importing.check_name(name)
    except ValueError as error:
        raise _Refused(f"%%homefree: {error}") from None
    flags = _words(options.compile_args)
    if _QUOTED.search(text):
        flags = ["-I" if language == "cuda" else "-iquote", os.getcwd(), *flags]
    path = None
    try:
        root = _request.cache_root(name, None)
        try:
            path = _source(root, file + _SUFFIXES[language], text)
        except OSError as error:
            raise CellError(
                f"homefree cannot write to its cache directory {root}: {error}; set "
                "HOMEFREE_BUILD_DIR to a writable directory"
            ) from None
        module = extension.load(
            name,
            [path],
            extra_cflags=flags if language != "cuda" else None,
            extra_cuda_cflags=flags if language == "cuda" else None,
            extra_ldflags=[
                *[f"-L{directory}" for directory in _directories(options.library_dir)],
                *[f"-l{name}" for name in options.lib],
                *_words(options.link_args),
            ],
            extra_include_paths=[*_directories(options.include), *_headers(text)],
            torch=options.torch,
            verbose=options.verbose or None,
            reload=True,
        )
    except ImportError as error:
        if isinstance(error, CellError):
            raise
        # The compiler's lines are the cell's.
        message = str(error) if path is None else str(error).replace(path, "cell")
        if language == "c" and not options.language and _CXX_WORDS.search(text):
            message += "\nIt was compiled as C; if it is C++, write %%homefree -+"
        raise CellError(message, name=name) from None
    if not options.name:
        _remove_old(root)
    return module


def _public(module):
    names = getattr(module, "__all__", None)
    if names is None:
        names = [name for name in vars(module) if not name.startswith("_")]
    return {name: getattr(module, name) for name in names}


def load_ipython_extension(shell: Any) -> None:
    """Add the cell magic %%homefree to IPython; `%load_ext homefree` calls it. `%%homefree --help`
    shows what it takes. Since 1.0."""
    from IPython.core.error import UsageError

    parser = _parser()

    def homefree(line, cell):
        try:
            options = parser.parse_args(_split(line))
            if options.help:
                print(parser.format_help(), file=sys.stdout)
                return
            if not cell.strip():
                parser.error("the cell is empty")
            module = _load(options, cell)
        except _Refused as error:
            raise UsageError(str(error)) from None
        shell.push(_public(module))

    homefree.__doc__ = parser.format_help()
    shell.register_magic_function(homefree, "cell", "homefree")


def _split(line):
    try:
        return shlex.split(line)
    except ValueError as error:
        raise _Refused(f"%%homefree: {error}: '{line}'") from None
