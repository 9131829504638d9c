#!/bin/bash
# Runs tests/fuzz/oss-fuzz/build.sh as OSS-Fuzz does, with Debian's clang and its libFuzzer, and each
# program that it makes with its seeds and its dictionary.
#
# usage: tests/long/oss-fuzz.sh [SECONDS]      for each target
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
seconds=${1:-5}
command -v zip >/dev/null || {
    echo "zip is not installed"
    exit 77
}
[ -n "$(find "$(clang --print-runtime-dir 2>/dev/null || echo /nonexistent)" -name 'libclang_rt.fuzzer*' 2>/dev/null)" ] || {
    echo "clang has no libFuzzer (Debian: clang, libclang-rt-dev)"
    exit 77
}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir "$place/src" "$place/out" "$place/work"
ln -s "$root" "$place/src/homefree"
flags='-O1 -fno-omit-frame-pointer -gline-tables-only'
flags="$flags -fsanitize=address -fsanitize-address-use-after-scope -fsanitize=fuzzer-no-link"
env SRC="$place/src" OUT="$place/out" WORK="$place/work" CC=clang CXX=clang++ CFLAGS="$flags" \
    CXXFLAGS="$flags" LIB_FUZZING_ENGINE=-fsanitize=fuzzer SANITIZER=address FUZZING_ENGINE=libfuzzer \
    bash tests/fuzz/oss-fuzz/build.sh >"$place/log" 2>&1 || {
    tail -n 30 "$place/log"
    exit 1
}
found=0
targets=0
for program in "$place"/out/fuzz-*; do
    [ -x "$program" ] && [ -f "$program" ] || continue
    targets=$((targets + 1))
    # The image that runs them has libc and libstdc++.
    others=$(ldd "$program" | grep -vE 'linux-vdso|lib(c|m|dl|pthread|rt|gcc_s|stdc\+\+|resolv)\.so|ld-linux' || true)
    mkdir "$place/seeds" "$place/grown"
    unzip -q "${program}_seed_corpus.zip" -d "$place/seeds"
    outcome=ok
    [ -z "$others" ] || outcome="needs $others"
    [ -s "$program.dict" ] && [ -n "$(ls "$place/seeds")" ] || outcome='has no seeds or no dictionary'
    (cd "$place" && "$program" -max_total_time="$seconds" -timeout=25 -rss_limit_mb=2560 \
        -close_fd_mask=3 -dict="$program.dict" grown seeds) >"$place/log" 2>&1 </dev/null ||
        { outcome=failed; tail -n 30 "$place/log"; }
    printf '%-20s %s\n' "$(basename "$program")" "$outcome: $(ls "$place/seeds" | wc -l) seeds, $(tail -n 1 "$place/log")"
    [ "$outcome" = ok ] || found=1
    rm -rf "$place/seeds" "$place/grown"
done
wanted=$(ls tests/fuzz/corpus | while read -r one; do [ ! -f "tests/fuzz/$one.c" ] || echo "$one"; done | wc -l)
echo "$targets of $wanted targets, $seconds s each"
[ "$found" = 0 ] && [ "$targets" = "$wanted" ]
