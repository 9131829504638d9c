"""Extension modules that are compiled when they are loaded: load() and build().

    from homefree import extension

    fast = extension.load("fast", [os.path.join(os.path.dirname(__file__), "fast.c")])

What was compiled once is kept, and loaded again as long as the sources, the headers that the
compiler read, the flags, the compiler, the Python and homefree are the same. A warm load is what
this file does: it has warm.c compare what stat() says of them, and imports. The rest is imported
when it is needed: _cache.py (what the same content is, locks, files), _build.py (compilers, ninja),
_prebuilt.py.

The cache lies in HOMEFREE_BUILD_DIR, by default ~/.cache/homefree (XDG_CACHE_HOME is honoured),
with a folder for each module:

    <module>/index          for each request (name, sources, flags, …) the entries that answered it,
                            and what stat() has to say of the files behind them
    <module>/<entry>/       the module, and `record`: all that it was made of, with hashes
    <module>/lock           locked by the process that builds
    <module>/build-…/       where one builds, or a killed process built

What is not noticed is a file that was not there before and that the compiler would find first.

Processes: any number may load at a time; one builds, the others wait for it. The lock belongs to
the kernel, which drops it when its holder dies; what that one left is removed by the next. Over NFS
the same holds within what its locks do (a machine that dies keeps its locks until the server's
lease ends), and a change of a header may be seen as late as the attribute cache allows.
Threads: any, one at a time for each name. fork: nothing is held in the child.
"""

import _frozen_importlib
import _thread
import os
import sys
from _frozen_importlib_external import ExtensionFileLoader
from _imp import extension_suffixes

from . import __version__, _homefree

__all__ = ["BuildError", "build", "load"]  # noqa: F822, build comes when it is asked for

_HERE = os.path.dirname(os.path.abspath(__file__))
SUFFIX = extension_suffixes()[0]
_PYTHON = (sys.version, SUFFIX, sys.base_prefix, __version__, _HERE)

# What compilers and linkers read by themselves, and what names them.
FLAGS = (
    b"CPPFLAGS",
    b"CFLAGS",
    b"CXXFLAGS",
    b"LDFLAGS",
    b"CPATH",
    b"C_INCLUDE_PATH",
    b"CPLUS_INCLUDE_PATH",
    b"LIBRARY_PATH",
    b"COMPILER_PATH",
    b"GCC_EXEC_PREFIX",
    b"SOURCE_DATE_EPOCH",
    b"NVCC_PREPENDFLAGS",
    b"NVCC_APPENDFLAGS",
)
_PROGRAMS = (b"PATH", b"CC", b"CXX", b"CUDACXX", b"CUDA_HOME", b"CUDA_PATH")

# Sources by their suffix: C and C++ as compilers know them, and CUDA.
_LANGUAGES = {
    ".c": "c",
    ".cc": "c++",
    ".cpp": "c++",
    ".cxx": "c++",
    ".c++": "c++",
    ".C": "c++",
    ".cu": "cuda",
}


if "t" in sys.abiflags:

    def environment(names):
        """As _homefree.environment(), which another thread's os.environ[…] = … would disturb where
        there is no GIL."""
        names = [os.fsdecode(name) for name in names]
        return {name: os.environ[name] for name in names if name in os.environ}

else:
    environment = _homefree.environment


class BuildError(ImportError):
    """A module that could not be built. The message has the command and what it said."""


class Request:
    """What load() was asked for, with every path absolute. text: all that decides the result but
    the content of files."""

    def __init__(
        self,
        name,
        sources,
        extra_cflags=None,
        extra_cxxflags=None,
        extra_cuda_cflags=None,
        extra_ldflags=None,
        extra_include_paths=None,
        with_cuda=None,
        torch=False,
        rpath=True,
    ):
        self.name = name
        self.last = name.rpartition(".")[2]
        self.sources = _paths("sources", sources)
        if not self.sources:
            raise ValueError(f"{name!r} has no sources; name at least one")
        self.cflags = _words("extra_cflags", extra_cflags)
        self.cxxflags = _words("extra_cxxflags", extra_cxxflags)
        self.cuda_cflags = _words("extra_cuda_cflags", extra_cuda_cflags)
        self.ldflags = _words("extra_ldflags", extra_ldflags)
        self.include_paths = _paths("extra_include_paths", extra_include_paths)
        self.languages = [_language(path) for path in self.sources]
        self.cuda = "cuda" in self.languages if with_cuda is None else bool(with_cuda)
        self.torch = _torch_version() if torch else None
        self.rpath = bool(rpath)
        programs = environment(_PROGRAMS)
        self.path = programs.get("PATH", os.defpath)
        self.compilers = _compilers(self, programs.get)
        self.environment = environment(FLAGS)
        flags = repr(
            (self.cflags, self.cxxflags, self.cuda_cflags, self.ldflags, self.include_paths)
        )
        self.text = repr(
            (
                name,
                self.sources,
                flags,
                self.cuda,
                self.torch,
                self.rpath,
                self.compilers,
                self.environment,
                _processor() if "native" in flags else None,
                _PYTHON,
            )
        )


