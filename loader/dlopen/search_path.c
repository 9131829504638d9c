/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing but what it remembers of the processor, a constant; no lock.
 *
 * Everything here mirrors glibc's _dl_map_object (elf/dl-load.c, 2.17 to 2.42): which directory is
 * searched when, what makes the loader try the next directory, and what makes it stop with an
 * error. Where it would stop, the file is accepted, and the loader, which is called next, reports
 * the error.
 *
 * Runs on the stack of dlopen()'s caller, which may be as small as 16 KiB, so buffers come from the
 * heap.
 */
#include "loader/dlopen/search_path.h"

#include "alloc/base/maps.h"
#include "alloc/heap/internal.h"
#include "loader/elf/origin.h"
#include "loader/foreign/adopted_note.h"
#include "loader/satellites/adopt_api.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
#    include <cpuid.h>
#endif

#if defined(__aarch64__)
#    define NATIVE_MACHINE EM_AARCH64
#else
#    define NATIVE_MACHINE EM_X86_64
#endif

/* ---- an object's directory ---- */

/* Makes an object's path absolute, where it is relative to the working directory: if that is still
 * the one in which the object was loaded. RTLD_DI_ORIGIN would know the old one, but it copies a
 * path of any length, and from no address at all if the loader has none. */
static bool make_absolute(const struct link_map *map, char path[PATH_MAX])
{
    struct hf_place place;
    struct stat file;
    if (getcwd(path, PATH_MAX) == NULL || path[0] != '/')
        return false;
    const size_t length = strlen(path), left = PATH_MAX - length;
    return (size_t)snprintf(path + length, left, "/%s", map->l_name) < left &&
           stat(path, &file) == 0 && hf_maps_find(map->l_ld, &place) == 1 &&
           place.at.inode == file.st_ino;
}

/* Returns the directory that $ORIGIN stands for, to be freed with hf_free(), or NULL if it is
 * unknown. */
static char *origin_of(const struct link_map *map)
{
    const char *name = map->l_name != NULL ? map->l_name : "";
    char *origin = hf_malloc(PATH_MAX);
    bool known = false;
    if (origin == NULL)
        return NULL;
    if (name[0] == '\0' && map->l_prev == NULL) {
        const ssize_t length = readlink("/proc/self/exe", origin, PATH_MAX - 1);
        known = length > 0 && origin[0] == '/';
        origin[known ? length : 0] = '\0';
    } else if (name[0] == '/') {
        known = memccpy(origin, name, '\0', PATH_MAX) != NULL;
    } else if (name[0] != '\0') {
        known = make_absolute(map, origin);
    }
    if (!known) {
        hf_free(origin);
        return NULL;
    }
    char *slash = strrchr(origin, '/');
    slash[slash == origin] = '\0';
    return origin;
}

/* ---- hardware subdirectories ---- */

enum { SUBDIRECTORIES_MAX = 3 + 16, SUBDIRECTORY_LONGEST = 32 };

/* In search order; the last entry is the directory itself. Listed for each search: a process that
 * calls no dlopen() with a bare name needs none of it. */
struct subdirectories {
    char names[SUBDIRECTORIES_MAX][SUBDIRECTORY_LONGEST];
    size_t count;
};

#if defined(__x86_64__)
/* From <sys/platform/x86.h>, glibc 2.33 on; weak, so that libhomefree loads on older versions.
 * Features disabled by GLIBC_TUNABLES are not active. */
struct cpuid_feature {
    unsigned cpuid[4], active[4]; /* eax, ebx, ecx, edx */
};
extern const struct cpuid_feature *
hf_x86_get_cpuid_feature_leaf(unsigned leaf) __asm__("__x86_get_cpuid_feature_leaf")
    __attribute__((weak, visibility("default")));

enum { EBX = 1, ECX = 2 };
enum { LEAF_1, LEAF_7, LEAF_80000001 };

static bool has(unsigned leaf, unsigned word, unsigned bits)
{
    if (hf_x86_get_cpuid_feature_leaf == NULL)
        return false;
    const struct cpuid_feature *feature = hf_x86_get_cpuid_feature_leaf(leaf);
    return feature != NULL && (feature->active[word] & bits) == bits;
}

