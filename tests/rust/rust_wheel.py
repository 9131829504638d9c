"""The wheel of examples/bindings/rust, as its author would publish it: `auditwheel repair` takes
it as it is, and without homefree importing it says what to do. tests/long/rust.sh runs this.

usage: rust_wheel.py BUILD-DIRECTORY SOURCE-DIRECTORY WORK-DIRECTORY

The work directory is emptied first. HOMEFREE_CRATES names the crates; cargo and maturin are on
PATH.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

SOURCE = pathlib.Path(sys.argv[2]).resolve()
sys.path.insert(0, str(SOURCE / "tests/support"))
import installation  # noqa: E402

MESSAGE = "this module needs homefree: import homefree before it"


def main():
    build, place = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[3]).resolve()
    shutil.rmtree(place, ignore_errors=True)
    project = place / "examples/bindings/rust"
    ignored = shutil.ignore_patterns("target", "Cargo.lock")
    shutil.copytree(SOURCE / "examples/bindings/rust", project, ignore=ignored)
    shutil.copytree(SOURCE / "shim/rust", place / "shim/rust", ignore=ignored)
    config = place / ".cargo/config.toml"
    config.parent.mkdir()
    config.write_text(
        '[source.crates-io]\nreplace-with = "here"\n[source.here]\n'
        f'directory = "{os.environ["HOMEFREE_CRATES"]}"\n'
    )
    bin_directory, site = installation.environment(
        "/usr/bin/python3", build / "wheels/tools", place / "environment"
    )
    installation.wheel(installation.find_wheel(build / "dist"), bin_directory, site)

    where = {"VIRTUAL_ENV": str(place / "environment"), "CARGO_TARGET_DIR": str(place / "target")}
    words = ["maturin", "build", "--release", "--interpreter", bin_directory / "python3"]
    installation.run(*words, "-o", place / "dist", cwd=project, **where)
    (made,) = (place / "dist").glob("*.whl")
    repaired = installation.repair(made, build, place / "repaired")
    with zipfile.ZipFile(repaired) as archive:
        archive.extractall(place / "alone")
    installation.run(build / "loader/command/homefree", "inspect", repaired)

    def load(**more):
        words = [
            sys.executable,
            "-c",
            "import words_rust; print(words_rust.Words('a b').join('+'))",
        ]
        variables = {**os.environ, "PYTHONPATH": str(place / "alone"), **more}
        return subprocess.run(words, env=variables, capture_output=True, text=True)

    found = load()
    if found.returncode == 0 or MESSAGE not in found.stderr:
        sys.exit(f"without homefree the module says:\n{found.stdout}{found.stderr}")
    shutil.copytree(site / "homefree", place / "alone/homefree")
    found = load()
    if found.stdout != "a+b\n":
        sys.exit(f"beside homefree's wheel:\n{found.stdout}{found.stderr}")
    print(f"{repaired.name}: repaired, says what is missing, works beside homefree")


if __name__ == "__main__":
    main()
