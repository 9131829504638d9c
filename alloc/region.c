/*
 * Owns the region's bounds and which parts of it are taken. Shared by all threads through
 * hf_region_map and hf_region_unmap; `lock` guards everything but the bounds, which are written
 * once, before any other thread can see the heap. May be called from the moment the region is
 * reserved, at any stage; calls only mmap, mprotect, madvise and prctl.
 *
 * Address space is handed out from the bottom up. What comes back (jemalloc trims alignment slack,
 * and little else: it keeps what it has) goes to a short sorted list of holes and is handed out
 * again; a hole that finds no place in the list is lost as address space, not as memory.
 */
#include "region.h"

#include "internal.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#ifndef PR_SET_VMA
#    define PR_SET_VMA           0x53564d41
#    define PR_SET_VMA_ANON_NAME 0
#endif

struct hf_region_bounds hf_region;

#define HOLES_MAX 256

struct hole {
    uintptr_t start;
    size_t size;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uintptr_t top;                /* first byte never handed out */
static struct hole holes[HOLES_MAX]; /* sorted by address, never adjacent */
static size_t holes_count;
static size_t used;

/* A leaf of jemalloc's page table covers 1 GiB: fewer leaves when the region begins with one. */
#define ALIGNMENT ((size_t)1 << 30)

static void *reserve(size_t size, size_t alignment)
{
    char *at =
        mmap(NULL, size + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    size_t lead = -(uintptr_t)at & (alignment - 1);
    if (lead != 0)
        munmap(at, lead);
    munmap(at + lead + size, alignment - lead);
    return at + lead;
}

int hf_region_reserve(size_t size)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        while (size > HF_REGION_MIN && size > limit.rlim_cur / 2)
            size /= 2;
    for (; size >= HF_REGION_MIN; size /= 2) {
        size &= -HF_PAGE_2M;
        void *at = reserve(size, size >= 4 * ALIGNMENT ? ALIGNMENT : HF_PAGE_2M);
        if (at == NULL)
            continue;
        /* Both are courtesies: no reserved page in a core file, and a name in /proc/PID/maps. */
        (void)madvise(at, size, MADV_DONTDUMP);
        (void)prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, at, size, "homefree");
        top = (uintptr_t)at;
        hf_region.base = (uintptr_t)at; /* the size last: until then nothing is owned */
        hf_region.size = size;
        return 0;
    }
    return -ENOMEM;
}

static size_t alignment_of(size_t size)
{
    return size >= HF_PAGE_2M ? HF_PAGE_2M : 1;
}

static void remove_hole(size_t at)
{
    holes_count--;
    memmove(&holes[at], &holes[at + 1], (holes_count - at) * sizeof holes[0]);
}

static void insert_hole(size_t at, uintptr_t start, size_t size)
{
    if (holes_count == HOLES_MAX)
        return;
    memmove(&holes[at + 1], &holes[at], (holes_count - at) * sizeof holes[0]);
    holes[at] = (struct hole){start, size};
    holes_count++;
}

static uintptr_t take_hole(size_t size, size_t alignment)
{
    for (size_t i = 0; i < holes_count; i++) {
        uintptr_t start = holes[i].start, end = start + holes[i].size;
        uintptr_t at = (start + alignment - 1) & -alignment;
        if (at < start || at > end || end - at < size)
            continue;
        remove_hole(i);
        if (end > at + size)
            insert_hole(i, at + size, end - (at + size));
        if (at > start)
            insert_hole(i, start, at - start);
        return at;
    }
    return 0;
}

static uintptr_t take_top(size_t size, size_t alignment)
{
    uintptr_t at = (top + alignment - 1) & -alignment;
    uintptr_t end = hf_region.base + hf_region.size;
    if (at > end || end - at < size)
        return 0;
    if (at > top)
        insert_hole(holes_count, top, at - top);
    top = at + size;
    return at;
}

static void give(uintptr_t start, size_t size)
{
    size_t i = 0;
    while (i < holes_count && holes[i].start < start)
        i++;
    if (i < holes_count && start + size == holes[i].start) {
        size += holes[i].size;
        remove_hole(i);
    }
    if (i > 0 && holes[i - 1].start + holes[i - 1].size == start) {
        start = holes[i - 1].start;
        size += holes[i - 1].size;
        remove_hole(--i);
    }
    if (start + size == top)
        top = start;
    else
        insert_hole(i, start, size);
}

/* Makes pages usable. mprotect, not mmap: it adds no address space, so it also works in a process
 * that has lowered RLIMIT_AS below what is reserved. */
static int commit(void *at, size_t size, int protection)
{
    if (mprotect(at, size, protection) != 0)
        return -1;
    (void)madvise(at, size, MADV_DODUMP);
    return 0;
}

/* Drops pages. Fresh mapping first, because it also lets neighbouring reserved ranges merge. */
static int release(void *at, size_t size)
{
    if (mmap(at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) !=
        MAP_FAILED) {
        (void)madvise(at, size, MADV_DONTDUMP);
        return 0;
    }
    if (madvise(at, size, MADV_DONTNEED) != 0)
        return -1;
    (void)mprotect(at, size, PROT_NONE);
    return 0;
}

static bool inside(const void *at, size_t size)
{
    return hf_owned(at) && size <= hf_region.size - ((uintptr_t)at - hf_region.base);
}

void *hf_region_map(void *hint, size_t size, int protection, int flags)
{
    if ((flags & MAP_FIXED) != 0) {
        if (!inside(hint, size)) {
            errno = EINVAL;
            return MAP_FAILED;
        }
        int result = protection == PROT_NONE ? release(hint, size) : commit(hint, size, protection);
        return result == 0 ? hint : MAP_FAILED;
    }
    if (hint != NULL) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return hf_region_map_aligned(size, alignment_of(size), protection);
}

void *hf_region_map_aligned(size_t size, size_t alignment, int protection)
{
    pthread_mutex_lock(&lock);
    uintptr_t at = take_hole(size, alignment);
    if (at == 0)
        at = take_top(size, alignment);
    if (at != 0)
        used += size;
    pthread_mutex_unlock(&lock);
    if (at == 0) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    if (protection != PROT_NONE && commit((void *)at, size, protection) != 0) {
        int error = errno;
        hf_region_unmap((void *)at, size);
        errno = error;
        return MAP_FAILED;
    }
    return (void *)at;
}

int hf_region_unmap(void *address, size_t size)
{
    if (!inside(address, size)) {
        errno = EINVAL;
        return -1;
    }
    if (release(address, size) != 0)
        return -1;
    pthread_mutex_lock(&lock);
    give((uintptr_t)address, size);
    used -= size;
    pthread_mutex_unlock(&lock);
    return 0;
}

size_t hf_region_used(void)
{
    pthread_mutex_lock(&lock);
    size_t bytes = used;
    pthread_mutex_unlock(&lock);
    return bytes;
}

void hf_region_lock(void)
{
    pthread_mutex_lock(&lock);
}

void hf_region_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void hf_region_reset(void)
{
    pthread_mutex_init(&lock, NULL);
}
