#!/bin/sh
# clang-tidy over our own sources, with the compile commands of the build folder given. Files that
# are the tail of jemalloc.c (alloc/jemalloc) have no compile command of their own.
set -eu
cd "$(dirname "$0")/../.."
find alloc shim loader \( -name '*.c' -o -name '*.cc' \) -print0 |
    xargs -0 -P "$(nproc)" -n 4 clang-tidy --quiet -p "$1"
