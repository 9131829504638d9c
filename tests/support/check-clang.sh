#!/bin/sh
# clang compiles everything without a warning. It links what the plain build has made of jemalloc,
# which no change of compiler should make build again.
set -eu
cd "$(dirname "$0")/../.."
directory=build-clang
[ -f "$directory/build.ninja" ] ||
    CC=clang CXX=clang++ meson setup "$directory" -Dwerror=true -Dtests=false -Dexamples=false \
        -Djemalloc_build=build -Doptimization=1 -Ddebug=false
ninja -C "$directory"
