# SPDX-License-Identifier: BSD-2-Clause
"""One build: its commands are written as a build.ninja, which ninja runs in the working directory.

Nothing here keeps state. Threads: each build has a working directory of its own.
"""

import contextlib
import os
import re
import shlex
import shutil
import subprocess

from .. import _link
from ._commands import Commands
from ._errors import BuildError
from ._lookups import Lookups, directories
from ._request import FLAGS, SUFFIX

_RULE = """rule run
  command = $words
  description = $title
  depfile = $made_of
"""
# Marks ninja's own lines, which a compiler's output must not be taken for.
_MARK = "\x1e"


def _find():
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


def _escaped(path):
    return re.sub(r"([$ :])", r"$\1", path)


def _edge(target, inputs, title, command, depfile=None):
    lines = [f"build {_escaped(target)}: run {' '.join(_escaped(path) for path in inputs)}"]
    lines.append("  words = " + " ".join(map(shlex.quote, command)).replace("$", "$$"))
    lines.append("  title = " + title.replace("$", "$$"))
    if depfile:
        lines.append("  made_of = " + _escaped(depfile))
    return "\n".join(lines)


def build(request, work, say):
    """Build a request in the directory `work`. Returns the module's path, every file that was read,
    and the Lookups of headers.

    Raises BuildError with the compiler's output.
    """
    commands = Commands(request)
    module = request.last + SUFFIX
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
    # The compilers get the variables of the request, even if another thread has changed them since.
    # What is read from ninja is never coloured, even if a notebook's kernel asks for that.
    left = (*FLAGS, "CLICOLOR_FORCE")
    others = {key: value for key, value in os.environ.items() if key not in left}
    # ccache's direct mode does not look where a header was not found.
    others["CCACHE_NODIRECT"] = "1"
    environment = {**others, **request.environment}
    _run(request, work, say, environment)
    files, lookups = {}, Lookups()
    real = os.path.realpath(work)
    for language in dict.fromkeys(request.languages):
        read = dict.fromkeys(
            path
            for target, other in zip(objects, request.languages)
            if other == language
            for path in _read_depfile(f"{real}/{target}.d", real)
        )
        lookups.add(read, *directories(commands.search(language), environment))
        files.update(read)
    # The shim becomes a part of the module.
    files = dict.fromkeys((*request.sources, *files, *lookups.asked, _link.libraries()[0]))
    return f"{work}/{module}", [*files], lookups


def _run(request, work, say, environment):
    command = [_find()]
    if os.environ.get("MAX_JOBS", "").isdigit():
        command += ["-j", os.environ["MAX_JOBS"]]
    say.status(f"building {request.name}")
    process = subprocess.Popen(
        command,
        cwd=work,
        env={**environment, "NINJA_STATUS": f"{_MARK}%f/%t{_MARK}"},
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
    """The message for a failed build: the failed command and its output, without ninja's lines."""
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
        remedy = "raise the limit on file sizes (ulimit -f)"
    elif "Python.h: No such file" in text:
        remedy = "install Python's headers (on Debian and Ubuntu: python3-dev)"
    elif ": error:" in text or ": fatal error:" in text:
        remedy = "correct the errors below, and load it again"
    else:
        remedy = "see the output of the command"
    return f"homefree cannot build {request.name!r}; {remedy}:\n{text}"


def _read_depfile(path, work):
    """The files that a compiler read, from what it wrote for make."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        text = file.read().replace("\\\n", " ")
    _, _, text = text.partition(": ")
    found = []
    for word in re.findall(r"(?:\\.|[^\s\\]|\\(?=\s))+", text.split("\n\n")[0]):
        word = re.sub(r"\\([ #\\:])", r"\1", word).replace("$$", "$")
        # ccache's base_dir makes paths relative to the working directory, which is removed.
        found.append(word if word[0] == "/" else os.path.normpath(f"{work}/{word}"))
    return found
