#!/bin/sh
# Every cell of the matrix of crossings (tests/matrix/matrix.py): about 500 000, each in a process
# of its own. Prints those that fail, and how many there were. Builds a static mimalloc from
# Debian's source for it, because Debian has none; where the source cannot be had, its cells are
# left out. With --seconds N, as many cells as fit into that time.
#
# usage: tests/long/matrix.sh [BUILD [OPTION…]]
set -eu
cd "$(dirname "$0")/../.."
build=${1:-build}
[ $# -eq 0 ] || shift
mimalloc=$build/long/mimalloc
mkdir -p "$build/long"
if [ ! -e "$mimalloc/libmimalloc-static.a" ]; then
    rm -rf "$mimalloc"
    if tests/support/debian-source.sh mimalloc "$mimalloc"; then
        (
            cd "$mimalloc"
            cc -O2 -fPIC -fvisibility=hidden -DMI_MALLOC_OVERRIDE=1 -DNDEBUG -Iinclude \
                -c src/static.c -o static.o
            ar rcs libmimalloc-static.a static.o
        )
    fi
fi
exec python3 tests/matrix/matrix.py --build "$build" --libraries "$mimalloc" "$@"
