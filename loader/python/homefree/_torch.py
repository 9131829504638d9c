"""Arguments for torch.utils.cpp_extension."""

import os
import shlex
import sys

from . import _link

# The arguments of setup.py with which nothing is built for a wheel, by hand and from pip.
_IN_PLACE = {"develop", "editable_wheel", "--inplace", "-i"}

# torch gives the name to the compiler itself.
_NAME = "HOMEFREE_MODULE_NAME"
_TORCH_NAME = "TORCH_EXTENSION_NAME"


def _for_shell(words):
    """Words for a shell that ninja starts."""
    return [shlex.quote(word).replace("$", "$$") for word in words]


def torch_extension_args(*, load=False, name=None, **own):
    """Keyword arguments that link a torch extension with homefree, fresh ones at each call.

        CppExtension("op", ["op.cpp"], **homefree.torch_extension_args())
        CUDAExtension("op", ["op.cpp", "op_cuda.cu"], **homefree.torch_extension_args())
        load("op", ["op.cpp"], **homefree.torch_extension_args(load=True))

    load: the keywords of torch's load() and load_inline(), which has other names for everything.
    name: the module's full name, needed where it lies in a package and homefree comes from a wheel:
    from it follows the way from the module to homefree's library.
    own: arguments of yours that have the same keyword (include_dirs, define_macros,
    extra_link_args, runtime_library_dirs; extra_cflags, extra_cuda_cflags, extra_ldflags): they
    come first in what is returned. Others are returned as they are.

    A wheel's module that is to say what to install where homefree is missing, or to export more
    names, takes homefree.setuptools.Extension.of(CppExtension(...)) in place of these.

    The module exports its PyInit_ function alone, and what it does not use is not linked.

    Raises FileNotFoundError where this copy of homefree has no headers or libraries.
    """
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_modules.map")
    include = _link.include_dir()
    if load:
        # It stays on this machine, in torch's cache.
        words = _link.arguments(script, _link.folders_on_this_machine())
        # Not extra_include_paths, which some versions quote and others do not.
        compiling = _for_shell([f"-I{include}", f"-D{_NAME}={_TORCH_NAME}"])
        mine = {
            "extra_cflags": compiling,
            "extra_cuda_cflags": compiling,
            "extra_ldflags": _for_shell(words),
        }
    else:
        in_place = not _IN_PLACE.isdisjoint(sys.argv)
        folders = _link.folders_on_this_machine() if in_place else _link.folders_from(name or "")
        # The only place in front of torch's libraries: the linker's next word follows the comma.
        # It leaves out the libraries that the module does not use.
        first = next((folder for folder in folders if "," not in folder), "$ORIGIN")
        mine = {
            "include_dirs": [include],
            "define_macros": [(_NAME, _TORCH_NAME)],
            "extra_link_args": _link.arguments(script, folders),
            "runtime_library_dirs": [f"{first},--as-needed"],
        }
    return {**own, **{key: [*(own.get(key) or ()), *value] for key, value in mine.items()}}
