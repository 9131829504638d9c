#!/bin/sh
# Makes objects.zip: small objects for macOS and Windows, which test_platforms.py looks into. By hand,
# with clang, lld and LLVM's tools, of any version from 14 on: sh make.sh
set -e
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
version=-$(clang --version | sed -n 's/.*version \([0-9]*\).*/\1/p')

# macos OUT INSTALL_NAME ARCHITECTURE SOURCE [LINKER OPTION]
macos() {
    clang -target "$3-apple-macos11" -O1 -ffreestanding -fno-stack-protector -c "$4" -o object.o
    "ld64.lld$version" -dylib -arch "$3" -platform_version macos 11.0 11.0 -undefined dynamic_lookup \
        -install_name "$2" $5 object.o -o "$1"
}

cat >mimalloc.c <<'C'
#include <stdint.h>
static const char text[] = "mimalloc: warning: %s";
void *PyInit_mimalloc(void) { return (void *)text; }
static __attribute__((noinline)) void *slot_108(void)
{
#if defined(__x86_64__)
    void *found;
    __asm__ volatile("movq %%gs:0x360, %0" : "=r"(found));
    return found;
#else
    void **found;
    __asm__ volatile("mrs %0, tpidrro_el0" : "=r"(found));
    return ((void **)((uintptr_t)found & ~7ul))[108];
#endif
}
void *mi_user(void) { return slot_108(); }
C
macos mimalloc.so @rpath/mimalloc.so arm64 mimalloc.c
macos thin.so @rpath/both.so x86_64 mimalloc.c
"llvm-lipo$version" -create mimalloc.so thin.so -output both.so
rm thin.so

# An allocator that takes over the process: a default zone, replaced functions, exported names.
cat >takes_over.c <<'C'
typedef unsigned long size;
static const char text[] = "<jemalloc>: %s", version[] = "5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c";
void malloc_zone_register(void *), malloc_zone_unregister(void *);
long getline(char **, size *, void *);
void *malloc(size bytes) { return (void *)(text + bytes); }
void free(void *block) { malloc_zone_register(block); malloc_zone_unregister(block); }
void *calloc(size, size);
void *_Znwm(size bytes) { return calloc(1, bytes); }
void *renew(void) { char *line = (char *)version; getline(&line, 0, 0); free(line); return line; }
__attribute__((visibility("hidden"))) void je_arena_boot(void) {}
__attribute__((used)) static void *keep = (void *)je_arena_boot;
__attribute__((used, section("__DATA,__interpose"))) static void *const pair[2] = {
    (void *)malloc, (void *)free};
C
macos takes_over.dylib @rpath/takes_over.dylib arm64 takes_over.c -flat_namespace

cat >plain.c <<'C'
void *PyInit_plain(void) { return (void *)0; }
C
macos plain.so @rpath/plain.so arm64 plain.c
cat >libomp.c <<'C'
__attribute__((weak)) int _Z16__kmp_suspend_64(void) { return 1; }
C
macos libomp.dylib @rpath/libomp.dylib arm64 libomp.c

# windows OUT MACHINE LIBRARIES SOURCE EXPORT...: LIBRARIES are names of DLLs, whose functions are in
# .def files.
windows() {
    out=$1 machine=$2 libraries=$3 source=$4
    shift 4
    case $machine in x64) target=x86_64 tool=i386:x86-64 ;; x86) target=i686 tool=i386 ;; esac
    clang -target "$target-windows-msvc" -O1 -ffreestanding -fno-stack-protector -c "$source" -o object.obj
    set -- "$@" object.obj
    for library in $libraries; do
        "llvm-dlltool$version" -k -m "$tool" -d "$library.def" -l "$library.lib"
        set -- "$@" "$library.lib"
    done
    "lld-link$version" /dll /noentry /nodefaultlib /machine:$machine /out:"$out" "$@"
}
define() {
    printf 'LIBRARY %s.dll\nEXPORTS\n' "$1" >"$1.def"
    name=$1
    shift
    printf '%s\n' "$@" >>"$name.def"
}
define kernel32 GetProcessHeap HeapAlloc HeapReAlloc HeapSize
define api-ms-win-crt-heap-l1-1-0 malloc
define ucrtbased malloc
define msvcr90 malloc
define mimalloc-redirect mi_redirect_enable

cat >static.c <<'C'
__declspec(dllimport) void *__stdcall GetProcessHeap(void);
__declspec(dllimport) void *__stdcall HeapAlloc(void *, unsigned, unsigned long long);
__declspec(dllimport) void *__stdcall HeapReAlloc(void *, unsigned, void *, unsigned long long);
__declspec(dllimport) unsigned long long __stdcall HeapSize(void *, unsigned, void *);
static const char text[] = "mimalloc: warning: %s";
void *PyInit_static(void)
{
    void *block = HeapReAlloc(GetProcessHeap(), 0, HeapAlloc(GetProcessHeap(), 0, 1), 2);
    return HeapSize(GetProcessHeap(), 0, block) ? block : (void *)text;
}
void *text_of(void) __asm__("?Text@@YA?AV?$basic_string@DU?$char_traits@D@std@@V?$allocator@D@2@@std@@XZ");
void *text_of(void) { return (void *)text; }
C
windows static.pyd x64 kernel32 static.c /export:PyInit_static \
    '/export:?Text@@YA?AV?$basic_string@DU?$char_traits@D@std@@V?$allocator@D@2@@std@@XZ'
cat >uses.c <<'C'
__declspec(dllimport) void *malloc(__SIZE_TYPE__);
void *PyInit_uses(void) { return malloc(1); }
C
windows ucrt.pyd x64 api-ms-win-crt-heap-l1-1-0 uses.c /export:PyInit_uses
windows debugging.pyd x64 ucrtbased uses.c /export:PyInit_uses
windows old.pyd x86 msvcr90 uses.c /export:PyInit_uses
windows libiomp5md.dll x64 api-ms-win-crt-heap-l1-1-0 uses.c /export:PyInit_uses
cp libiomp5md.dll libomp140.x86_64.dll
cat >redirected.c <<'C'
__declspec(dllimport) int mi_redirect_enable(void);
int uses(void) { return mi_redirect_enable(); }
C
windows redirected.dll x64 mimalloc-redirect redirected.c /export:uses

rm -f "$here/objects.zip"
touch -d '2026-01-01 00:00:00 UTC' ./*.so ./*.dylib ./*.pyd ./*.dll
rm -f ./*.lib
zip -q -9 -X "$here/objects.zip" ./*.so ./*.dylib ./*.pyd ./*.dll
