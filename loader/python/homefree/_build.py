"""How homefree.extension compiles: the commands, ninja, and what is shown of them."""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig

from . import _folders, _link, extension
from .extension import BuildError

_STD = "-std=c++17"

_COMPILERS = {
    "CC": ("C compiler", "install one (on Debian and Ubuntu: build-essential), or set CC"),
    "CXX": ("C++ compiler", "install one (on Debian and Ubuntu: build-essential), or set CXX"),
    "CUDACXX": ("CUDA compiler", "install CUDA's toolkit, or set CUDA_HOME or CUDACXX"),
}


class Terminal:
    """What is said on stderr: everything with verbose=True, nothing with False, and with None
    what a terminal is for."""

    def __init__(self, verbose):
        self._stream = sys.stderr
        terminal = False
        with contextlib.suppress(AttributeError, ValueError, OSError):
            terminal = self._stream.isatty()
        self._speaks = self._stream is not None and (terminal if verbose is None else bool(verbose))
        plain = os.environ.get("TERM", "dumb") == "dumb"
        self._moves = self._speaks and terminal and not plain
        self._colours = self._moves and not os.environ.get("NO_COLOR")
        self._shown = False

    def _write(self, text):
        # A terminal that went away must not make the build fail.
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()

    def _text(self, text):
        return f"\x1b[1mhomefree:\x1b[0m {text}" if self._colours else f"homefree: {text}"

    def line(self, text):
        """A line that stays."""
        if self._speaks:
            self.clear()
            self._write(self._text(text) + "\n")

    def raw(self, text):
        """A line of somebody else's."""
        if self._speaks:
            self.clear()
            self._write(text + "\n")

    def status(self, text):
        """A line that the next one takes the place of; without a terminal, a line."""
        if self._moves:
            self._write("\r" + self._text(text) + "\x1b[K")
            self._shown = True
        elif self._speaks:
            self._write(self._text(text) + "\n")

    def clear(self):
        if self._shown:
            self._write("\r\x1b[K")
            self._shown = False


# ---- what is needed ----


def _ninja():
    for name in ("ninja", "ninja-build"):
        path = shutil.which(name)
        if path:
            return path
    with contextlib.suppress(ImportError, AttributeError):
        import ninja

        path = os.path.join(ninja.BIN_DIR, "ninja")
        if os.access(path, os.X_OK):
            return path
    raise BuildError(
        "homefree cannot build: there is no ninja on PATH; install it (on Debian and Ubuntu: "
        "ninja-build; with pip: ninja)"
    )


def program_of(command):
    """The first word of a command."""
    if "'" in command or '"' in command or "\\" in command:
        return shlex.split(command)[0]
    return command.partition(" ")[0]


def which(command):
    """The file that a command's first word runs, or None."""
    word = program_of(command)
    if "/" in word:
        return word if os.access(word, os.X_OK) else None
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = f"{folder or '.'}/{word}"
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return None


def _compiler(request, what):
    command = request.compilers[what]
    if which(command) is None:
        kind, remedy = _COMPILERS[what]
        raise BuildError(
            f"homefree cannot build {request.name!r}: there is no {kind}: {command!r} is not "
            f"found; {remedy}",
            name=request.name,
        )
    return shlex.split(command)


# ---- the commands ----


class _Torch:
    """Where torch's headers and libraries are, and what its modules agree on."""

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


class _Commands:
    """The command lines for a request, run in the folder that the results go to."""

    def __init__(self, request):
        self.request = request
        self.torch = _Torch(request.cuda) if request.torch else None
        self.compilers = {what: _compiler(request, what) for what in request.compilers}
        self.folders = [_folders.get_library_dir()] if request.rpath else []

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
        own = [f"-I{path}" for path in self.request.include_paths]
        paths = [_folders.get_include(), sysconfig.get_path("include")]
        paths += [sysconfig.get_path("platinclude")]
        if self.torch:
            paths += self.torch.include_paths
        if self.request.cuda:
            paths.append(os.path.join(self._cuda_home(), "include"))
        for path in dict.fromkeys(os.path.normpath(path) for path in paths):
            # Given once more, the system's folder would be searched in another place.
            if path != "/usr/include":
                own += ["-isystem", path]
        return own

    def compile(self, source, language, target):
        request = self.request
        own = [*self._defines(), *self._includes(), *self._given("CPPFLAGS")]
        end = ["-MD", "-MF", target + ".d", "-c", source, "-o", target]
        plain = ["-O2", "-fPIC", "-fvisibility=hidden"]
        if language == "c":
            words = [*plain, *own, *self._given("CFLAGS"), *request.cflags]
            return [*self.compilers["CC"], *words, *end]
        if language == "c++":
            words = [*self._given("CXXFLAGS"), *request.cflags, *request.cxxflags]
            return [*self.compilers["CXX"], *plain, *_std(words), *own, *words, *end]
        words = request.cuda_cflags
        host = self.compilers["CXX"]
        plain = ["-O2", "-Xcompiler", "-fPIC,-fvisibility=hidden"]
        if len(host) == 1:
            plain += ["-ccbin", host[0]]
        return [*self.compilers["CUDACXX"], *plain, *_std(words), *own, *words, *end]

    def link(self, objects, script, target):
        request = self.request
        words = [*self.compilers["CXX" if "CXX" in self.compilers else "CC"], "-shared"]
        words += [*objects, "-o", target, *self._given("LDFLAGS"), "-Wl,--as-needed"]
        words += request.ldflags
        if self.torch:
            words += self.torch.link
        if request.cuda:
            folder = os.path.join(self._cuda_home(), "lib64")
            words += [f"-L{folder}", "-lcudart"]
            if request.rpath:
                words.append(f"-Wl,-rpath,{folder}")
        # Last: the shim's malloc is for whoever asked for one before.
        return words + _link.arguments(script, self.folders)


