#!/bin/sh
# The core of the heap under ThreadSanitizer (tests/alloc/spans/remote_storm.c).
#
# usage: remote-frees.sh BUILD SECONDS
program=$1/tests/alloc/spans/remote_storm
[ -x "$program" ] || { echo "the compiler has no ThreadSanitizer"; exit 77; }
exec "$program" "$2"
