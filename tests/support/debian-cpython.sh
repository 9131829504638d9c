#!/bin/sh
# Builds a CPython from Debian's source and keeps it, for tests: Debian has no free-threaded one,
# and each of its releases has one version.
#
# usage: tests/support/debian-cpython.sh [--headers] VERSION [DIRECTORY]
#
# --headers    installs the C headers alone, which takes a minute; prints the directory of Python.h
# VERSION   3.13t or 3.14t (free-threaded), 3.13, 3.14
# DIRECTORY    where it is installed: unless said otherwise, VERSION below $HOMEFREE_PYTHONS, or
# below homefree/pythons in the cache directory ($XDG_CACHE_HOME, ~/.cache). The tests look there.
#
# HOMEFREE_CPYTHON_SOURCE   a directory with the source of that version, which is used instead
#
# Prints the interpreter's path. What is built already is not built again. It needs no package
# beyond those that tests/run installs: modules of the standard library whose libraries lack are
# left out. Without optimisation by profile it takes about five minutes on two processors. CPython's
# own tests are installed with it.
#
# It has a shared libpython, which programs in C can load, and which its python3 finds by an rpath.
#
# Debian's patches are left out: they know Debian's directories alone, and a free-threaded 3.13 that
# has them looks for the packages of a virtual environment where pip does not put them.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

fail() {
    echo "debian-cpython: $*" >&2
    exit 3
}

what=all
if [ "${1-}" = --headers ]; then
    what=headers
    shift
fi
case ${1-} in
3.13 | 3.13t) suites='trixie' ;;
3.14 | 3.14t) suites='sid forky' ;;
*)
    echo "usage: tests/support/debian-cpython.sh [--headers] 3.13|3.13t|3.14|3.14t [DIRECTORY]" >&2
    exit 2
    ;;
esac
version=$1
plain=${version%t}
directory=${2-${HOMEFREE_PYTHONS-${XDG_CACHE_HOME-$HOME/.cache}/homefree/pythons}/$version}
case $directory in
/*) ;;
*) directory=$PWD/$directory ;;
esac
python=$directory/bin/python3
made=$python
[ "$what" = all ] || made=$directory/include/python$version
if [ -e "$made" ]; then
    echo "$made"
    exit 0
fi

work=$(mktemp -d /var/tmp/homefree-cpython.XXXXXX)
trap 'rm -rf "$work"' EXIT
source=${HOMEFREE_CPYTHON_SOURCE-}
if [ -z "$source" ]; then
    source=$work/source
    for suite in $suites; do
        echo "debian-cpython: fetching the source of python$plain from $suite" >&2
        sh "$here/debian-source.sh" --unpatched "python$plain" "$source" "$suite" 2>"$work/log" && break
    done
    # A mirror may be behind its own list: then the version that was there when this was written.
    [ -d "$source" ] || [ "$plain" != 3.14 ] || [ ! -x /usr/lib/apt/apt-helper ] || {
        archive=python3.14_3.14.6.orig.tar.xz
        site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' |
            grep '/debian/*$' | head -n 1)
        /usr/lib/apt/apt-helper -o APT::Sandbox::User=root download-file \
            "$site/pool/main/p/python3.14/$archive" "$work/$archive" \
            SHA256:143b1dddefaec3bd2e21e3b839b34a2b7fb9842272883c576420d605e9f30c63 \
            >>"$work/log" 2>&1 && mkdir "$source" &&
            tar -xf "$work/$archive" -C "$source" --strip-components=1
    }
    [ -d "$source" ] || {
        tail -n 5 "$work/log" >&2
        fail "no source of python$plain is within reach; unpack one and name its directory in" \
            "HOMEFREE_CPYTHON_SOURCE"
    }
fi
[ -x "$source/configure" ] || fail "$source has no configure: it is no source of CPython"

echo "debian-cpython: building $what of CPython $version" >&2
mkdir "$work/build"
cd "$work/build"
free=
[ "$version" = "$plain" ] || free=--disable-gil
build() {
    # shellcheck disable=SC2086
    LDFLAGS_NODIST="-Wl,-rpath,$directory/lib" \
        "$source/configure" --prefix="$directory" --enable-shared $free --without-ensurepip || return
    if [ "$what" = headers ]; then
        make inclinstall
    else
        nice -n 5 make -j"$(nproc)" && make install
    fi
}
if ! build >"$work/log" 2>&1; then
    tail -n 30 "$work/log" >&2
    fail "CPython $version could not be built"
fi
if [ "$what" = headers ]; then
    echo "$made"
    exit 0
fi
# gdb's commands for CPython, as other distributions install them.
install -m 644 "$source/Tools/gdb/libpython.py" "$directory/bin/python$version-gdb.py"
"$python" -c 'import ctypes' || fail "its ctypes does not work: libffi-dev is missing"
echo "$python"