def _compilers(request, get):
    """The commands that will be run, as the environment has them: {what for: command}."""
    commands = {}
    if "c" in request.languages:
        commands["CC"] = get("CC") or "cc"
    if request.torch or request.cuda or "c++" in request.languages:
        commands["CXX"] = get("CXX") or "c++"
    if "cuda" in request.languages:
        home = get("CUDA_HOME") or get("CUDA_PATH")
        nvcc = os.path.join(home, "bin", "nvcc") if home else "nvcc"
        commands["CUDACXX"] = get("CUDACXX") or nvcc
    return commands


def _words(what, value):
    if value is None:
        return []
    if isinstance(value, str):
        raise TypeError(f"{what} is a list of arguments, not one str; write [{value!r}]")
    words = [os.fspath(word) for word in value]
    for word in words:
        if not isinstance(word, str) or "\n" in word or "\0" in word:
            raise ValueError(f"{what}: {word!r} is no argument of a compiler")
    return words


def _paths(what, value):
    if value is None:
        return []
    if isinstance(value, (str, bytes)) or hasattr(value, "__fspath__"):
        value = [value]
    paths = []  # absolute
    for path in value:
        path = os.fsdecode(path)
        if not path or "\n" in path or "\0" in path:
            raise ValueError(f"{what}: {path!r} is no path")
        paths.append(os.path.abspath(path))
    return paths


def _language(path):
    language = _LANGUAGES.get("." + path.rpartition(".")[2])
    if language is None:
        raise ValueError(
            f"{path}: the language is not known by its suffix; name it {', '.join(_LANGUAGES)}"
        )
    return language


def _torch_version():
    import torch

    return torch.__version__


def _processor():
    """With -march=native the processor decides as well; a cache may be shared by machines."""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        return next((line for line in file if line.startswith(("flags", "Features"))), None)


def check_name(name):
    if not isinstance(name, str):
        raise TypeError(f"a module's name is a str, not {type(name).__name__}")
    if not name.isascii() or not all(map(str.isidentifier, name.split("."))):
        raise ValueError(
            f"{name!r} is no module's name: identifiers of ASCII letters, digits and '_', joined "
            "by dots"
        )


# ---- where the cache is ----


def _variable(name):
    return "HOMEFREE_BUILD_DIR_" + name.replace(".", "_")


def root_of(name, build_directory):
    """The cache's folder. What a process was told with build_directory=, its children are told
    through the environment."""
    if build_directory is not None:
        root = os.path.abspath(os.fsdecode(build_directory))
        os.environ[_variable(name)] = root
        return root
    own = _variable(name)
    get = environment((own.encode(), b"HOMEFREE_BUILD_DIR", b"XDG_CACHE_HOME")).get
    given = get(own) or get("HOMEFREE_BUILD_DIR")
    if given:
        return os.path.abspath(given)
    home = get("XDG_CACHE_HOME") or ""
    if not os.path.isabs(home):
        home = os.path.join(os.path.expanduser("~"), ".cache")
        if not os.path.isabs(home):
            raise BuildError(
                "homefree has no cache folder: there is no home; set HOMEFREE_BUILD_DIR"
            )
    return os.path.join(home, "homefree")


# ---- the warm load ----


def find(root, folder, request):
    """The path of a module that fits and that nothing has touched since; else None. Files that have
    changed are not read: see _cache.py, which writes what this reads."""
    return _homefree.find_warm(root, folder, request.text, request.path)


