#!/bin/sh
# Installs homefree into a folder of its own, builds the module there as README says, and uses it.
#
#   check.sh BUILD PREFIX LIBDIR BINDIR PYTHON WORK
#
# BUILD   Meson's build folder, up to date
# PREFIX, LIBDIR, BINDIR  where that build installs
# PYTHON  the Python to build for
# WORK    a folder of our own, made anew
set -eu
build=$1 prefix=$2 libdir=$3 bindir=$4 PYTHON=$5 work=$6
export PYTHON

fail() {
    echo "minimal: $*" >&2
    exit 1
}

rm -rf "$work"
mkdir -p "$work/root"
meson install -C "$build" --no-rebuild --quiet --destdir "$work/root" ||
    fail "homefree could not be installed"

# As if the folder were the root of the file system.
PATH=$work/root$prefix/$bindir:$PATH
PKG_CONFIG_PATH=$work/root$prefix/$libdir/pkgconfig
PKG_CONFIG_SYSROOT_DIR=$work/root
LD_LIBRARY_PATH=$work/root$prefix/$libdir
export PATH PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR LD_LIBRARY_PATH

here=$(cd "$(dirname "$0")" && pwd)
cd "$work"
"$here/build"
answer=$("$PYTHON" -c 'import minimal; print(minimal.owned())')
[ "$answer" = True ] || fail "malloc in the module is not the heap's"
exported=$(nm -D --defined-only minimal.so | sed 's/.* //' | tr '\n' ' ')
[ "$exported" = "PyInit_minimal " ] || fail "the module exports: $exported"
