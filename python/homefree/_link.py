# SPDX-License-Identifier: BSD-2-Clause
"""Linking a module with homefree: files, arguments, and the module's RUNPATH. setuptools, torch and
extension.load() share it.

Nothing here keeps state. Threads: any.
"""

import os
import subprocess
import sysconfig

from . import _command, _directories, _paths

# Where homefree's wheel puts the library, relative to site-packages.
_IN_SITE = "homefree/lib"

# The linker's arguments that name libc or a C++ runtime.
_RUNTIMES = ("-lstdc++", "-lsupc++", "-lc++", "-lc++abi", "-lc")

# The prefixes of the directories in which pip and other frontends make environments that they
# delete.
_PASSING = ("pip-build-env-", "build-env-", "builds-v")


def module_name(full_name):
    """The last part of a module's full name, from which its functions that Python calls are
    named."""
    parts = full_name.split(".")
    if parts[-1] == "__init__" and len(parts) > 1:
        return parts[-2]
    return parts[-1]


def include_dir():
    """The directory of homefree's headers. FileNotFoundError if this copy has none."""
    return _directories.get_include()


def libraries():
    """The files to link, in this order, after everything else. FileNotFoundError if missing."""
    directory = _directories.get_library_dir()
    shim = os.path.join(directory, "libhomefree_shim.a")
    if not os.path.exists(shim):
        # Its place in a build directory.
        built = os.path.join(os.path.dirname(directory), "shim", "libhomefree_shim.a")
        shim = built if os.path.exists(built) else shim
    found = [shim, os.path.join(directory, _paths.SONAME)]
    for path in found:
        if not os.path.exists(path):
            raise FileNotFoundError(
                f"homefree: this copy of the package has no {path}; install homefree with "
                "`meson install` or from its wheel, and import that"
            )
    return found


def stub():
    """The stub library that says what to do if homefree is missing, or None: outside of wheels, the
    stub would hide a library that the dynamic linker finds by default."""
    if not _in_package():
        return None
    try:
        path = os.path.join(_directories.get_missing_dir(), _paths.SONAME)
    except FileNotFoundError:
        return None
    return path if os.path.exists(path) else None


def exports_command(path, module, symbols=None, version=None):
    """The command that writes a module's version script to path. FileNotFoundError if `homefree` is
    missing."""
    command = [_command.find(), "exports", "--module", module]
    if symbols is not None:
        command += ["--symbols", os.fspath(symbols)]
    if version is not None:
        command += ["--version", version]
    return [*command, "-o", path]


def write_exports(path, module, symbols=None, version=None):
    """Write a module's version script to path. An unchanged file keeps its times.

    RuntimeError with the command's message if it fails; FileNotFoundError if it is missing.
    """
    _run(exports_command(path, module, symbols, version))


def check_exports(path, module):
    """Raise RuntimeError if the module at path has no function that Python calls, which a linker
    does not notice. FileNotFoundError if the command is missing."""
    _run([_command.find(), "exports", "--module", module, "--check", path])


def _run(command):
    result = subprocess.run(command, stderr=subprocess.PIPE, check=False)
    if result.returncode != 0:
        said = result.stderr.decode(errors="replace").strip()
        raise RuntimeError(said or f"homefree exports: exit status {result.returncode}")


def _passing(path):
    return any(part.startswith(_PASSING) for part in path.split(os.sep))


def _is_default(directory):
    """Whether the dynamic linker searches a directory by default."""
    names = ["lib", "lib64", os.path.join("lib", sysconfig.get_config_var("MULTIARCH") or "")]
    known = [os.path.join(root, name) for root in ("/", "/usr") for name in names]
    return os.path.realpath(directory) in {os.path.realpath(path) for path in known}


def _in_package():
    """Whether the library lies inside the package, as in a wheel, so that both move together."""
    return not os.path.normpath(_paths.LIBRARY).startswith((os.pardir, os.sep))


def passes():
    """Whether homefree is installed in an environment that is deleted after the build."""
    return _passing(_directories.get_library_dir())


def directories_on_this_machine():
    """The RUNPATH for a module that stays on this machine: a list of absolute directories.

    It is empty if the dynamic linker finds libhomefree by default, or if the environment of
    homefree is deleted after the build.
    """
    directory = _directories.get_library_dir()
    if passes():
        # sysconfig names the Python that pip builds for, not the temporary environment.
        site = sysconfig.get_path("platlib")
        return [] if _passing(site) else [os.path.join(site, _IN_SITE)]
    return [] if _is_default(directory) else [directory]


def directories_from(full_name):
    """The RUNPATH for an installed module of that name.

    Its directories are relative to the module's own, except if homefree was not installed from a
    wheel.
    """
    origin = "/".join(["$ORIGIN", *[os.pardir] * full_name.count(".")])
    if _in_package():
        return [f"{origin}/homefree/{os.path.normpath(_paths.LIBRARY)}"]
    return [f"{origin}/{_IN_SITE}", *directories_on_this_machine()]


def directory_of_stub(full_name):
    """The end of the RUNPATH for a module with the stub beside it."""
    return f"$ORIGIN/{stub_directory(full_name)}"


def stub_directory(full_name):
    """The name of the directory beside a module that holds the stub."""
    return f"{full_name.split('.')[-1]}.needs"


def linker_words(*words):
    """The compiler's arguments that pass words to the linker, even words with commas or spaces."""
    return [word for each in words for word in ("-Xlinker", each)]


def runtimes_apart(words):
    """Splits the linker's arguments that a user wrote into (others, runtimes).

    runtimes: the shared libraries that define malloc or operator new themselves. They must come
    after arguments(), because the linker takes a function from the first library that has it. What
    is linked statically stays where it is: libstdc++.a calls the shim's malloc.
    """
    if any(word == "-static" or "-Bstatic" in word for word in words):
        return list(words), []
    others = [word for word in words if word not in _RUNTIMES]
    return others, [word for word in words if word in _RUNTIMES]


def arguments(script, directories):
    """The compiler's arguments that link a module with homefree. They must be the last ones, but
    for what runtimes_apart() takes out.

    script is the version script, or None; directories become the RUNPATH, in this order.
    """
    # --as-needed also drops unused libraries that the compiler adds after these (libm for C++).
    words = ["-Wl,--as-needed", _paths.SHIM_ASKS, *libraries()]
    if script is not None:
        words += linker_words(f"--version-script={script}")
    if directories:
        words += ["-Wl,--enable-new-dtags"]
    for directory in directories:
        words += linker_words("-rpath", directory)
    return words
