#!/bin/sh
# clang compiles everything without a warning. It links what the plain build has made of jemalloc,
# which no change of compiler should make build again.
set -eu
cd "$(dirname "$0")/../.."
folder=build-clang
[ -f "$folder/build.ninja" ] ||
    CC=clang CXX=clang++ meson setup "$folder" -Dwerror=true -Dtests=false -Dexamples=false \
        -Djemalloc_build=build -Doptimization=1 -Ddebug=false
ninja -C "$folder"
