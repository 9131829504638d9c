# SPDX-License-Identifier: BSD-2-Clause
"""build(): compiling a module for a wheel to ship. Nothing here keeps state."""

from __future__ import annotations

import os
import shutil

from .._importing import check_name
from . import _cache
from ._files import Hashes, replace
from ._prebuilt import FIRST
from ._request import Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .._types import AnyPath


def _put(path, request, directory):
    """Copy a module into a directory, with the record of its sources. Returns the copy's path."""
    os.makedirs(directory, exist_ok=True)
    target = os.path.join(directory, os.path.basename(path))
    hashes = Hashes()
    lines = [f"{hashes.of(source)} {os.path.basename(source)}" for source in request.sources]
    other = f"{target}.{os.getpid()}.new"
    shutil.copyfile(path, other)
    os.chmod(other, 0o755)
    os.rename(other, target)
    replace(target + ".sources", "\n".join([FIRST, *lines, ""]))
    return target


def build(
    name: str,
    sources: AnyPath | Iterable[AnyPath],
    output: AnyPath,
    *,
    extra_cflags: Sequence[str] | None = None,
    extra_cxxflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: AnyPath | Iterable[AnyPath] | None = None,
    build_directory: AnyPath | None = None,
    verbose: bool | None = None,
    with_cuda: bool | None = None,
    torch: bool = False,
) -> str:
    """Compile a module as load() does, and put it into the directory `output`, for a wheel to ship
    and load(prebuilt=) to find.

    The record <file>.sources beside it has the hashes of its sources. The module contains no path
    of this machine: it finds libhomefree because homefree is loaded first.

    name, sources, build_directory, verbose, and the options extra_cflags, extra_cxxflags,
    extra_cuda_cflags, extra_ldflags, extra_include_paths, with_cuda and torch are those of load().

    Returns the module's path. Raises what load() raises. Threads, processes, fork: as load().
    Since 1.0.
    """
    check_name(name)
    request = Request(
        name,
        sources,
        extra_cflags=extra_cflags,
        extra_cxxflags=extra_cxxflags,
        extra_cuda_cflags=extra_cuda_cflags,
        extra_ldflags=extra_ldflags,
        extra_include_paths=extra_include_paths,
        build_directory=build_directory,
        with_cuda=with_cuda,
        torch=torch,
        rpath=False,
    )
    path = _cache.find_or_build(request, verbose)
    return _put(path, request, os.path.abspath(os.fsdecode(output)))


# The name that users import it by.
build.__module__ = __package__