#    define BIT(n) (1U << (n))

/* x86-64-v2 to -v4, as in glibc's sysdeps/x86_64/dl-hwcap_subdirs.c. */
static unsigned level(void)
{
    /* sse3, ssse3, cmpxchg16b, sse4.1, sse4.2, popcnt; lahf */
    if (!has(LEAF_1, ECX, BIT(0) | BIT(9) | BIT(13) | BIT(19) | BIT(20) | BIT(23)) ||
        !has(LEAF_80000001, ECX, BIT(0)))
        return 1;
    /* fma, movbe, avx, f16c; bmi1, avx2, bmi2; lzcnt */
    if (!has(LEAF_1, ECX, BIT(12) | BIT(22) | BIT(28) | BIT(29)) ||
        !has(LEAF_7, EBX, BIT(3) | BIT(5) | BIT(8)) || !has(LEAF_80000001, ECX, BIT(5)))
        return 2;
    /* avx512f, avx512dq, avx512cd, avx512bw, avx512vl */
    return has(LEAF_7, EBX, BIT(16) | BIT(17) | BIT(28) | BIT(30) | BIT(31)) ? 4 : 3;
}

/* Not __builtin_cpu_is(): it links a constructor of libgcc's into the library, which executes about
 * twenty CPUID instructions whenever libhomefree is loaded. Each takes 4 microseconds under a
 * hypervisor. */
static bool is_intel(void)
{
    enum { UNKNOWN, INTEL, OTHER };
    static _Atomic int maker;
    int known = maker;
    if (known == UNKNOWN) {
        unsigned eax, ebx = 0, ecx, edx;
        __cpuid(0, eax, ebx, ecx, edx);
        maker = known = ebx == signature_INTEL_ebx ? INTEL : OTHER;
    }
    return known == INTEL;
}

/* Names of the older subdirectories, which glibc 2.37 dropped: the parts of a path, outermost
 * first. */
static size_t legacy_names(const char *names[4])
{
    const char *platform = (const char *)getauxval(AT_PLATFORM);
    const char *known = platform != NULL ? platform : "x86_64";
    bool avx512 = false;
    size_t count = 0;
    if (is_intel()) {
        const unsigned er = BIT(27), pf = BIT(26), cd = BIT(28), rest = BIT(17) | BIT(30) | BIT(31);
        if (has(LEAF_7, EBX, cd | er | pf))
            known = "xeon_phi";
        else if (has(LEAF_7, EBX, BIT(3) | BIT(5) | BIT(8)) && has(LEAF_80000001, ECX, BIT(5)) &&
                 has(LEAF_1, ECX, BIT(22) | BIT(23)))
            known = "haswell";
        avx512 = has(LEAF_7, EBX, cd | rest) && !has(LEAF_7, EBX, er);
    }
    names[count++] = "tls";
    names[count++] = known;
    if (avx512)
        names[count++] = "avx512_1";
    names[count++] = "x86_64";
    return count;
}
#endif

static char *append(char *at, const char *text)
{
    return stpcpy(at, text);
}

static void list_subdirectories(struct subdirectories *list)
{
    list->count = 0;
#if defined(__x86_64__)
    for (unsigned i = level(); i >= 2; i--) {
        const char version[] = {(char)('0' + i), '/', '\0'};
        append(append(list->names[list->count++], "glibc-hwcaps/x86-64-v"), version);
    }
    const char *version = gnu_get_libc_version();
    if (strncmp(version, "2.", 2) == 0 && strtoul(version + 2, NULL, 10) < 37) {
        const char *names[4];
        const size_t count = legacy_names(names);
        /* Every part is optional; outer parts have priority. */
        for (unsigned mask = (1U << count) - 1; mask != 0; mask--) {
            char *at = list->names[list->count++];
            for (size_t i = 0; i < count; i++)
                if ((mask >> (count - 1 - i) & 1) != 0)
                    at = append(append(at, names[i]), "/");
        }
    }
#endif
    append(list->names[list->count++], "");
}

