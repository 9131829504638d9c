#!/bin/sh
# Every cell of the matrix of crossings (tests/matrix/matrix.py): about 450 000, each in a process of
# its own. Prints those that fail, and how many there were. With --seconds N, as many as fit.
#
# usage: tests/long/matrix.sh [BUILD [OPTION…]]
set -eu
cd "$(dirname "$0")/../.."
build=${1:-build}
[ $# -eq 0 ] || shift
exec python3 tests/matrix/matrix.py --build "$build" "$@"
