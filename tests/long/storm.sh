#!/bin/sh
# A minute of everything that races with routing (storm.c): half of it with lazy binding, half with
# every slot bound at start. Prints what was done; fails when something broke.
#
# usage: tests/long/storm.sh [BUILD [SECONDS]]
set -eu
cd "$(dirname "$0")/../.."
build=${1:-build}
seconds=${2:-30}
set -- "$seconds" "$build"/tests/loader/modules/user-*.so
echo "lazy:"
"$build/tests/long/storm" "$@"
echo "bound at start:"
LD_BIND_NOW=1 "$build/tests/long/storm" "$@"
