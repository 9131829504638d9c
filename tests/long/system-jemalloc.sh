#!/bin/sh
# -Djemalloc=system, with Debian's libjemalloc-dev: the heap builds above the distribution's
# jemalloc, and does what it does above the bundled one. Its thread-local storage (2.6 KB) fits only
# into a process that starts with it.
set -eu
cd "$(dirname "$0")/../.."
directory=build-system
tests='sizes alignment calloc realloc grown_block errno_kept stats owner corruption heaps heap_walk
    threads_short threads_kept thread_destructors free_elsewhere fork_busy pages spans_large space_small'
if ! grep -qs '^#define JEMALLOC_VERSION "5\.[3-9]' /usr/include/jemalloc/jemalloc.h; then
    echo "jemalloc 5.3 or later is not installed (Debian: libjemalloc-dev)"
    exit 77
fi
[ -f "$directory/build.ninja" ] ||
    meson setup "$directory" -Dwerror=true -Dexamples=false -Djemalloc=system
# shellcheck disable=SC2086 # a name a word; Meson builds what they need
meson test -C "$directory" --print-errorlogs $tests