/* ---- one file ---- */

/* What the loader does with a file: skips it, or loads it or reports an error (FOUND). */
enum verdict { ABSENT, OTHER_CLASS, FOUND };

static enum verdict look_at(const char *path)
{
    /* Unlike the loader's open(), this does not block on a FIFO. */
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return ABSENT;
    static const unsigned char rest[EI_NIDENT - EI_PAD];
    ElfW(Ehdr) header;
    const unsigned char *ident = header.e_ident;
    const ssize_t got = pread(descriptor, &header, sizeof header, 0);
    close(descriptor);
    if (got != (ssize_t)sizeof header || memcmp(ident, ELFMAG, SELFMAG) != 0)
        return FOUND;
    if (ident[EI_CLASS] != ELFCLASS64)
        return OTHER_CLASS;
    if (ident[EI_DATA] != ELFDATA2LSB || ident[EI_VERSION] != EV_CURRENT ||
        (ident[EI_OSABI] != ELFOSABI_SYSV && ident[EI_OSABI] != ELFOSABI_GNU) ||
        (ident[EI_OSABI] == ELFOSABI_SYSV && ident[EI_ABIVERSION] != 0) ||
        memcmp(ident + EI_PAD, rest, sizeof rest) != 0 || header.e_version != EV_CURRENT)
        return FOUND;
    return header.e_machine == NATIVE_MACHINE ? FOUND : ABSENT;
}

/* ---- the search ---- */

/* Returns the directories that dlopen() searches on behalf of an object, in order, to be freed with
 * hf_free(); NULL if they cannot be determined. glibc does not tell which of them are the object's
 * own (dls_flags is always 0). */
static Dl_serinfo *search_list(const struct link_map *map)
{
    Dl_serinfo size;
    void *handle = (void *)(uintptr_t)map;
    if (map == NULL || dlinfo(handle, RTLD_DI_SERINFOSIZE, &size) != 0)
        return NULL;
    Dl_serinfo *list = hf_malloc(size.dls_size);
    if (list == NULL)
        return NULL;
    *list = size;
    if (dlinfo(handle, RTLD_DI_SERINFO, list) != 0) {
        hf_free(list);
        return NULL;
    }
    return list;
}

/* Returns how many of the caller's directories precede the common end of both lists, which the
 * loader searches for either object: LD_LIBRARY_PATH if the caller has no RUNPATH, and the default
 * directories, preceded by the cache. */
static size_t own_count(const Dl_serinfo *callers, const Dl_serinfo *ours)
{
    size_t count = callers->dls_cnt, other = ours->dls_cnt;
    while (count > 0 && other > 0 &&
           strcmp(callers->dls_serpath[count - 1].dls_name,
                  ours->dls_serpath[other - 1].dls_name) == 0) {
        count--;
        other--;
    }
    return count;
}

/* Returns the size for a file's path in any of the directories, or beside a private copy's
 * original. */
static size_t capacity(const Dl_serinfo *list, size_t count, const char *directory,
                       const char *file)
{
    size_t longest = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t length = strlen(list->dls_serpath[i].dls_name);
        longest = length > longest ? length : longest;
    }
    return longest + (directory != NULL ? strlen(directory) : 0) + SUBDIRECTORY_LONGEST +
           strlen(file) + 3;
}

/* A private copy stored elsewhere: searches behave as if it were in its original's directory,
 * because the loader expanded $ORIGIN to the copy's directory. */
struct copied {
    const char *directory; /* the original's; NULL: not such a copy */
    char *origin;          /* the copy's */
};

static char *write_directory(char *at, const char *directory, const struct copied *copied)
{
    const size_t length = copied->origin != NULL ? strlen(copied->origin) : 0;
    if (length != 0 && strncmp(directory, copied->origin, length) == 0) {
        at = append(at, copied->directory);
        directory += length;
    }
    return append(append(at, directory), "/");
}

/* Searches the directories until a file has the wanted verdict; `path` then contains its path.
 * Records whether a file of another class was seen. */
