#!/bin/sh
# Runs a fuzz target on its corpus and its regressions, and for a number of further inputs:
# run.sh PROGRAM TARGET RUNS. The seed is fixed: whoever sees a failure sees it again. An input that
# fails is kept in the directory of the program.
set -eu
program=$1
target=$2
runs=$3
here=$(cd "$(dirname "$0")" && pwd)
grown=$(mktemp -d) # libFuzzer adds what it finds to the first directory
log=$(mktemp)
set -- "$here/corpus/$target"
[ ! -d "$here/regressions/$target" ] || set -- "$@" "$here/regressions/$target"
trap 'rm -rf "$grown" "$log"' EXIT
if ! "$program" -seed=1 -runs="$runs" -max_len=8192 -timeout=5 -rss_limit_mb=1024 \
    -malloc_limit_mb=512 -close_fd_mask=3 -artifact_prefix="${program%/*}/found-$target-" \
    -dict="$here/$target.dict" "$grown" "$@" \
    >"$log" 2>&1; then
    cat "$log"
    exit 1
fi
tail -n 1 "$log"
