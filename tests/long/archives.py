#!/usr/bin/env python3
"""The source archive and the wheel of it are the same bytes wherever and by whomever they are made,
and need no network.

usage: tests/long/archives.py [--build DIRECTORY] [--keep DIRECTORY]

--build   where tests/run has put an environment with meson-python (build)
--keep    where the archives go, and stay (a temporary directory)

Two clones of HEAD, in directories with names of different lengths, one of a user whose files nobody
else may read, in another time zone and language, make the source archive. Both must be equal, and
have the sources and licences of what is built in. pip then makes a wheel of it twice, in different
directories, without a network and from no index. What differs first is told: the member, and in an
ELF file the section.

Exit status: 0; 1 if something differs or could not be built; 77 if something is missing here.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from rows import row  # noqa: E402

# How the two differ: directory, umask, environment.
WAYS = (
    ("first", 0o022, {"TZ": "UTC", "LC_ALL": "C.UTF-8"}),
    ("second/in/another/directory", 0o077, {"TZ": "Asia/Tokyo", "LC_ALL": "C", "LANG": "C"}),
)
# Left out of what is built: caches, and what other tests set.
LEADING = ("CCACHE", "CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS", "HOMEFREE", "PYTHON", "LD_")
LEADING += ("SOURCE_DATE_EPOCH", "PIP_", "MESON")
SDIST = "import homefree_build, sys; homefree_build.build_sdist(sys.argv[1])"


def fail(text):
    print(f"archives: {text}")
    raise SystemExit(1)


def run(*words, umask=0o022, cwd=None, **environment):
    env = {name: text for name, text in os.environ.items() if not name.startswith(LEADING)}
    env["PATH"] = os.pathsep.join(
        one for one in env["PATH"].split(os.pathsep) if "ccache" not in one
    )
    env.update({name: str(text) for name, text in environment.items()})
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=env,
        preexec_fn=lambda: os.umask(umask),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        fail(f"failed: {' '.join(map(str, words))}\n{done.stdout[-4000:]}")
    return done.stdout


def tools(build):
    """bin/ of an environment with meson-python."""
    found = build / "wheels/tools/bin"
    if not (found / "python").exists():
        print(f"no meson-python in {found.parent}; tests/run puts it there")
        raise SystemExit(77)
    return found


# ---- what differs ----


def section(data, offset):
    """The name of an ELF file's section in which the offset lies."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        text = subprocess.run(
            ["readelf", "-SW", file.name], capture_output=True, text=True, check=False
        ).stdout
    rows = re.findall(r"\] (\S+) +\S+ +[0-9a-f]+ ([0-9a-f]+) ([0-9a-f]+) ", text)
    for name, start, size in rows:
        if int(start, 16) <= offset < int(start, 16) + int(size, 16):
            return f" in {name}"
    return ""


def difference_of_bytes(one, other):
    at = next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
    where = section(one, at) if one.startswith(b"\x7fELF") else ""
    around = slice(max(at - 16, 0), at + 32)
    return f"byte {at}{where}\n    {one[around]!r}\n    {other[around]!r}"


def members(path):
    """[(what is said about a member, its contents)]"""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return [
                ((m.filename, m.date_time, f"{m.external_attr >> 16:o}"), archive.read(m))
                for m in archive.infolist()
            ]
    with tarfile.open(path) as archive:
        return [
            (
                (m.name, m.mtime, f"{m.mode:o}", m.uid, m.gid, m.uname, m.gname, m.linkname),
                archive.extractfile(m).read() if m.isreg() else b"",
            )
            for m in archive
        ]


def first_difference(one, other):
    """None if two archives are the same bytes, else what differs first."""
    if one.read_bytes() == other.read_bytes():
        return None
    ours, theirs = members(one), members(other)
    for (about, data), (others, more) in zip(ours, theirs):
        if about != others:
            return f"{about} and {others}"
        if data != more:
            return f"{about[0]}: {difference_of_bytes(data, more)}"
    if len(ours) != len(theirs):
        return f"{len(ours)} and {len(theirs)} members"
    return difference_of_bytes(one.read_bytes(), other.read_bytes())


def expect_equal(what, one, other):
    found = first_difference(one, other)
    outcome = "passed" if found is None else f"failed: {found}"
    row(f"{what}, made twice", f"{one.stat().st_size / 2**20:.1f} MiB", outcome)
    if found is not None:
        fail(f"{one.name} differs: {found}")
    print(f"{one.name}: the same bytes, {one.stat().st_size} of them")


# ---- making them ----


def source_archive(work, way, bin_directory, commit):
    name, umask, environment = way
    clone, output = work / name / "homefree", work / name / "sdist"
    output.mkdir(parents=True)
    run("git", "clone", "-q", ROOT, clone, umask=umask)
    run("git", "-C", clone, "checkout", "-q", commit, umask=umask)
    cache = ROOT / "subprojects/packagecache"
    if cache.is_dir():
        shutil.copytree(cache, clone / "subprojects/packagecache")
    run(
        *(bin_directory / "python", "-c", SDIST, output),
        cwd=clone,
        umask=umask,
        PYTHONPATH=clone / "python/backend",
        PATH=f"{bin_directory}{os.pathsep}{os.environ['PATH']}",
        **environment,
    )
    (made,) = output.glob("*.tar.gz")
    return made


def offline():
    """What to begin a command with so that it has no network."""
    if subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode:
        print("archives: cannot take the network away here (unshare -n): needs root", flush=True)
        return []
    return ["unshare", "-n"]


def wheel(work, way, bin_directory, source):
    name, umask, environment = way
    output, temporary = work / name / "wheel", work / name / "tmp"
    temporary.mkdir()
    run(
        *offline(),
        *(bin_directory / "python", "-m", "pip", "wheel", "--disable-pip-version-check"),
        *("--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", output, source),
        umask=umask,
        TMPDIR=temporary,
        PATH=f"{bin_directory}{os.pathsep}{os.environ['PATH']}",
        **environment,
    )
    (made,) = output.glob("*.whl")
    return made


def check_sources(path):
    """What is built in is there, with its licence, which is the one that the wheel gets."""
    contents = {about[0].partition("/")[2]: data for about, data in members(path)}
    expected = {
        "jemalloc": ("subprojects/jemalloc-*/COPYING", "subprojects/jemalloc-*/configure"),
        "zydis": ("subprojects/zyantific-zydis-*/LICENSE", "subprojects/zyantific-zydis-*/src/*.c"),
        "zycore": ("subprojects/zyantific-zycore-*/LICENSE",),
    }
    for name, patterns in expected.items():
        for pattern in patterns:
            found = [one for one in contents if pathlib.PurePath(one).match(pattern)]
            if not found:
                fail(f"{path.name} has no {pattern}")
            if found[0].endswith(("COPYING", "LICENSE")):
                same = contents[found[0]] == contents[f"licenses/{name}.txt"]
                same or fail(f"licenses/{name}.txt is not {found[0]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    bin_directory = tools(options.build.resolve())
    with tempfile.TemporaryDirectory(prefix="homefree-archives-", dir="/var/tmp") as directory:
        work = options.keep.resolve() if options.keep else pathlib.Path(directory)
        # Somebody may commit meanwhile.
        commit = run("git", "-C", ROOT, "rev-parse", "HEAD").strip()
        sources = [source_archive(work, way, bin_directory, commit) for way in WAYS]
        check_sources(sources[0])
        expect_equal("source archive", *sources)
        wheels = [wheel(work, way, bin_directory, sources[0]) for way in WAYS]
        expect_equal("wheel of it", *wheels)


if __name__ == "__main__":
    main()
