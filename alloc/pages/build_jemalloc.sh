#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Makes jemalloc a private static library; nothing of it is modified.
#
#   build_jemalloc.sh SOURCE NAMES WORK CC AR OBJCOPY ARCHIVE
#
# SOURCE   jemalloc's release tree, which is copied; or an archive of a distribution
# NAMES    functions of libc that it must not call, and ours for them (beneath.h)
# WORK     build directory; removed and recreated
# CC, AR, OBJCOPY  of the rest of the build
# ARCHIVE  the resulting library
#
# Prints nothing on success, and the whole log if a step fails.
set -eu

source=$1 names=$2 work=$3 cc=$4 ar=$5 objcopy=$6 archive=$7
here=$(pwd)
log=$here/$work.log

fail() {
    cat "$log" >&2
    echo "homefree: jemalloc did not build ($1); its log is above" >&2
    exit 1
}

# All names are private (a prefix); no C++ operators, no dlsym; no configuration but
# homefree's; no sbrk, whose memory would lie outside the region; no statistics, which homefree
# counts itself. No thread-local storage, for which a library that is loaded late may find no room;
# thread data are always there (beneath.h), and what would make them leaves each call's frame, 2 KiB
# of it. Three levels of pages instead of two, whose root and first leaf would count 2 MiB each
# under RLIMIT_DATA. Pages of 64 KiB on 64-bit Arm: one build must run on kernels with 4, 16 and 64
# KiB.
from_source() {
    cp -R "$source/." .
    target=$($cc -dumpmachine 2>>"$log") || fail "no target"
    case $target in
    aarch64-*) page=--with-lg-page=16 ;;
    *) page= ;;
    esac
    host=
    [ "${target%%-*}" = "$(uname -m)" ] || host=--host=$target
    cat >found.h <<'END'
#include <pthread.h>
extern void *pthread_getspecific(pthread_key_t key) __attribute__((returns_nonnull));
END
    flags="-g -fno-plt -fno-semantic-interposition -ffunction-sections -fdata-sections"
    force_tls=0 CC="$cc" AR="$ar" EXTRA_CFLAGS="$flags -include $(pwd)/found.h" \
        ./configure --with-version=5.3.1-0-g81034ce1f1373e37dc865038e1bc8eeecf559ce8 \
        --with-jemalloc-prefix=hf_je_ --disable-cxx --disable-libdl \
        --disable-user-config --disable-dss --disable-stats --disable-shared --disable-doc \
        --with-lg-vaddr=57 $page $host >>"$log" 2>&1 || fail configure
    # Its own way to a private namespace compiles everything twice: once to see the names.
    : >include/jemalloc/internal/private_namespace.h
    make -j"$(nproc 2>/dev/null || echo 2)" -o include/jemalloc/internal/private_namespace.h \
        lib/libjemalloc_pic.a >>"$log" 2>&1 || fail make
    mv lib/libjemalloc_pic.a all.a
}

# The same for what a distribution has built: no C++ operators, and a prefix for all names. It has
# thread-local storage, and so a key whose destructor must run in each thread, and a list of
# threads' data that must be made anew in a forked child.
from_archive() {
    cp "$source" all.a
    grep -v -e key_create -e specific names | sed 's/hf_beneath_atfork/&_in_child/' >kept
    mv kept names
    "$ar" d all.a jemalloc_cpp.pic.o >>"$log" 2>&1 || fail ar
}

rm -rf "$work"
mkdir -p "$work"
cp "$names" "$work/names"
: >"$log"
cd "$work"
if [ -d "$source" ]; then from_source; else from_archive; fi
nm --defined-only --extern-only all.a 2>>"$log" |
    awk 'NF == 3 && $3 !~ /^hf_je_/ { print $3, "hf_je_" $3 }' | sort -u >private
[ -s private ] || fail nm
# Its constructor would start it before there is a region.
cat names private >renamed
"$objcopy" --redefine-syms=renamed --remove-section=.init_array --remove-section=.rela.init_array \
    all.a >>"$log" 2>&1 || fail objcopy
cd "$here"
cp "$work/all.a" "$archive"
