"""The other allocators of the field benchmark: fetched, or built, into a directory.

A peer is the newest that Debian has and that runs here. A package whose libc is newer than this
machine's cannot be loaded; then the same version is built from the release that its source package
holds, with its own build and its own defaults; and where that cannot be had either, the next
release of Debian is asked, and in the end the machine's own library is taken. Nothing is
installed.

The directory keeps what was found in peers.json, so that the network is asked once.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

SUPPORT = Path(__file__).resolve().parents[2] / "support"


class Peer:
    """title: for tables. file: the library that is preloaded. packages: Debian's names of it, the
    newest first. suites: releases of Debian to ask, the newest first; none: this machine's own
    package is the newest. source: the source package, build: how the release is built."""

    def __init__(self, title, file, packages, suites=(), source=None, build=None):
        self.title = title
        self.file = file
        self.packages = packages
        self.suites = suites
        self.source = source
        self.build = build


# {version}, {jobs}: what the shell commands below get. Each ends with the library in lib/.
BUILD_JEMALLOC = """
autoconf
./configure --with-version={version}-0-g0 --disable-static --disable-doc
make -j {jobs} build_lib_shared
"""
BUILD_TCMALLOC = """
cmake -S . -B made -DCMAKE_BUILD_TYPE=Release -Dgperftools_build_minimal=ON -DBUILD_TESTING=OFF
cmake --build made -j {jobs} --target tcmalloc_minimal
mkdir -p lib
cp made/libtcmalloc_minimal.so lib/libtcmalloc_minimal.so.4
"""
NEWEST = ("sid", "forky", "trixie")
PEERS = {
    "jemalloc": Peer(
        "jemalloc", "libjemalloc.so.2", ["libjemalloc2"], NEWEST, "jemalloc", BUILD_JEMALLOC
    ),
    "mimalloc3": Peer("mimalloc 3", "libmimalloc.so.3", ["libmimalloc3"], NEWEST),
    # From trixie on, Debian has mimalloc 3 alone.
    "mimalloc2": Peer("mimalloc 2", "libmimalloc.so.2", ["libmimalloc2.0"], ("bookworm",)),
    "tcmalloc": Peer(
        "tcmalloc",
        "libtcmalloc_minimal.so.4",
        ["libtcmalloc-minimal4t64", "libtcmalloc-minimal4"],
        NEWEST,
        "google-perftools",
        BUILD_TCMALLOC,
    ),
}


def numbers(version):
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def own_libc():
    return os.confstr("CS_GNU_LIBC_VERSION").split()[1]


def wanted_libc(control):
    """The libc that a package depends on, as DEBIAN/control says; "0" if on none."""
    found = re.search(r"^Depends:.*\blibc6 \(>= ([\d.]+)", control, re.MULTILINE)
    return found[1] if found else "0"


def runs_here(control, libc):
    return numbers(wanted_libc(control)) <= numbers(libc)


def quietly(command, **more):
    """Runs a command; its output if it fails, else None."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    return done.stdout.decode(errors="replace") if done.returncode != 0 else None


def library_in(directory, peer, say):
    found = [path for path in sorted(directory.rglob(peer.file)) if path.exists()]
    if not found:
        say(f"there is no {peer.file} in {directory}")
    return found[0] if found else None


def from_package(peer, suite, directory, libc, say):
    for package in peer.packages:
        where = directory / f"{package}-{suite}"
        if not where.exists():
            command = ["sh", str(SUPPORT / "debian-binary.sh"), package, str(where), suite]
            if quietly(command) is not None:
                continue
        control = (where / "DEBIAN/control").read_text()
        if not runs_here(control, libc):
            say(f"{package} of {suite} needs glibc {wanted_libc(control)}, and this is {libc}")
            return None
        version = re.search(r"^Version: (\S+)", control, re.MULTILINE)[1]
        return library_in(where, peer, say), f"Debian {suite}, {package} {version}"
    return None


def from_source(peer, suite, directory, jobs, say):
    where = directory / f"{peer.source}-{suite}"
    shutil.rmtree(where, ignore_errors=True)
    command = ["sh", str(SUPPORT / "debian-source.sh"), "--archive", peer.source, str(where), suite]
    fetched = subprocess.run(command, capture_output=True, text=True)
    if fetched.returncode != 0:
        say(f"the source of {peer.source} in {suite} could not be fetched")
        return None
    archive = fetched.stdout.strip()
    version = re.search(r"_([\d.]+)\.orig", archive)[1]
    say(f"building {peer.title} {version}")
    script = "set -e\n" + peer.build.format(version=version, jobs=jobs)
    failed = quietly(["sh", "-c", script], cwd=where)
    if failed is not None:
        say(f"{archive} could not be built: {failed[-300:]}")
        return None
    return library_in(where, peer, say), f"built from {archive} of Debian {suite}"


def of_machine(peer):
    """The installed library, as the dynamic linker finds it."""
    found = re.findall(
        rf"{re.escape(peer.file)} .*=> (\S+)",
        subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout,
    )
    return (Path(found[0]), "installed on this machine") if found else None


def find(peer, directory, libc, jobs, say):
    for suite in peer.suites:
        found = from_package(peer, suite, directory, libc, say)
        if (found is None or found[0] is None) and peer.source is not None:
            found = from_source(peer, suite, directory, jobs, say)
        if found is not None and found[0] is not None:
            return found
    return of_machine(peer)


def fetch(directory, names, fetching=True, jobs=None):
    """{name: {"path": …, "from": …}} of the peers that can be had. Without `fetching`, only what
    the directory or the machine has."""

    def say(text):
        print(f"peers: {text}", file=sys.stderr, flush=True)

    directory = directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    record = directory / "peers.json"
    known = json.loads(record.read_text()) if record.exists() else {}
    result = {}
    for name in names:
        if name in known and Path(known[name]["path"]).exists():
            result[name] = known[name]
            continue
        peer = PEERS[name]
        if fetching:
            say(f"looking for {peer.title}")
            found = find(peer, directory, own_libc(), jobs or os.cpu_count(), say)
        else:
            found = of_machine(peer)
        if found is None:
            say(f"{peer.title} is not to be had here")
            continue
        result[name] = {"path": str(found[0]), "from": found[1]}
        # The machine's own is not kept: the next time, a newer one may be had.
        if directory in Path(found[0]).parents:
            known[name] = result[name]
            record.write_text(json.dumps(known, indent=2) + "\n")
    return result
