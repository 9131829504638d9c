"""An example does what its README says, against an installed homefree.

usage: test_example.py EXAMPLE-DIRECTORY --form wheel|prefix --build BUILD-DIRECTORY
                       [--python FILE --tools DIRECTORY --wheel FILE]
       test_example.py EXAMPLE-DIRECTORY --form system

--form   what homefree is installed as: its wheel in a virtual environment, a prefix outside of the
         system, or the system's packages, which then bring all tools as well (packaging/debian)

The directory is copied to an empty place; the commands in its README are run there as they stand;
then its own tests, under pytest; then `homefree inspect` on everything that the commands built.

An example in Rust needs cargo, maturin (in an environment whose bin directory is on PATH), and the
directory that HOMEFREE_CRATES names, with its crates unpacked as `cargo vendor` leaves them. One
with kernels for CUDA needs nvcc, and no device. Those with interpreters run with a CPython
from 3.12 on that has a libpython, with NumPy from the environment that tests/run makes for it.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import installation  # noqa: E402

# Examples with interpreters: programs, so there is no shared object to inspect.
PROGRAMS = {"interpreters", "server"}

PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable

# What a module may need besides libhomefree and what the example itself builds.
SYSTEM = re.compile(r"(libc|libm|libgcc_s|libstdc\+\+|libpthread|ld-linux[-\w]*)\.so\.\d+")
CUDA = re.compile(r"libcudart\.so\.\d+")
TORCH = re.compile(r"lib(torch|torch_cpu|torch_cuda|torch_python|c10|c10_cuda)\.so(\.[\d.]+)?")


def find_nvcc():
    """CUDA's compiler, or None."""
    usual = "/usr/local/cuda/bin/nvcc"
    found = os.environ.get("CUDACXX") or shutil.which("nvcc")
    return found or (usual if os.path.exists(usual) else None)


OF_TORCH = {"capsules", "cuda_op", "dataloader", "device_allocator", "torch_op"}

# The library of the system's Python that an example works with, and its first release that has what
# the example uses. Debian 11 has older ones.
NEEDS = {
    "cython": ("numpy", (1, 20), "declarations for Cython 3"),
    "dataloader": ("torch", (1, 11), "default_collate()"),
    "device_allocator": ("numpy", (1, 23), "from_dlpack()"),
    "torch_op": ("torch", (1, 11), "a header for each operator"),
}


def lacks(example):
    """What the system's Python has too old a release of, in words; None if it has all."""
    if example not in NEEDS:
        return None
    library, wanted, what = NEEDS[example]
    code = f"import importlib.metadata as m; print(m.version({library!r}))"
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True)
    found = done.stdout.strip() or "none"
    if tuple(map(int, re.findall(r"\d+", found)[:2])) >= wanted:
        return None
    return f"it needs {library} {wanted[0]}.{wanted[1]} for {what}; {PYTHON} has {found}"


def with_own_gil(wheels):
    """A CPython whose interpreters can have GILs of their own, with NumPy and a libpython: the
    executable and its site-packages. None if there is none."""
    code = (
        "import numpy, os, sysconfig; v = sysconfig.get_config_var;"
        "print(v('Py_ENABLE_SHARED') and os.path.exists(v('LIBDIR') + '/' + v('LDLIBRARY')))"
    )
    for directory in sorted(wheels.glob("cpython-3.*"), key=lambda path: int(path.suffix[1:])):
        python = directory / "bin/python3"
        if int(directory.suffix[1:]) >= 12 and python.exists():
            done = subprocess.run([python, "-c", code], capture_output=True, text=True)
            if done.stdout.strip() == "True":
                (site,) = directory.glob("lib/python3*/site-packages")
                return python, site
    return None


def commands(readme):
    blocks = re.findall(r"^```sh\n(.*?)^```$", readme.read_text(), re.MULTILINE | re.DOTALL)
    if not blocks:
        sys.exit(f"{readme}: a block of shell commands is expected")
    return "".join(blocks)


def step(what, command, directory, variables):
    """The output goes to the test's log as it comes."""
    print(f"---- {what}", flush=True)
    status = subprocess.run(
        command, cwd=directory, env=variables, stderr=subprocess.STDOUT
    ).returncode
    if status != 0:
        sys.exit(f"{what}: exit status {status}")


