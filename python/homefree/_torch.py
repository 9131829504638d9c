# SPDX-License-Identifier: BSD-2-Clause
"""Arguments for torch.utils.cpp_extension. Nothing here keeps state. Threads: any."""

from __future__ import annotations

import os
import shlex
import sys

from . import _link

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The arguments of setup.py, typed or from pip, that build in place instead of for a wheel.
_IN_PLACE = {"develop", "editable_wheel", "--inplace", "-i"}

# torch itself defines the second name for the compiler.
_NAME = "HOMEFREE_MODULE_NAME"
_TORCH_NAME = "TORCH_EXTENSION_NAME"


def _for_shell(words):
    """Words quoted for ninja and the shell that it starts."""
    return [shlex.quote(word).replace("$", "$$") for word in words]


def torch_extension_args(
    *, load: bool = False, name: str | None = None, **own: Any
) -> dict[str, Any]:
    """Keyword arguments that link a torch extension with homefree; a new dict at each call.

        CppExtension("op", ["op.cpp"], **homefree.torch_extension_args())
        CUDAExtension("op", ["op.cpp", "op_cuda.cu"], **homefree.torch_extension_args())
        load("op", ["op.cpp"], **homefree.torch_extension_args(load=True))

    load: use the keywords of torch's load() and load_inline(), which differ from CppExtension's.
    name: the module's full name. It is needed if the module lies in a package and homefree comes
    from a wheel, because it determines the path from the module to homefree's library.
    own: your own arguments. Those with the same keywords (include_dirs, define_macros,
    extra_link_args, runtime_library_dirs; extra_cflags, extra_cuda_cflags, extra_ldflags) come
    first in the result; others are returned as they are.

    The module exports only its PyInit_ and PyModExport_ functions, and is not linked with libraries
    that it does not use. If a wheel's module should say what to install when homefree is missing,
    or export more names, use homefree.setuptools.Extension.of(CppExtension(...)) instead.

    Raises FileNotFoundError if this copy of homefree has no headers or libraries. Threads: any.
    Since 1.0.
    """
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_modules.map")
    include = _link.include_dir()
    if load:
        # The module stays on this machine, in torch's cache.
        words = _link.arguments(script, _link.directories_on_this_machine())
        # Not extra_include_paths, which only some versions of torch quote.
        compiling = _for_shell([f"-I{include}", f"-D{_NAME}={_TORCH_NAME}"])
        mine = {
            "extra_cflags": compiling,
            "extra_cuda_cflags": compiling,
            "extra_ldflags": _for_shell(words),
        }
    else:
        in_place = not _IN_PLACE.isdisjoint(sys.argv)
        directories = (
            _link.directories_on_this_machine() if in_place else _link.directories_from(name or "")
        )
        # Only runtime_library_dirs come before torch's libraries, and a comma separates linker
        # words: --as-needed drops the libraries that the module does not use.
        first = next((directory for directory in directories if "," not in directory), "$ORIGIN")
        mine = {
            "include_dirs": [include],
            "define_macros": [(_NAME, _TORCH_NAME)],
            "extra_link_args": _link.arguments(script, directories),
            "runtime_library_dirs": [f"{first},--as-needed"],
        }
    words = "extra_ldflags" if load else "extra_link_args"
    before, runtimes = _link.runtimes_apart(own.get(words) or ())
    own[words] = before
    mine[words] += runtimes
    return {**own, **{key: [*(own.get(key) or ()), *value] for key, value in mine.items()}}
