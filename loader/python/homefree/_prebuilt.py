"""Modules that were built before, as a wheel ships them: prebuilt= and build() of extension.py."""

import os
import sys
from _imp import extension_suffixes

from . import _homefree, extension

RECORD = "homefree-sources 1"


def _folder_of(package):
    """The folders of a package: a module, or the name of one."""
    if isinstance(package, str):
        from importlib.util import find_spec

        try:
            spec = find_spec(package)
        except (ImportError, ValueError):
            spec = None
        return list(spec.submodule_search_locations or ()) if spec else []
    return list(package.__path__)


def _candidates(name, prebuilt):
    """(folders or files to look at, what to call them)"""
    last = name.rpartition(".")[2]
    if hasattr(prebuilt, "__path__"):
        places, what = _folder_of(prebuilt), f"the package {prebuilt.__name__}"
    else:
        path = os.fsdecode(prebuilt)
        dotted = isinstance(prebuilt, str) and all(part.isidentifier() for part in path.split("."))
        if dotted and not os.path.exists(path):
            places, what = _folder_of(path), f"the package {path}"
        else:
            places, what = [os.path.abspath(path)], os.path.abspath(path)
    files = []
    for place in places:
        if not os.path.isdir(place):
            files.append(place)
            continue
        own = [f"{place}/{last}{suffix}" for suffix in extension_suffixes()]
        files += [path for path in own if os.path.exists(path)]
        # Those of other Pythons, to say so.
        files += sorted(
            f"{place}/{file}"
            for file in os.listdir(place)
            if file.startswith(last + ".") and file.endswith(".so")
        )
    return dict.fromkeys(files), what


def _unfit(path, sources):
    """Why a file cannot be taken; None."""
    # "name.cpython-312-x86_64-linux-gnu.so", "name.abi3.so", "name.so"
    tag = os.path.basename(path).partition(".")[2]
    if "." + tag not in extension_suffixes():
        own = extension_suffixes()[0].split(".")[1]
        return f"it is built for another Python ({tag.rpartition('.')[0] or tag}), this is {own}"
    try:
        with open(path, "rb") as file, open(_homefree.__file__, "rb") as own:
            head, wanted = file.read(20), own.read(20)
    except OSError as error:
        return error.strerror
    if head[:4] != b"\x7fELF" or len(head) < 20:
        return "it is no shared object"
    # Word size, byte order, machine.
    if head[4:6] != wanted[4:6] or head[18:20] != wanted[18:20]:
        return "it is built for another machine"
    return _changed(path, sources)


def _changed(path, sources):
    """Which source is not what the module was made of; None, also where nothing tells."""
    sources = [source for source in sources if os.path.exists(source)]
    if not sources:
        return None
    try:
        with open(path + ".sources", encoding="utf-8") as file:
            lines = file.read().split("\n")
    except OSError:
        return None
    if lines[0] != RECORD:
        return None
    from ._cache import Hashes

    hashes = Hashes()
    known = dict(line.split(" ", 1)[::-1] for line in lines[1:] if " " in line)
    for source in sources:
        if known.get(os.path.basename(source)) != hashes.of(source):
            return f"{source} is not what it was made of"
    return None


def find(name, sources, prebuilt, verbose):
    """The path of a prebuilt module that fits; None where the sources are to be compiled.
    ImportError where there are none of these either."""
    files, what = _candidates(name, prebuilt)
    reasons = []
    for path in files:
        reason = _unfit(path, sources)
        if reason is None:
            return path
        reasons.append(f"{path}: {reason}")
    why = "; ".join(reasons) or f"there is none in {what}"
    if not any(os.path.exists(source) for source in sources):
        raise ImportError(
            f"homefree cannot load {name!r}: no prebuilt module fits ({why}), and the sources are "
            "not there; install the package for this Python, or build it from its sources",
            name=name,
        )
    if verbose:
        print(f"homefree: no prebuilt {name} is taken ({why}); building it", file=sys.stderr)
    return None


def _put(path, request, folder):
    """Copies a module and the record of its sources into a folder. Result: the copy's path."""
    import shutil

    from ._cache import Hashes, replace

    os.makedirs(folder, exist_ok=True)
    target = os.path.join(folder, os.path.basename(path))
    hashes = Hashes()
    lines = [f"{hashes.of(source)} {os.path.basename(source)}" for source in request.sources]
    other = f"{target}.{os.getpid()}.new"
    shutil.copyfile(path, other)
    os.chmod(other, 0o755)
    os.rename(other, target)
    replace(target + ".sources", "\n".join([RECORD, *lines, ""]))
    return target


def build(name, sources, output, *, build_directory=None, verbose=None, **options):
    """Compiles as load() does, and puts the module into the folder `output` for load(prebuilt=):
    what a wheel ships.

    Beside it comes <file>.sources, which says of what sources it was made. The module has no path
    of this machine in it: it finds libhomefree because homefree, with which it is loaded, is there.
    options: load()'s extra_cflags, extra_cxxflags, extra_cuda_cflags, extra_ldflags,
    extra_include_paths, with_cuda, torch. Errors are load()'s. Result: the module's path.
    """
    extension.check_name(name)
    request = extension.Request(name, sources, **options, rpath=False)
    root = extension.root_of(name, build_directory)
    from ._cache import find_or_build

    path = find_or_build(root, f"{root}/{name}", request, verbose)
    return _put(path, request, os.path.abspath(os.fsdecode(output)))
