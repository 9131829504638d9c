#!/bin/sh
# Builds jemalloc the way a module that keeps it private does: under malloc's own names, C++'s
# operators included, able to be loaded late.
#
#   jemalloc.sh SOURCE WORK CC CXX AR ARCHIVE
#
# SOURCE  jemalloc's release tree; it is copied, never written
# WORK    a directory of our own, made anew
# CC, CXX, AR  the compilers and archiver that build the rest
# ARCHIVE what comes out
#
# Says nothing when all is well; the whole log is shown when a step fails.
set -eu

source=$1 work=$2 cc=$3 cxx=$4 ar=$5 archive=$6
here=$(pwd)
log=$here/$work.log

fail() {
    cat "$log" >&2
    echo "crossings: jemalloc did not build ($1); its log is above" >&2
    exit 1
}

rm -rf "$work"
mkdir -p "$work"
cp -R "$source/." "$work/"
cd "$work"
# libstdc++'s own function, which <new> of GCC 16 no longer declares.
sed 's/std::__throw_bad_alloc()/throw std::bad_alloc()/' "$source/src/jemalloc_cpp.cpp" \
    >src/jemalloc_cpp.cpp

# Built fast, and not for speed. A private namespace would compile all of it twice: the module's map
# hides its names.
CC="$cc" CXX="$cxx" AR="$ar" EXTRA_CFLAGS="-O3 -g0" EXTRA_CXXFLAGS="-O3 -g0" ./configure --enable-cxx \
    --disable-initial-exec-tls --disable-libdl --disable-shared --disable-doc \
    >"$log" 2>&1 || fail configure
: >include/jemalloc/internal/private_namespace.h
make -j"$(nproc 2>/dev/null || echo 2)" -o include/jemalloc/internal/private_namespace.h \
    lib/libjemalloc_pic.a >>"$log" 2>&1 || fail make

cd "$here"
cp "$work/lib/libjemalloc_pic.a" "$archive"
