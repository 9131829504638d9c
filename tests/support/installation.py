"""Installed homefrees for tests: a prefix, as `meson install` makes it, and a wheel in a virtual
environment. Both from a build directory, without building anything again."""

import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile


def run(*command, cwd=None, **environment):
    """Runs a command. Result: its standard output. AssertionError with its output if it fails."""
    result = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    if result.returncode != 0:
        words = " ".join(map(str, command))
        raise AssertionError(f"{words}\n{result.stdout}\n{result.stderr}")
    return result.stdout


class Installation:
    """The paths of an installed homefree, and what a user sets to build with it."""

    def __init__(self, root, pkgconfig, command_directory, site):
        self.root, self.pkgconfig, self.site = root, pkgconfig, site
        self.library = pkgconfig.parent
        self.path = command_directory

    def build_variables(self):
        """For pkg-config and CMake."""
        return {"PKG_CONFIG_PATH": str(self.pkgconfig), "CMAKE_PREFIX_PATH": str(self.root)}


def prefix(build, directory):
    """Installs into `directory`, as a package that is unpacked elsewhere."""
    stage = pathlib.Path(directory) / "stage"
    run("meson", "install", "-C", build, "--no-rebuild", "--destdir", stage)
    for pc in stage.rglob("homefree*.pc"):
        text = pc.read_text()
        was = next(line for line in text.splitlines() if line.startswith("prefix="))
        root = stage / was.partition("=")[2].lstrip("/")
        pc.write_text(text.replace(was, f"prefix={root}"))
    sites = [path.parents[1] for path in stage.rglob("homefree/__init__.py")]
    return Installation(root, pc.parent, root / "bin", sites[0] if sites else None)


def environment(python, tools, directory):
    """A virtual environment of `python` (a path) with its system's packages and those of another
    environment, `tools`, unless that is None. Result: its bin directory and its site-packages."""
    run(python, "-m", "venv", "--system-site-packages", "--without-pip", directory)
    (site,) = pathlib.Path(directory).glob("lib/python3*/site-packages")
    if tools is not None:
        (shared,) = pathlib.Path(tools).glob("lib/python3*/site-packages")
        (site / "tools.pth").write_text(f"{shared}\n")
    return pathlib.Path(directory) / "bin", site


def wheel(file, bin_directory, site):
    """Installs the wheel `file` into a virtual environment that environment() made: pip does it
    once for each version of Python, and leaves a copy beside the file for the next."""
    root = bin_directory.parent
    kept = file.parent / f"{file.stem}-{site.parent.name}"
    with open(file.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if kept.exists():
            shutil.copytree(kept, root, dirs_exist_ok=True)
            script = bin_directory / "homefree"
            _, _, rest = script.read_text().partition("\n")
            script.write_text(f"#!{bin_directory}/python3\n{rest}")
        else:
            pip = (bin_directory / "python3", "-m", "pip", "install", "-q", "--no-deps")
            run(*pip, "--no-index", file)
            (record,) = site.glob("homefree-*.dist-info/RECORD")
            with tempfile.TemporaryDirectory(dir=file.parent) as directory:
                for line in record.read_text().splitlines():
                    path = os.path.normpath(site / line.rsplit(",", 2)[0])
                    copy = pathlib.Path(directory, "kept", os.path.relpath(path, root))
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(path, copy)
                os.rename(f"{directory}/kept", kept)
    package = site / "homefree"
    return Installation(package, package / "lib/pkgconfig", bin_directory, site)


def repair(file, build, directory):
    """What `auditwheel repair`, without a flag, makes of a wheel, in `directory`. All that the
    wheel needs must be in it, so that nothing is copied into it."""
    tools = pathlib.Path(build) / "wheels/tools/bin"
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    run(tools / "python3", tools / "auditwheel", "repair", file, "-w", directory, PATH=path)
    (repaired,) = pathlib.Path(directory).glob("*.whl")
    with zipfile.ZipFile(repaired) as archive:
        copied = [name for name in archive.namelist() if ".libs/" in name]
    if copied or "manylinux" not in repaired.name:
        raise AssertionError(f"{repaired.name} has {copied}")
    return repaired


def find_wheel(directory):
    """The one wheel in a directory; if there is none, the test is skipped with a message."""
    wheels = list(pathlib.Path(directory).glob("homefree-*.whl"))
    if len(wheels) != 1:
        print(f"no wheel in {directory}; tests/run builds one there", file=sys.stderr)
        sys.exit(77)
    return wheels[0]
