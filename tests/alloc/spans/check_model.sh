#!/bin/sh
# Searches the model of remote frees (tests/alloc/spans/remote.pml) with spin, in small bounds, and
# sees that each broken variant of the protocol is found.
#
# usage: check_model.sh [SECONDS]
#     without SECONDS: small bounds, all of them searched whole, in about 20 seconds
#     with SECONDS: larger bounds, one after the other, until the time is over; a search that time or
#     memory (MEGABYTES, 8000 unless the environment says otherwise) end before it is whole is no
#     failure
#
# Exit status: 0, 1 the protocol or a search is wrong, 77 there is no spin or no C compiler.
# shellcheck disable=SC2086 # flags are lists of words
set -eu
model=$(cd "$(dirname "$0")" && pwd)/remote.pml
cc=${CC:-cc}
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
failed=0
seconds=${1:-}

# Debian has spin; a shell whose CC has words in it (ccache gcc) works, too.
command -v spin >/dev/null || { echo "skipped: spin(1), which searches the model, is not installed"; exit 77; }
command -v "${cc%% *}" >/dev/null || { echo "skipped: spin needs a C compiler"; exit 77; }

# search TIME HASH FLAGS…: the outcome is in $directory/out, and what ended it in $status.
search() {
    limit=$1
    hash=$2
    shift 2
    # Where threads stand still in a forked child, that is no end that spin expects.
    ends="" reduction=""
    case " $* " in *" -DFORKS"*) ends=-E reduction=-DNOREDUCE ;; esac
    (cd "$directory" && rm -f ./*.trail && spin -a "$@" "$model" >spin.out 2>&1 &&
        $cc $optimised -w -DSAFETY $compress $reduction -DMEMLIM="${MEGABYTES:-8000}" -o pan pan.c) ||
        { cat "$directory/spin.out"; exit 1; }
    status=0
    (cd "$directory" && timeout "$limit" ./pan $ends -m1000000 -w"$hash" >out 2>&1) || status=$?
    states=$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' "$directory/out")
}

# The way to an error, as steps of the model.
explain() {
    (cd "$directory" && spin -t -p -g -k ./*.trail "$@" "$model" 2>/dev/null | tail -n 60)
}

holds() {
    search "$@"
    limit=$1
    shift 2
    if grep -q 'errors: [1-9]' "$directory/out"; then
        echo "failed: $*: $(grep -m1 '^pan:' "$directory/out")"
        explain "$@"
        failed=1
    elif [ "$status" = 0 ] && ! grep -q 'not completed' "$directory/out"; then
        echo "passed: $states states: $*"
    elif [ -n "$seconds" ]; then
        echo "not whole: ${states:-some} states without an error in $limit s: $*"
    else
        echo "failed: the search was not whole: $*"
        tail -n 20 "$directory/out"
        failed=1
    fi
}

breaks() {
    search 60 22 "$@"
    if grep -q '^pan:1: assertion violated' "$directory/out"; then
        echo "passed: found after ${states:-?} states: $1"
    else
        echo "failed: $1 breaks nothing"
        failed=1
    fi
}

small="-DRECORDS=1 -DCLASSES=1"
compress="" optimised=-O0
if [ -z "$seconds" ]; then
    breaks -DRECORD_AFTER
    breaks -DCLEAR_AFTER $small
    breaks -DQUEUED_BEFORE $small
    breaks -DNOT_CLOSED $small
    breaks -DNO_RECHECK $small
    breaks -DNO_SECOND_LOOK $small -DBLOCKS=1 -DALLOCATIONS=4 -DENDS=2
    breaks -DRESET_QUEUED $small
    breaks -DCHILD_QUEUES -DFORKS $small -DALLOCATIONS=2
    breaks -DMISSING_QUEUES -DFORKS=2 $small -DALLOCATIONS=2
    holds 120 23 -DALLOCATIONS=2
    holds 120 23 $small -DOWNERS=1 -DFREERS=2
    holds 120 23 $small -DBLOCKS=1 -DDOUBLES=1 -DALLOCATIONS=2
    holds 120 23 $small -DFORKS=2 -DBLOCKS=1 -DALLOCATIONS=2 -DENDS=0
    holds 120 23 $small -DFORKS=2 -DFREERS=0 -DALLOCATIONS=2
    exit "$failed"
fi

until=$(($(date +%s) + seconds))
compress=-DCOLLAPSE optimised=-O2
while read -r flags; do
    left=$((until - $(date +%s)))
    [ "$left" -gt 10 ] || { echo "no time left for: $flags"; continue; }
    holds "$left" 26 $flags
done <<EOT
$small
$small -DDOUBLES=1 -DALLOCATIONS=2
$small -DFORKS -DALLOCATIONS=2
$small -DBLOCKS=1 -DALLOCATIONS=4 -DENDS=2
-DALLOCATIONS=3
-DDOUBLES=1 -DALLOCATIONS=2
-DBLOCKS=1 -DALLOCATIONS=3 -DENDS=2
-DCLASSES=1 -DUNITS=2 -DBLOCKS=1 -DALLOCATIONS=3
$small -DOWNERS=1 -DFREERS=2 -DALLOCATIONS=5
$small -DOWNERS=1 -DFREERS=2 -DALLOCATIONS=4 -DDOUBLES=1
$small -DFORKS -DALLOCATIONS=3
$small -DFORKS=2 -DALLOCATIONS=2
$small -DBLOCKS=1 -DOWNERS=2 -DFREERS=2 -DALLOCATIONS=3 -DENDS=2
-DOWNERS=3 -DFREERS=0 -DBLOCKS=1 -DALLOCATIONS=3 -DENDS=2
-DALLOCATIONS=4
EOT
exit "$failed"
