# SPDX-License-Identifier: BSD-2-Clause
"""A request to load() or build(): its arguments, checked and with absolute paths, what the
environment adds to them, and the place in the cache where its answer lies.

Every load() executes it, so it imports nothing that a bare Python has not loaded already. The
environment is the only state. Threads: any.
"""

import os

from .. import _importing
from . import _index

SUFFIX = _importing.SUFFIX

# Variables that compilers and linkers read, and variables that select the programs to run.
FLAGS = ("CPPFLAGS", "CFLAGS", "CXXFLAGS", "LDFLAGS")
FLAGS += ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH")
FLAGS += ("GCC_EXEC_PREFIX", "SOURCE_DATE_EPOCH", "NVCC_PREPENDFLAGS", "NVCC_APPENDFLAGS")
_PROGRAMS = ("PATH", "CC", "CXX", "CUDACXX", "CUDA_HOME", "CUDA_PATH")

_LANGUAGES = {
    ".c": "c",
    ".cc": "c++",
    ".cpp": "c++",
    ".cxx": "c++",
    ".c++": "c++",
    ".C": "c++",
    ".cu": "cuda",
}


def environment(names):
    """{name: value} of those environment variables that are set."""
    return {name: os.environ[name] for name in names if name in os.environ}


def paths(what, value):
    """A path, or an iterable of paths, as a list of absolute paths; None gives an empty list."""
    if value is None:
        return []
    if isinstance(value, (str, bytes)) or hasattr(value, "__fspath__"):
        value = [value]
    found = []
    for path in value:
        path = os.fsdecode(path)
        if not path or "\n" in path or "\0" in path:
            raise ValueError(
                f"{what}: {path!r} is not a path; it must be non-empty, without newlines and NULs"
            )
        found.append(os.path.abspath(path))
    return found


def _words(what, value):
    if value is None:
        return []
    if isinstance(value, str):
        raise TypeError(f"{what} must be a list of arguments, not one str; write [{value!r}]")
    words = [os.fspath(word) for word in value]
    for word in words:
        if not isinstance(word, str) or "\n" in word or "\0" in word:
            raise ValueError(
                f"{what}: {word!r} is not a compiler argument; use a str without newlines and NULs"
            )
    return words


# The options that are lists, in the order of load(), and the function that reads each.
LISTS = {
    "extra_cflags": _words,
    "extra_cxxflags": _words,
    "extra_cuda_cflags": _words,
    "extra_ldflags": _words,
    "extra_include_paths": paths,
}


class Request:
    """The arguments of load() or build(), and what follows from them.

    name, sources, rpath, cuda, torch and the options of LISTS are the arguments as read; last is
    the last part of the name, languages has the language of each source, compilers is {variable:
    command}, environment has the compilers' variables that are set. text is everything that decides
    the result except the content of files: requests with equal texts are the same. root is the
    cache directory, directory the module's own in it.
    """

    def __init__(
        self,
        name,
        sources,
        *,
        build_directory=None,
        rpath=True,
        with_cuda=None,
        torch=False,
        **lists,
    ):
        self.name = name
        self.last = name.rpartition(".")[2]
        self.sources = paths("sources", sources)
        if not self.sources:
            raise ValueError(f"{name!r} has no sources; name at least one")
        for option, read in LISTS.items():
            setattr(self, option, read(option, lists.pop(option, None)))
        if lists:
            raise TypeError(f"build() got an unexpected keyword argument {min(lists)!r}")
        self.languages = [_language(path) for path in self.sources]
        self.cuda = "cuda" in self.languages if with_cuda is None else bool(with_cuda)
        self.torch = _torch_version() if torch else None
        self.rpath = bool(rpath)
        programs = environment(_PROGRAMS)
        self.compilers = _compilers(self, programs.get)
        self.environment = environment(FLAGS)
        flags = repr([getattr(self, option) for option in LISTS])
        self.text = _text(self, _processor() if "native" in flags else "")
        self.root = cache_root(name, build_directory)
        self.directory = f"{self.root}/{name}"

    def find(self):
        """The path of a cached module that answers the request and whose files stat() reports
        unchanged, or None."""
        return _index.find(self.root, self.directory, self.text)


def _escaped(field):
    return field.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


def _text(request, processor):
    """The text of a request, one line: fields with tabs between them."""
    fields = [request.name]
    for values in (request.sources, *(getattr(request, option) for option in LISTS)):
        fields += str(len(values)), *values
    fields += str(int(request.cuda)), request.torch or "", str(int(request.rpath))
    for variables in (request.compilers, request.environment):
        fields += (f"{name}={value}" for name, value in variables.items())
        fields.append("")
    return "\t".join([*map(_escaped, (*fields, processor)), _importing.PYTHON])


def _compilers(request, get):
    """{variable: command}: the compiler commands that the request needs."""
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


def _language(path):
    language = _LANGUAGES.get("." + path.rpartition(".")[2])
    if language is None:
        raise ValueError(
            f"{path}: the suffix does not name a known language; use one of {', '.join(_LANGUAGES)}"
        )
    return language


def _torch_version():
    import torch

    return torch.__version__


def _processor():
    """The processor's features. -march=native compiles for them, and machines may share a cache."""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        return next((line for line in file if line.startswith(("flags", "Features"))), "")


def cache_root(name, build_directory):
    """The cache directory for a module. BuildError if there is neither a setting nor a home
    directory.

    A build_directory is also exported through the environment, so that child processes use it.
    """
    variable = "HOMEFREE_BUILD_DIR_" + name.replace(".", "_")
    if build_directory is not None:
        root = os.path.abspath(os.fsdecode(build_directory))
        os.environ[variable] = root
        return root
    get = os.environ.get
    given = get(variable) or get("HOMEFREE_BUILD_DIR")
    if given:
        return os.path.abspath(given)
    home = get("XDG_CACHE_HOME") or ""
    if not os.path.isabs(home):
        home = os.path.join(os.path.expanduser("~"), ".cache")
        if not os.path.isabs(home):
            from ._errors import BuildError

            raise BuildError(
                "homefree has no cache directory, because this user has no home directory; set "
                "HOMEFREE_BUILD_DIR"
            )
    return os.path.join(home, "homefree")