def _std(words):
    return [] if any(word.startswith(("-std=", "--std=")) for word in words) else [_STD]


# ---- ninja ----


def _escaped(path):
    return re.sub(r"([$ :])", r"$\1", path)


def _edge(target, inputs, title, command, depfile=None):
    lines = [f"build {_escaped(target)}: run {' '.join(_escaped(path) for path in inputs)}"]
    lines.append("  words = " + " ".join(map(shlex.quote, command)).replace("$", "$$"))
    lines.append("  title = " + title.replace("$", "$$"))
    if depfile:
        lines.append("  made_of = " + _escaped(depfile))
    return "\n".join(lines)


_RULE = """rule run
  command = $words
  description = $title
  depfile = $made_of
"""
# Before each step that ninja tells of, so that nothing of a compiler's is taken for one.
_MARK = "\x1e"


def build(request, work, say):
    """Compiles into the folder work. Result: the module, and every file that was read."""
    commands = _Commands(request)
    module = request.last + extension.SUFFIX
    objects, edges = [], []
    for number, (source, language) in enumerate(zip(request.sources, request.languages)):
        target = f"{number}.o"
        title = f"compiling {os.path.basename(source)}"
        command = commands.compile(source, language, target)
        edges.append(_edge(target, [source], title, command, target + ".d"))
        objects.append(target)
    exports = _link.exports_command("exports.map", request.last)
    edges.append(_edge("exports.map", [], "writing the version script", exports))
    link = commands.link(objects, "exports.map", module)
    edges.append(_edge(module, [*objects, "exports.map"], f"linking {request.last}", link))
    with open(f"{work}/build.ninja", "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write("\n".join([_RULE, *edges, ""]))
    _run(request, work, say)
    files = dict.fromkeys(request.sources)
    for target in objects:
        files.update(dict.fromkeys(_read_depfile(f"{work}/{target}.d", work)))
    # The shim becomes part of the module.
    return f"{work}/{module}", [*files, _link.libraries()[0]]


def _run(request, work, say):
    command = [_ninja()]
    if os.environ.get("MAX_JOBS", "").isdigit():
        command += ["-j", os.environ["MAX_JOBS"]]
    say.status(f"building {request.name}")
    # What the request has of the environment is what the compilers get, whoever changed which.
    others = {key: value for key, value in os.environb.items() if key not in extension.FLAGS}
    process = subprocess.Popen(
        command,
        cwd=work,
        env={**others, **request.environment, "NINJA_STATUS": f"{_MARK}%f/%t{_MARK}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    lines = []
    try:
        for line in process.stdout:
            line = line.rstrip("\n")
            if line.startswith(_MARK):
                _, count, title = line.split(_MARK, 2)
                say.status(f"building {request.name}: {count} {title}")
            elif line.strip():
                lines.append(line)
    except BaseException:
        process.terminate()
        raise
    finally:
        process.stdout.close()
        process.wait()
    say.clear()
    if process.returncode != 0:
        raise BuildError(_failure(request, work, lines), name=request.name)
    for line in lines:
        say.raw(line)


def _failure(request, work, lines):
    """Ninja's `FAILED:` line goes, its command and the compiler's own lines stay."""
    kept = []
    for line in lines:
        if line.startswith("FAILED: "):
            kept.append("")
        elif not line.startswith("ninja: build stopped"):
            kept.append(line)
    text = "\n".join(kept)
    if not os.path.isdir(work):
        remedy = f"{work} was removed meanwhile; load it again"
    elif "No space left on device" in text:
        remedy = f"free some space in {os.path.dirname(work)}, or set HOMEFREE_BUILD_DIR"
    elif "File too large" in text or "File size limit exceeded" in text:
        remedy = "raise the limit of file sizes (ulimit -f)"
    elif "Python.h: No such file" in text:
        remedy = "install Python's headers (on Debian and Ubuntu: python3-dev)"
    elif ": error:" in text or ": fatal error:" in text:
        remedy = "correct what the compiler names, and load it again"
    else:
        remedy = "see what the command says"
    return f"homefree cannot build {request.name!r}; {remedy}:\n{text}"


def _read_depfile(path, work):
    """The files that a compiler read, as it wrote them for make."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        text = file.read().replace("\\\n", " ")
    _, _, text = text.partition(": ")
    found = []
    for word in re.findall(r"(?:\\.|[^\s\\]|\\(?=\s))+", text.split("\n\n")[0]):
        word = re.sub(r"\\([ #\\:])", r"\1", word).replace("$$", "$")
        found.append(os.path.join(work, word))
    return found
