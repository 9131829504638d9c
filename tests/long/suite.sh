#!/bin/sh
# Tests that tests/run leaves out, one after the other, as far as the time goes: those of the suite
# `long`, or, under every CPython, what tests/run runs under the oldest and the newest.
#
#   tests/long/suite.sh [--pythons] [BUILD [SECONDS]]
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
suites='--suite long'
if [ "${1-}" = --pythons ]; then
    shift
    suites='--suite python --suite capsules --suite needs-interpreters --no-suite packaging --no-suite long'
fi
build=${1:-build} seconds=${2:-300}
rows=${HOMEFREE_LONG_ROWS:-/dev/stdout}
log=$(mktemp)
trap 'rm -f "$log" "$log.list"' EXIT
end=$(($(date +%s) + seconds))
. tests/support/prepare.sh
(
    homefree_wheels "$build/wheels"
    homefree_setup_tools "$build/wheels"
) || echo "going on with what was fetched before"
# shellcheck disable=SC2046,SC2086 # lists of words
ninja -C "$build" $(python3 tests/support/suite_targets.py "$build" $suites) >"$log" 2>&1 || {
    cat "$log"
    exit 1
}
failed=
# shellcheck disable=SC2086
meson test -C "$build" --no-rebuild --list $suites | sed -n 's|.* / ||p' >"$log.list"
while read -r name; do
    begun=$(date +%s)
    if [ "$((begun + 30))" -gt "$end" ]; then
        printf '%s\t\tskipped: the time is over\n' "$name" >>"$rows"
        continue
    fi
    if meson test -C "$build" --no-rebuild --print-errorlogs "$name" >"$log" 2>&1 </dev/null; then
        outcome=passed
        ! grep -q '^Skipped: *1' "$log" || outcome='skipped: what it needs is missing'
    else
        outcome=failed failed=yes
    fi
    cat "$log"
    printf '%s\t%s s\t%s\n' "$name" "$(($(date +%s) - begun))" "$outcome" >>"$rows"
done <"$log.list"
[ -z "$failed" ]
