#!/bin/sh
# Builds a CPython from Debian's source and keeps it, for tests: Debian has no free-threaded one,
# and each of its releases has one version.
#
# usage: tests/support/debian-cpython.sh [--headers] VERSION [DIRECTORY]
#
# --headers    installs the C headers alone, which takes a minute; prints the directory of Python.h
# VERSION   3.13t, 3.14t or 3.15t (free-threaded), 3.13, 3.14, 3.15; with -tsan behind it, as in
# 3.14t-tsan, it is built with ThreadSanitizer, and without its own tests
# DIRECTORY    where it is installed: unless said otherwise, VERSION below $HOMEFREE_PYTHONS, or
# below homefree/pythons in the cache directory ($XDG_CACHE_HOME, ~/.cache). The tests look there. One
# with ThreadSanitizer is beside that, in pythons-tsan: tests/long/thread_sanitizer.py alone wants it.
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
3.13 | 3.13t | 3.13*-tsan) suites='trixie' ;;
3.14 | 3.14t | 3.14*-tsan) suites='sid forky' ;;
3.15 | 3.15t | 3.15*-tsan) suites='sid experimental' ;;
*)
    echo "usage: tests/support/debian-cpython.sh [--headers] 3.13|3.14|3.15[t][-tsan] [DIRECTORY]" >&2
    exit 2
    ;;
esac
version=${1%-tsan}
sanitizer=${1#"$version"}
plain=${version%t}
directory=${2-${HOMEFREE_PYTHONS-${XDG_CACHE_HOME-$HOME/.cache}/homefree/pythons}$sanitizer/$version}
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
    case $plain in
    3.14)
        archive=python3.14_3.14.6.orig.tar.xz
        sum=143b1dddefaec3bd2e21e3b839b34a2b7fb9842272883c576420d605e9f30c63
        ;;
    3.15)
        archive=python3.15_3.15.0~rc2.orig.tar.xz
        sum=8d93af5eaaaea5adfd41bd786a7ba3f03f2ad1ab57c6a65e0b963deab91d5ad7
        ;;
    *) archive= ;;
    esac
    [ -d "$source" ] || [ -z "$archive" ] || [ ! -x /usr/lib/apt/apt-helper ] || {
        site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' |
            grep '/debian/*$' | head -n 1)
        /usr/lib/apt/apt-helper -o APT::Sandbox::User=root download-file \
            "$site/pool/main/p/python$plain/$archive" "$work/$archive" "SHA256:$sum" \
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
how=
[ "$version" = "$plain" ] || how=--disable-gil
installed=
if [ -n "$sanitizer" ]; then
    how="$how --with-thread-sanitizer --disable-test-modules"
    installed=COMPILEALL_OPTS=-l # of directories below, nothing: that takes it minutes
    export OPT='-O1 -g1 -fwrapv -DNDEBUG' TSAN_OPTIONS=report_bugs=0
fi
build() {
    # shellcheck disable=SC2086
    LDFLAGS_NODIST="-Wl,-rpath,$directory/lib" \
        "$source/configure" --prefix="$directory" --enable-shared $how --without-ensurepip || return
    if [ "$what" = headers ]; then
        make inclinstall
    else
        nice -n 5 make -j"$(nproc)" && make install $installed
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
[ -z "$sanitizer" ] || install -m 644 "$source/Tools/tsan/suppressions_free_threading.txt" \
    "$directory/share/thread-sanitizer.txt"
# gdb's commands for CPython, as other distributions install them.
install -m 644 "$source/Tools/gdb/libpython.py" "$directory/bin/python$version-gdb.py"
"$python" -c 'import ctypes' || fail "its ctypes does not work: libffi-dev is missing"
echo "$python"
