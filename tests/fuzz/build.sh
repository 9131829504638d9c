#!/bin/sh
# Builds the fuzz targets with libFuzzer, AddressSanitizer and UBSan: build.sh DIRECTORY [MESON
# OPTIONS]. Leaves DIRECTORY/fuzz-is-built. Exit status 77: there is no clang, or it has no
# libFuzzer; the last line says so.
set -eu
cd "$(dirname "$0")/../.."
directory=$1
shift
rm -f "$directory/fuzz-is-built"
runtime=$(clang --print-runtime-dir 2>/dev/null) || {
    echo "clang is not installed"
    exit 77
}
[ -n "$(find "$runtime" -name 'libclang_rt.fuzzer-*' -o -name 'libclang_rt.fuzzer.a')" ] || {
    echo "clang has no libFuzzer (Debian: libclang-rt-dev)"
    exit 77
}
if [ ! -f "$directory/build.ninja" ]; then
    coverage='-fsanitize=fuzzer-no-link -fno-sanitize-recover=undefined'
    CC=clang CXX=clang++ meson setup "$directory" -Dwerror=true -Dfuzz=true -Dexamples=false \
        -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 \
        -Dc_args="$coverage" -Dcpp_args="$coverage" "$@"
fi
ninja -C "$directory" fuzz
touch "$directory/fuzz-is-built"
