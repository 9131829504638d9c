"""What linking a module with homefree takes: for setuptools, for torch, and for extension.load().

Nothing here keeps state; everything may be called from any thread.
"""

import os
import subprocess
import sysconfig

from . import _command, _folders, _paths

# Where wheels have homefree's library, from the folder that packages are installed in.
_IN_SITE = "homefree/lib"

# How the folders begin in which front ends of builds make an environment that they delete again.
_PASSING = ("pip-build-env-", "build-env-", "builds-v")


def module_name(full_name):
    """The name that Python calls a module's function by: the last part, without the packages."""
    parts = full_name.split(".")
    if parts[-1] == "__init__" and len(parts) > 1:
        return parts[-2]
    return parts[-1]


def include_dir():
    """The folder of homefree's headers. FileNotFoundError where this copy has none."""
    return _folders.get_include()


def libraries():
    """The files to link, in this order, behind everything else. FileNotFoundError without them."""
    folder = _folders.get_library_dir()
    shim = os.path.join(folder, "libhomefree_shim.a")
    if not os.path.exists(shim):
        # Where a build folder has it.
        built = os.path.join(os.path.dirname(folder), "shim", "libhomefree_shim.a")
        shim = built if os.path.exists(built) else shim
    found = [shim, os.path.join(folder, _paths.SONAME)]
    for path in found:
        if not os.path.exists(path):
            raise FileNotFoundError(
                f"homefree: this copy of the package has no {path}; install homefree with "
                "`meson install` or from its wheel, and import that"
            )
    return found


def stub():
    """The file that says what to install where homefree is missing; None where there is none."""
    try:
        path = os.path.join(_folders.get_missing_dir(), _paths.SONAME)
    except FileNotFoundError:
        return None
    return path if os.path.exists(path) else None


def exports_command(path, module, symbols=None, version=None):
    """The words that write the version script of a module to path. FileNotFoundError without the
    command."""
    command = [_command.find(), "exports", "--module", module]
    if symbols is not None:
        command += ["--symbols", os.fspath(symbols)]
    if version is not None:
        command += ["--version", version]
    return [*command, "-o", path]


def write_exports(path, module, symbols=None, version=None):
    """Write the version script of a module to path, which is left alone if nothing changes.

    RuntimeError with the command's words where it cannot; FileNotFoundError without the command.
    """
    command = exports_command(path, module, symbols, version)
    result = subprocess.run(command, stderr=subprocess.PIPE, check=False)
    if result.returncode != 0:
        said = result.stderr.decode(errors="replace").strip()
        raise RuntimeError(said or f"homefree exports: exit status {result.returncode}")


def _passing(path):
    return any(part.startswith(_PASSING) for part in path.split(os.sep))


def _is_default(folder):
    """Whether the dynamic linker looks there by itself."""
    names = ["lib", "lib64", os.path.join("lib", sysconfig.get_config_var("MULTIARCH") or "")]
    known = [os.path.join(root, name) for root in ("/", "/usr") for name in names]
    return os.path.realpath(folder) in {os.path.realpath(path) for path in known}


def _in_package():
    """Whether the library lies inside the package, as in a wheel: then both are moved together."""
    return not os.path.normpath(_paths.LIBRARY).startswith((os.pardir, os.sep))


def passes():
    """Whether homefree lies in an environment that is deleted after the build."""
    return _passing(_folders.get_library_dir())


def folders_on_this_machine():
    """Where a module that stays on this machine finds libhomefree: a list of absolute folders.

    It is empty where the dynamic linker needs no help, and where homefree lies in an environment
    that is deleted after the build.
    """
    folder = _folders.get_library_dir()
    if passes():
        # pip puts such an environment in front of the Python that it builds for.
        site = sysconfig.get_path("platlib")
        return [] if _passing(site) else [os.path.join(site, _IN_SITE)]
    return [] if _is_default(folder) else [folder]


def folders_from(full_name):
    """Where an installed module of that name finds libhomefree: folders for its RUNPATH.

    They are relative to the module's own, except for an installation that is not a wheel's.
    """
    origin = "/".join(["$ORIGIN", *[os.pardir] * full_name.count(".")])
    if _in_package():
        return [f"{origin}/homefree/{os.path.normpath(_paths.LIBRARY)}"]
    return [f"{origin}/{_IN_SITE}", *folders_on_this_machine()]


def folders_of_stub(full_name):
    """What follows in the RUNPATH of a module that has the stub beside it: the folders of systems,
    lest it stand in front of theirs, and its own."""
    return [*_paths.SYSTEM.split(":"), f"$ORIGIN/{stub_folder(full_name)}"]


def stub_folder(full_name):
    """The name of the folder beside a module that holds the stub."""
    return f"{full_name.split('.')[-1]}.needs"


def linker_words(*words):
    """The compiler's arguments that hand words to the linker, whatever characters they hold."""
    return [word for each in words for word in ("-Xlinker", each)]


def arguments(script, folders):
    """The compiler's arguments that link a module with homefree; the last ones on the line.

    script is the version script, or None; folders become the RUNPATH, in this order.
    """
    # As needed: what the compiler adds after these (libm for C++) is left out if it is not used.
    words = ["-Wl,--as-needed", *libraries()]
    if script is not None:
        words += linker_words(f"--version-script={script}")
    if folders:
        words += ["-Wl,--enable-new-dtags"]
    for folder in folders:
        words += linker_words("-rpath", folder)
    return words
