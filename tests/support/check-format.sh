#!/bin/sh
# Every C and C++ file of ours is as clang-format writes it. Not jemalloc's header that we stand in
# for: it keeps the style of the files it lies among.
set -eu
cd "$(dirname "$0")/../.."
find alloc shim loader tests examples \( -name '*.[ch]' -o -name '*.cc' -o -name '*.cpp' \) \
    ! -path 'alloc/jemalloc/include/*' -print0 | xargs -0 clang-format --dry-run --Werror
