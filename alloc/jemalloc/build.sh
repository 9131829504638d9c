#!/bin/sh
# Builds jemalloc as a private static library that takes its pages from the region and keeps its
# thread data behind homefree's slot (include/jemalloc/internal/tsd_tls.h).
#
#   build.sh SOURCE SEAM WORK CC AR ARCHIVE
#
# SOURCE  jemalloc's release tree; copied, never modified
# SEAM    this folder
# WORK    build folder; removed and recreated
# CC, AR  the compiler and archiver of the rest of the build
# ARCHIVE the resulting library
#
# Prints nothing on success, and the whole log if a step fails.
set -eu

source=$1 seam=$2 work=$3 cc=$4 ar=$5 archive=$6
here=$(pwd)
log=$here/$work.log

fail() {
    cat "$log" >&2
    echo "homefree: jemalloc did not build ($1); its log is above" >&2
    exit 1
}

rm -rf "$work"
mkdir -p "$work"
cp -R "$source/." "$work/"
cd "$work"
: >"$log"
patch -p1 -s <"$seam/homefree.patch" >>"$log" 2>&1 || fail patch

# All names are private (prefix and namespace); no C++ operators, no dlsym; no configuration but
# homefree's; no sbrk, whose memory would lie outside the region. Configured as missing:
# pthread_atfork, because the heap has handlers of its own (fork_gate.h). Pages of 64 KiB on 64-bit
# Arm: one build must run on kernels with 4, 16 and 64 KiB pages.
target=$($cc -dumpmachine 2>>"$log") || fail "no target"
case $target in
aarch64-*) page=--with-lg-page=16 ;;
*) page= ;;
esac
host=
[ "${target%%-*}" = "$(uname -m)" ] || host=--host=$target
# Branch placement costs up to a seventh of a malloc+free pair: on some x86-64 processors, a branch
# that crosses a 32-byte boundary is decoded again on every execution.
shape=-falign-functions=64
printf 'int main(void) { return 0; }\n' >shape.c
if [ "${target%%-*}" = x86_64 ] &&
    $cc -Werror -Wa,-mbranches-within-32B-boundaries -c shape.c -o shape.o 2>>"$log"; then
    shape="$shape -Wa,-mbranches-within-32B-boundaries"
fi
je_cv_pthread_atfork=no CC="$cc" AR="$ar" \
    CPPFLAGS="-I$seam/include -I$seam -include $seam/pages.h" \
    EXTRA_CFLAGS="-g -fno-plt -fno-semantic-interposition -ffunction-sections -fdata-sections $shape" \
    ./configure --with-version=5.3.1-0-g81034ce1f1373e37dc865038e1bc8eeecf559ce8 \
    --with-jemalloc-prefix=hf_je_ --with-private-namespace=hf_ --disable-cxx --disable-libdl \
    --disable-user-config --disable-dss --disable-initial-exec-tls --disable-shared \
    --disable-doc --with-lg-vaddr=48 $page $host \
    >>"$log" 2>&1 || fail configure
make -j"$(nproc 2>/dev/null || echo 2)" lib/libjemalloc_pic.a >>"$log" 2>&1 || fail make

cd "$here"
cp "$work/lib/libjemalloc_pic.a" "$archive"
