#!/bin/sh
# Runs the fork tests again and again, for a minute or as long as said: what their storms miss in
# two seconds, they may find in sixty. Not part of tests/run.
#
#   tests/long/fork-storm.sh [BUILD [SECONDS]]
set -eu

build=${1:-build} seconds=${2:-60}
library=$build/loader/libhomefree.so.1
other=$build/tests/alloc/fork/libfork_other.so
case $build in
/*) ;;
*) library=$PWD/$library other=$PWD/$other ;;
esac
end=$(($(date +%s) + seconds))
rounds=0
while [ "$(date +%s)" -lt "$end" ]; do
    for configuration in checks:default checks:hardened checks:full; do
        for test in "test_fork_streams $library" "test_fork_handlers $library $other"; do
            # shellcheck disable=SC2086 # a program and its arguments
            HOMEFREE_CONF=$configuration timeout 120 "$build"/tests/alloc/fork/$test >/dev/null || {
                echo "failed: HOMEFREE_CONF=$configuration $test" >&2
                exit 1
            }
        done
    done
    rounds=$((rounds + 1))
done
echo "$rounds rounds"
