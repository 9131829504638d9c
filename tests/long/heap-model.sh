#!/bin/sh
# Random calls against a model of the heap (tests/alloc/spans/heap_model.c): late-loaded, preloaded,
# hardened, and with full checks, for a quarter of the time each.
#
# usage: heap-model.sh BUILD SECONDS
set -u
build=$1
seconds=$(($2 / 4))
failed=0

# way NAME HOW [NAME=VALUE…]
way() {
    name=$1
    how=$2
    shift 2
    if output=$(env "$@" "$build/tests/alloc/spans/heap_model" "$how" "$seconds" 2>&1); then
        outcome=passed
    else
        outcome=failed
        failed=1
    fi
    echo "$name: $outcome: $output"
    [ -z "${HOMEFREE_LONG_ROWS-}" ] ||
        printf 'heap model, %s\t%s\t%s\n' "$name" "$(echo "$output" | tail -n 1)" "$outcome" \
            >>"$HOMEFREE_LONG_ROWS"
}

library=$build/loader/libhomefree.so.1
way 'late-loaded' "$library" HOMEFREE_CONF=
way 'preloaded' malloc LD_PRELOAD="$build/loader/libhomefree-preload.so"
way hardened "$library" HOMEFREE_CONF=checks:hardened
way 'full checks' "$library" HOMEFREE_CONF=checks:full
exit "$failed"
