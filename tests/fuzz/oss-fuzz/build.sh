#!/bin/bash -eu
# SPDX-License-Identifier: BSD-2-Clause
# Builds all fuzz targets as OSS-Fuzz wants them: with its compiler, flags and engine (CC, CXX,
# CFLAGS, CXXFLAGS, LIB_FUZZING_ENGINE), from $SRC/homefree, into $OUT, each with its dictionary and
# its seeds.
cd "$SRC/homefree"
build=$WORK/build
[ -f "$build/build.ninja" ] || meson setup "$build" -Dfuzz=true -Dfuzz_engine="$LIB_FUZZING_ENGINE" \
    -Dexamples=false -Db_lundef=false -Dbuildtype=plain "$@"
ninja -C "$build" fuzz
for directory in tests/fuzz/corpus/*/; do
    target=$(basename "$directory")
    [ -x "$build/tests/fuzz/fuzz-$target" ] || continue
    cp "$build/tests/fuzz/fuzz-$target" "$OUT/"
    cp "tests/fuzz/$target.dict" "$OUT/fuzz-$target.dict"
    seeds=$OUT/fuzz-${target}_seed_corpus.zip
    rm -f "$seeds"
    zip -q -j "$seeds" "$directory"*
    [ ! -d "tests/fuzz/regressions/$target" ] || zip -q -j "$seeds" "tests/fuzz/regressions/$target"/*
done