def shared_objects(directories, own):
    """The shared objects that the commands built, except homefree's own and its substitutes."""
    for directory in directories:
        for path in sorted(directory.rglob("*.so*")):
            inside = own is not None and own in path.parents
            stands_in = any(part.endswith(".needs") for part in path.parts)
            if path.is_file() and not path.is_symlink() and not inside and not stands_in:
                with path.open("rb") as file:
                    if file.read(4) == b"\x7fELF":
                        yield path


def crates(source, work):
    """Lays homefree's crate where the example looks for it. Result: the directory for the
    example."""
    root = source.parents[2]
    config = work / ".cargo/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        '[source.crates-io]\nreplace-with = "here"\n[source.here]\n'
        f'directory = "{os.environ["HOMEFREE_CRATES"]}"\n'
    )
    ignored = shutil.ignore_patterns("target", "Cargo.lock")
    shutil.copytree(root / "shim/rust", work / "shim/rust", ignore=ignored)
    return work / source.parent.relative_to(root)


def check_needed(path, names):
    dynamic = installation.run("readelf", "-dW", path)
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    if "libhomefree.so.1" not in needed:
        sys.exit(f"{path.name} is not linked with homefree")
    torch = "libtorch" in dynamic or "libc10" in dynamic
    for name in needed:
        fine = name == "libhomefree.so.1" or name in names or SYSTEM.fullmatch(name)
        fine = fine or CUDA.fullmatch(name)
        if not fine and not (torch and TORCH.fullmatch(name)):
            sys.exit(f"{path.name} needs {name}")
    print(f"{path.name} needs {', '.join(needed)}")
    for rpath in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", dynamic):
        print(f"    and looks in {rpath}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("example", type=pathlib.Path)
    parser.add_argument("--form", choices=("wheel", "prefix", "system"), required=True)
    parser.add_argument("--build", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--python", help="the CPython, with --tools and --wheel for it")
    parser.add_argument("--tools", type=pathlib.Path, help="an environment with what builds it")
    parser.add_argument("--wheel", type=pathlib.Path, help="homefree's wheel, a file")
    parser.add_argument("--keep", action="store_true", help="keep the directory and print its path")
    arguments = parser.parse_args()
    if arguments.form == "system":
        tools = None
    else:
        tools = arguments.tools or arguments.build / "wheels/tools"
    if tools and not arguments.tools and not (tools / "ready").exists():
        print("the tools that the examples are built with are missing; tests/run installs them")
        return 77
    if any(arguments.example.glob("*.cu")) and not find_nvcc():
        print("an example with kernels for CUDA: nvcc is missing")
        return 77
    arguments.packages = []
    if arguments.python is None:
        if missing := lacks(arguments.example.name):
            print(missing)
            return 77
        arguments.python, arguments.wheel = PYTHON, None
    elif arguments.example.name in OF_TORCH:
        print("it is about torch, which tools have for the system's Python alone")
        return 77
    if arguments.example.name in PROGRAMS and arguments.wheel is None:
        found = with_own_gil(arguments.build / "wheels")
        if found is None:
            print("interpreters with GILs of their own: no CPython 3.12 with libpython and NumPy")
            return 77
        arguments.python, arguments.packages = found[0], [found[1]]
    if arguments.example.name == "server":
        arguments.packages += arguments.build.glob("wheels/server/lib/python3*/site-packages")
    if (arguments.example / "Cargo.toml").exists():
        for path, what in (
            (shutil.which("cargo"), "cargo is missing"),
            (
                os.environ.get("HOMEFREE_CRATES"),
                "HOMEFREE_CRATES names no directory with its crates",
            ),
            (shutil.which("maturin"), "maturin is missing"),
        ):
            if not path:
                print(f"an example in Rust: {what}; tests/long/rust.sh gets what it needs")
                return 77
    with tempfile.TemporaryDirectory(prefix="homefree-example-") as name:
        if arguments.keep:
            name = tempfile.mkdtemp(prefix="homefree-example-")
            print(f"in {name}")
        check(arguments, tools, pathlib.Path(name))
    return 0


def check(arguments, tools, place):
    source = arguments.example.resolve()
    bin_directory, site = installation.environment(arguments.python, tools, place / "environment")
    (site / "packages.pth").write_text("".join(f"{one}\n" for one in arguments.packages))
    path = [str(bin_directory), os.environ["PATH"]]
    # The environment's own programs, instead of those of the tools' environment.
    for name in ("pip", "pytest", "swig") if tools else ("pip",):
        program = bin_directory / name
        words = f"-m {name}" if name != "swig" else f"{tools}/bin/swig"
        runner = str(bin_directory / "python3")
        program.write_text(f'#!/bin/sh\nexec {runner} {words} "$@"\n')
        program.chmod(0o755)
    if arguments.tools:  # what would find the system's Python
        config = pathlib.Path(arguments.python).parent / "python3-config"
        (bin_directory / config.name).write_text(f'#!/bin/sh\nexec {config} "$@"\n')
        (bin_directory / config.name).chmod(0o755)
        (bin_directory / "meson").symlink_to(arguments.tools / "bin/meson")
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "HOMEFREE", "LD_", "PKG_CONFIG", "CMAKE"))
    }
    if arguments.form == "wheel":
        installed = installation.wheel(
            arguments.wheel or installation.find_wheel(arguments.build / "dist"),
            bin_directory,
            site,
        )
        own = installed.root
    elif arguments.form == "system":
        own = None
    else:
        installed = installation.prefix(arguments.build, place)
        path.insert(0, str(installed.path))
        (site / "prefix.pth").write_text(f"{installed.site}\n")
        own = None
    # PyPI's pkg-config comes before the system's only for projects that ask for it.
    project = source / "pyproject.toml"
    if tools and project.exists() and "pkgconf" in project.read_text():
        path.insert(path.index(str(bin_directory)) + 1, str(tools / "bin"))
    # A PEP 517 backend finds the wheel by its entry points.
    if arguments.form == "prefix" or (arguments.form == "wheel" and not project.exists()):
        variables.update(installed.build_variables())
    variables.update(
        PATH=os.pathsep.join(path),
        VIRTUAL_ENV=str(place / "environment"),
        XDG_CACHE_HOME=str(place / "cache"),
        PIP_NO_BUILD_ISOLATION="0",  # pip reads this as "do not isolate"
        PIP_NO_DEPS="1",
        PIP_NO_INDEX="1",
        PIP_DISABLE_PIP_VERSION_CHECK="1",
        PIP_ROOT_USER_ACTION="ignore",
        NO_COLOR="1",
    )

    if any(source.glob("*.cu")):
        variables["CUDACXX"] = find_nvcc()

    # Copies only the example and the files beside it that examples of its kind share.
    work = place / "work"
    if (source / "Cargo.toml").exists():
        work = crates(source, work)
        (maturin,) = (
            pathlib.Path(shutil.which("maturin")).parents[1].glob("lib/python3*/site-packages")
        )
        (site / "maturin.pth").write_text(f"{maturin}\n")
        variables["CARGO_TARGET_DIR"] = str(place / "target")
    for directory in [source, *source.parent.glob("library")]:
        shutil.copytree(
            directory,
            work / directory.name,
            ignore=shutil.ignore_patterns(
                "__pycache__", "build", "target", "Cargo.lock", "*.so", "*.egg-info"
            ),
        )
    work = work / source.name
    script = commands(work / "README.md")
    step("the commands of README.md", ["sh", "-eu", "-c", script], work, variables)
    tests = sorted(path.name for path in work.glob("test_*.py"))
    if not tests:
        sys.exit(f"{source} has no test_*.py")
    pytest = [bin_directory / "python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    step("its tests", pytest, work, variables)

    built = list(shared_objects([place / "work", site, place / "cache"], own))
    if source.name in PROGRAMS:
        return
    if not built:
        sys.exit("the commands built no shared object")
    for path in built:
        check_needed(path, {other.name for other in built})
    step("inspection", ["homefree", "inspect", *built], work, variables)


if __name__ == "__main__":
    sys.exit(main())