def _import(name, path):
    """What the import statement does with an extension module that it has found."""
    spec = _frozen_importlib.ModuleSpec(name, ExtensionFileLoader(name, path), origin=path)
    spec.has_location = True
    try:
        module = _frozen_importlib.module_from_spec(spec)
    except ImportError as error:
        from ._cache import unloadable

        raise unloadable(name, path, error) from None
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    module = sys.modules.get(name, module)
    parent, _, last = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], last, module)
    return module


def _present_or_import(name, path):
    module = sys.modules.get(name)
    if module is None:
        return _import(name, path)
    loaded = getattr(module, "__file__", None)
    if path is not None and loaded == path:
        return module
    from ._cache import occupied

    return occupied(name, path, module)


# One thread at a time for each name. The child of a fork has one thread, and none of them taken.
_locks = {}
os.register_at_fork(after_in_child=_locks.clear)


def load(
    name,
    sources=(),
    *,
    extra_cflags=None,
    extra_cxxflags=None,
    extra_cuda_cflags=None,
    extra_ldflags=None,
    extra_include_paths=None,
    build_directory=None,
    verbose=None,
    with_cuda=None,
    torch=False,
    prebuilt=None,
):
    """Compiles an extension module if need be, imports it, and returns it.

    name: the module's full name. It is written here only: the macro HOMEFREE_MODULE_NAME is its
    last part, so that `PyMODINIT_FUNC HF_MODULE_INIT(void)` (homefree/python.h) or
    `PYBIND11_MODULE(HOMEFREE_MODULE_NAME, m)` need not repeat it.

    sources: C (.c), C++ (.cc, .cpp, .cxx) and CUDA (.cu) files. Relative paths start at the current
    folder; a package names its own by os.path.dirname(__file__).

    extra_cflags are given to the C and the C++ compiler, extra_cxxflags to the C++ compiler,
    extra_cuda_cflags to nvcc, extra_ldflags to the linker: lists of arguments, in which paths must
    be absolute. extra_include_paths: folders to search for headers. Without them it is -O2, and
    C++17 where no -std= is among them. CC, CXX, CUDACXX (or CUDA_HOME), CPPFLAGS, CFLAGS, CXXFLAGS,
    LDFLAGS and MAX_JOBS are honoured. with_cuda: link with CUDA's runtime; None: when there are .cu
    files. torch: import torch, compile and link with it, and define TORCH_EXTENSION_NAME too.

    build_directory: a cache folder instead of HOMEFREE_BUILD_DIR. Child processes get it through
    the environment (HOMEFREE_BUILD_DIR_<name>), so they reuse what is there without naming it.

    verbose: True: say on stderr what is done, with the compilers' warnings; False: say nothing;
    None: show progress and warnings if stderr is a terminal.

    prebuilt: a file, a folder or a package (its name, or the module) that may have the module
    already, as build() puts it into a wheel. It is taken if it is for this Python and this machine,
    and if the sources, where they are there, are those it was made of; without a record of them
    beside it (<file>.sources) it is taken as it is. Otherwise the sources are compiled.

    The module is entered in sys.modules, as by import. When it is there already and was made of the
    same, that one is returned; else ImportError: Python cannot take a module back.

    Raises BuildError, an ImportError, with the compiler's own lines and what to do, when it cannot
    be built; ValueError and TypeError for arguments that make no sense; what the module itself
    raises is passed on. Threads and processes: any.
    """
    check_name(name)
    lock = _locks.setdefault(name, _thread.RLock())
    with lock:
        if prebuilt is not None:
            from . import _prebuilt

            path = _prebuilt.find(name, _paths("sources", sources), prebuilt, verbose)
            if path is not None:
                return _present_or_import(name, path)
        request = Request(
            name,
            sources,
            extra_cflags,
            extra_cxxflags,
            extra_cuda_cflags,
            extra_ldflags,
            extra_include_paths,
            with_cuda,
            torch,
        )
        root = root_of(name, build_directory)
        folder = f"{root}/{name}"
        path = find(root, folder, request)
        if path is None:
            from . import _cache

            if name in sys.modules:
                path = _cache.find(root, folder, request)
            else:
                path = _cache.find_or_build(root, folder, request, verbose)
        try:
            return _present_or_import(name, path)
        except ImportError:
            if path is None or os.path.exists(path):
                raise
        # It went before it was opened, as the oldest one does when another process builds.
        from . import _cache

        return _import(name, _cache.find_or_build(root, folder, request, verbose))


def __getattr__(name):
    if name != "build":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ._prebuilt import build

    return build
