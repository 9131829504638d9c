#!/bin/sh
# Makes the corpora of the repository: of the files in it, of the seeds, and of what
# tests/long/fuzz.sh has grown, the fewest that reach the same edges, at most 100 for a target, each
# of at most 5 kB.
#
# usage: merge.sh BUILD-FUZZ SEEDS [TARGET...]
set -eu
cd "$(dirname "$0")/../.."
build=$1
seeds=$2
shift 2
[ $# != 0 ] || set -- $(cd tests/fuzz/corpus && ls)
for target in "$@"; do
    program=$build/tests/fuzz/fuzz-$target
    corpus=tests/fuzz/corpus/$target
    work=$(mktemp -d)
    mkdir -p "$work/all" "$work/few" "$corpus"
    for directory in "$seeds/$target" "$build/corpus/$target" "$corpus"; do
        [ ! -d "$directory" ] || find "$directory" -type f -size -11 -exec cp {} "$work/all" \;
    done
    "$program" -set_cover_merge=1 -use_counters=0 -timeout=5 -close_fd_mask=3 "$work/few" \
        "$work/all" >"$work/log" 2>&1 </dev/null || { tail "$work/log"; exit 1; }
    rm -f "$corpus"/*
    find "$work/few" -type f -printf '%s %p\n' | sort -n | head -n 100 | while read -r _ file; do
        cp "$file" "$corpus"
    done
    printf '%-14s %4d files %8d bytes, of %d\n' "$target" "$(find "$corpus" -type f | wc -l)" \
        "$(cat "$corpus"/* | wc -c)" "$(find "$work/all" -type f | wc -l)"
    rm -rf "$work"
done
