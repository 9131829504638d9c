#!/bin/sh
# Runs each fuzz target (tests/fuzz) for some seconds and prints a table: executions, executions a
# second, files in the grown corpus, edges of the control flow that its files reach, the slowest
# input in seconds, and the most memory. Fails when an input was found that crashes, hangs, or takes
# much memory; its file is named. What was grown stays in BUILD/corpus, where the next run goes on.
#
# usage: tests/long/fuzz.sh [SECONDS [BUILD [TARGET...]]]
set -eu
cd "$(dirname "$0")/../.."
seconds=${1:-60}
build=${2:-build-fuzz}
shift "$(($# < 2 ? $# : 2))"
built=$(sh tests/fuzz/build.sh "$build" -Djemalloc_build=build 2>&1) || {
    status=$?
    echo "$built" | tail -n 20 >&2
    exit "$status"
}
[ $# != 0 ] || set -- $(cd tests/fuzz/corpus && ls)

found=0
targets=0
runs=0
printf '%-14s %12s %10s %8s %8s %8s %8s %s\n' target executions 'a second' corpus edges slowest MiB found
for target in "$@"; do
    program=$build/tests/fuzz/fuzz-$target
    [ -x "$program" ] || continue
    grown=$build/corpus/$target
    log=$build/fuzz-$target.log
    mkdir -p "$grown"
    regressions=$(find "tests/fuzz/regressions/$target" -maxdepth 0 2>/dev/null || true)
    rm -f "$build/found-$target-"*
    status=0
    "$program" -max_total_time="$seconds" -max_len=8192 -timeout=5 -rss_limit_mb=1024 \
        -malloc_limit_mb=512 -close_fd_mask=3 -print_final_stats=1 \
        -dict="tests/fuzz/$target.dict" -artifact_prefix="$build/found-$target-" \
        "$grown" "tests/fuzz/corpus/$target" $regressions \
        >"$log" 2>&1 </dev/null || status=$?
    stat() {
        sed -n "s/^stat::$1: *//p" "$log"
    }
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    inputs=$(find "$build" -maxdepth 1 -name "found-$target-*" | tr '\n' ' ')
    [ "$status" = 0 ] || found=1
    targets=$((targets + 1))
    executed=$(stat number_of_executed_units)
    runs=$((runs + ${executed:-0}))
    printf '%-14s %12s %10s %8s %8s %8s %8s %s\n' "$target" "$(stat number_of_executed_units)" \
        "$(stat average_exec_per_sec)" "$(find "$grown" -type f | wc -l)" "$edges" \
        "$(stat slowest_unit_time_sec)" "$(stat peak_rss_mb)" "${inputs:-$([ "$status" = 0 ] && echo - || echo "status $status")}"
done
summary="$targets targets, $runs executions, $seconds s each"
echo "$summary"
[ -z "${HOMEFREE_LONG_ROWS-}" ] ||
    printf 'fuzz\t%s\t%s\n' "$summary" "$([ "$found" = 0 ] && echo passed || echo failed)" \
        >>"$HOMEFREE_LONG_ROWS"
exit "$found"