static bool search_directories(const Dl_serinfo *list, size_t count,
                               const struct subdirectories *under, const struct copied *copied,
                               const char *file, enum verdict wanted, bool *other_class, char *path)
{
    for (size_t i = 0; i < count; i++) {
        char *end = write_directory(path, list->dls_serpath[i].dls_name, copied);
        for (size_t s = 0; s < under->count; s++) {
            append(append(end, under->names[s]), file);
            const enum verdict verdict = look_at(path);
            *other_class |= verdict == OTHER_CLASS;
            if (verdict == wanted)
                return true;
        }
    }
    return false;
}

char *hf_search_for(const struct link_map *caller, const char *file, bool *skipped)
{
    const int saved_errno = errno;
    struct copied copied = {hf_copied_from(caller), NULL};
    Dl_serinfo *callers = search_list(caller);
    Dl_serinfo *ours = callers != NULL ? search_list(hf_dynlink_find(&hf_region)) : NULL;
    const size_t count = ours != NULL ? own_count(callers, ours) : 0;
    char *path = count != 0 ? hf_malloc(capacity(callers, count, copied.directory, file)) : NULL;
    struct subdirectories *under = path != NULL ? hf_malloc(sizeof *under) : NULL;
    bool found = false;
    *skipped = false;
    if (under != NULL) {
        list_subdirectories(under);
        copied.origin = copied.directory != NULL ? origin_of(caller) : NULL;
        found = search_directories(callers, count, under, &copied, file, FOUND, skipped, path);
        if (found)
            *skipped = false;
        else if (*skipped)
            found = search_directories(callers, count, under, &copied, file, OTHER_CLASS, skipped,
                                       path);
        hf_free(copied.origin);
    }
    hf_free(under);
    hf_free(ours);
    hf_free(callers);
    errno = saved_errno;
    if (found)
        return path;
    hf_free(path);
    return NULL;
}

/* ---- $ORIGIN ---- */

/* In a privileged process, the expansion of the program's own $ORIGIN must lie in a directory that
 * the system trusts: one of those searched for libhomefree, which are then the default directories.
 */
static bool is_trusted(const char *path)
{
    Dl_serinfo *ours = search_list(hf_dynlink_find(&hf_region));
    bool trusted = false;
    for (unsigned i = 0; ours != NULL && i < ours->dls_cnt && !trusted; i++) {
        const char *directory = ours->dls_serpath[i].dls_name;
        const size_t length = strlen(directory);
        trusted = strncmp(path, directory, length) == 0 && path[length] == '/';
    }
    hf_free(ours);
    return trusted && strstr(path, "/../") == NULL;
}

/* The directory for which $ORIGIN stands: of a copy, its original's. */
static char *directory_of(const struct link_map *caller)
{
    const char *directory = hf_copied_from(caller);
    if (directory != NULL)
        return hf_strdup(directory);
    const struct hf_adopted_note *note = hf_adopted_some() ? hf_adopted_loaded(caller) : NULL;
    if (note == NULL)
        return origin_of(caller);
    const size_t length = (size_t)(strrchr(note->original, '/') - note->original);
    return hf_strndup(note->original, length > 0 ? length : 1);
}

char *hf_search_expand(const struct link_map *caller, const char *file)
{
    const size_t length = strlen(file);
    const struct hf_origin_use use = hf_origin_look(file, length);
    const bool privileged = getauxval(AT_SECURE) != 0;
    if (!use.origin)
        return hf_strdup(file);
    if (privileged && use.middle)
        return NULL;
    char *origin = directory_of(caller);
    /* Each variable takes less room than is counted for it. */
    size_t size = length + 1;
    for (const char *at = file; origin != NULL && (at = strchr(at, '$')) != NULL; at++)
        size += strlen(origin);
    char *path = origin != NULL ? hf_malloc(size) : NULL;
    bool right = path != NULL && hf_origin_expand(file, length, origin, path, size) >= 0 &&
                 (!privileged || caller->l_prev != NULL || is_trusted(path));
    hf_free(origin);
    if (right)
        return path;
    hf_free(path);
    return NULL;
}
