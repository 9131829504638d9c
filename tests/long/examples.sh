#!/bin/sh
# The tests of the suite `long`, which tests/run leaves out, one after the other, as far as the time
# goes. They are skipped where tests/run has not fetched what they need.
#
#   tests/long/examples.sh [BUILD [SECONDS]]
set -eu
build=${1:-build} seconds=${2:-300}
rows=${HOMEFREE_LONG_ROWS:-/dev/stdout}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
end=$(($(date +%s) + seconds))
failed=
meson test -C "$build" --no-rebuild --list --suite long | sed -n 's|.* / ||p' >"$log.list"
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
rm -f "$log.list"
[ -z "$failed" ]
