# SPDX-License-Identifier: BSD-2-Clause
"""The command lines that compile and link a request. Nothing here keeps state."""

import os
import re
import shlex
import sysconfig

from .. import _directories, _link
from ._compilers import which, words_of

_STD = 17


class _Torch:
    """Torch's headers, libraries and definitions."""

    def __init__(self, cuda):
        import torch
        from torch.utils import cpp_extension

        self.include_paths = list(cpp_extension.include_paths())
        names = ["c10", "torch_cpu", "torch", "torch_python"]
        if cuda:
            names += ["c10_cuda", "torch_cuda"]
        self.link = [f"-L{path}" for path in cpp_extension.library_paths()]
        self.link += [f"-l{name}" for name in names]
        self.defines = [
            "-DTORCH_API_INCLUDE_EXTENSION_H",
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        ]
        for name in ("COMPILER_TYPE", "STDLIB", "BUILD_ABI"):
            value = getattr(torch._C, f"_PYBIND11_{name}", None)
            if value is not None:
                self.defines.append(f'-DPYBIND11_{name}="{value}"')
        self.std = max(_STD, _required_std(self.include_paths))


def _required_std(directories):
    """The oldest C++ that ATen's headers accept (20 for C++20), as they write it themselves: torch
    names it nowhere else. 0 if they do not."""
    for directory in directories:
        try:
            with open(os.path.join(directory, "ATen", "ATen.h"), encoding="utf-8") as file:
                found = re.search(r"__cplusplus\s*<\s*20(\d\d)\d\dL", file.read())
        except OSError:
            continue
        return int(found[1]) if found else 0
    return 0


class Commands:
    """The command lines for a request, as lists of words; they run in the directory that receives
    the results. BuildError if a compiler is missing."""

    def __init__(self, request):
        self.request = request
        self.torch = _Torch(request.cuda) if request.torch else None
        self.compilers = {what: words_of(request, what) for what in request.compilers}
        self.directories = [_directories.get_library_dir()] if request.rpath else []

    def _given(self, variable):
        return shlex.split(self.request.environment.get(variable, ""))

    def _cuda_home(self):
        home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
        if home:
            return home
        nvcc = which(self.request.compilers.get("CUDACXX", "nvcc"))
        if nvcc is None:
            return "/usr/local/cuda"
        return os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))

    def _defines(self):
        defines = [f"-DHOMEFREE_MODULE_NAME={self.request.last}"]
        if self.torch:
            defines += [f"-DTORCH_EXTENSION_NAME={self.request.last}", *self.torch.defines]
        return defines

    def _includes(self):
        own = [f"-I{path}" for path in self.request.extra_include_paths]
        paths = [_directories.get_include(), sysconfig.get_path("include")]
        paths += [sysconfig.get_path("platinclude")]
        if self.torch:
            paths += self.torch.include_paths
        if self.request.cuda:
            paths.append(os.path.join(self._cuda_home(), "include"))
        for path in dict.fromkeys(os.path.normpath(path) for path in paths):
            # Naming the system's directory again would move it in the search order.
            if path != "/usr/include":
                own += ["-isystem", path]
        return own

    def _std(self, words):
        """The standard, unless words choose it: the compiler's command counts too, as in CXX."""
        if any(word.partition("=")[0] in ("-std", "--std") for word in words):
            return []
        return [f"-std=c++{self.torch.std if self.torch else _STD}"]

    def compile(self, source, language, target):
        """The command that compiles a source to target, and writes target.d for make."""
        return [*self._compiler(language), "-MD", "-MF", target + ".d", "-c", source, "-o", target]

    def search(self, language):
        """The command that lists on stderr where headers of a source are searched for."""
        asked = ["-x", "cu", "-Xcompiler", "-v"] if language == "cuda" else ["-x", language, "-v"]
        return [*self._compiler(language), "-E", *asked, "/dev/null"]

    def _compiler(self, language):
        request = self.request
        own = [*self._defines(), *self._includes(), *self._given("CPPFLAGS")]
        plain = ["-O2", "-fPIC", "-fvisibility=hidden"]
        if language == "c":
            words = [*plain, *own, *self._given("CFLAGS"), *request.extra_cflags]
            return [*self.compilers["CC"], *words]
        if language == "c++":
            compiler = self.compilers["CXX"]
            words = [*self._given("CXXFLAGS"), *request.extra_cflags, *request.extra_cxxflags]
            std = self._std([*compiler, *own, *words])
            return [*compiler, *plain, *std, *own, *words]
        compiler = self.compilers["CUDACXX"]
        words = request.extra_cuda_cflags
        host = self.compilers["CXX"]
        plain = ["-O2", "-Xcompiler", "-fPIC,-fvisibility=hidden"]
        if len(host) == 1:
            plain += ["-ccbin", host[0]]
        std = self._std([*compiler, *own, *words])
        return [*compiler, *plain, *std, *own, *words]

    def link(self, objects, script, target):
        """The command that links objects to the module target, with a version script."""
        request = self.request
        words = [*self.compilers["CXX" if "CXX" in self.compilers else "CC"], "-shared"]
        words += [*objects, "-o", target, *self._given("LDFLAGS"), "-Wl,--as-needed"]
        own, runtimes = _link.runtimes_apart(request.extra_ldflags)
        words += own
        if self.torch:
            words += self.torch.link
        if request.cuda:
            directory = os.path.join(self._cuda_home(), "lib64")
            words += [f"-L{directory}", "-lcudart"]
            if request.rpath:
                words.append(f"-Wl,-rpath,{directory}")
        # After them: the shim's malloc resolves what everything before it calls.
        return words + _link.arguments(script, self.directories) + runtimes
