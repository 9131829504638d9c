/*
 * Owns the region's bounds, and which parts of it are in use. All threads share it through
 * hf_region_map() and hf_region_unmap(); `lock` guards everything but the bounds, which are written
 * once, before any other thread can see the heap. Callable at any stage once the region is
 * reserved; calls only mmap, munmap, mprotect, madvise, prctl and sysinfo, and reads one file of
 * /proc.
 *
 * Address space is handed out from the lowest address up, and reused (holes.h): alignment slack,
 * arenas of hosted allocators, and everything that jemalloc's arenas retain, once an allocation has
 * failed (jemalloc/fast_path.h, hf_retry).
 */
#include "alloc/heap/region.h"

#include "alloc/base/uncancelled.h"
#include "alloc/heap/holes.h"
#include "alloc/heap/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#    define PR_SET_VMA           0x53564d41
#    define PR_SET_VMA_ANON_NAME 0
#endif

struct hf_region_bounds hf_region;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t used;
static _Atomic(uintptr_t) reached; /* the highest end of what was ever taken; the lock's to write */
/* From the base up to here, all pages are usable since the region was reserved. Atomic, without the
 * lock: a range of addresses has one owner at a time, who alone commits and releases it. */
static _Atomic(uintptr_t) usable_to;

/* A leaf of jemalloc's rtree covers 1 GiB: an aligned region needs fewer leaves. */
#define ALIGNMENT ((size_t)1 << 30)
/* What a process needs when it starts: the blocks of jemalloc's base and of its first arena. Made
 * usable at once, because each of five pieces would take two calls, each of which splits a mapping.
 */
#define FIRST_COMMIT ((size_t)4 << 20)
_Static_assert(FIRST_COMMIT < HF_REGION_MIN, "the smallest region holds what is committed first");

/* Advice is optional: a sandbox may refuse it, and then the caller's errno stays. */
static bool advise(void *at, size_t size, int advice)
{
    const int saved_errno = errno;
    const bool taken = madvise(at, size, advice) == 0;
    errno = saved_errno;
    return taken;
}

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

/* The kernel refuses to map more than all memory and swap at once, and so glibc's malloc() fails.
 * It does not object to reserved pages that become usable. Asked when the process starts, which may
 * not ask later. Nothing is too much if the administrator lets processes allocate more than there
 * is (vm.overcommit_memory is 1). */
static uint64_t most = UINT64_MAX;

static void ask_most(void)
{
    struct sysinfo all;
    char mode = '1';
    int file = hf_open_uncancelled("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    (void)hf_read_uncancelled(file, &mode, 1);
    hf_close_uncancelled(file);
    if (mode != '1' && sysinfo(&all) == 0)
        most = (uint64_t)(all.totalram + all.totalswap) * all.mem_unit;
}

int hf_region_reserve(size_t size)
{
    ask_most();
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        while (size > HF_REGION_MIN && size > limit.rlim_cur / 2)
            size /= 2;
    for (; size >= HF_REGION_MIN; size /= 2) {
        size &= -HF_PAGE_2M;
        void *at = reserve(size, size >= 4 * ALIGNMENT ? ALIGNMENT : HF_PAGE_2M);
        if (at == NULL)
            continue;
        /* Optional: keeps reserved pages out of core files, and names the mapping in
         * /proc/PID/maps. */
        (void)advise((char *)at + FIRST_COMMIT, size - FIRST_COMMIT, MADV_DONTDUMP);
        (void)syscall(SYS_prctl, PR_SET_VMA, PR_SET_VMA_ANON_NAME, at, size, "homefree");
        if (mprotect(at, FIRST_COMMIT, PROT_READ | PROT_WRITE) == 0)
            usable_to = (uintptr_t)at + FIRST_COMMIT;
        hf_holes_give((uintptr_t)at, size);
        hf_region.base = (uintptr_t)at; /* size last: until then nothing is owned */
        hf_region.size = size;
        return 0;
    }
    return -ENOMEM;
}

/* Makes pages usable. mprotect, unlike mmap, adds no address space, and so works in a process that
 * has lowered RLIMIT_AS below the reservation. */
static int commit(void *at, size_t size, int protection)
{
    if ((uintptr_t)at + size <= usable_to && protection == (PROT_READ | PROT_WRITE))
        return 0;
    if (HF_UNLIKELY(size > most)) {
        errno = ENOMEM;
        return -1;
    }
    if (mprotect(at, size, protection) != 0)
        return -1;
    (void)advise(at, size, MADV_DODUMP);
    return 0;
}

/* Decommits pages. A fresh mapping comes first, because it lets adjacent reserved ranges merge. */
static int release(void *at, size_t size)
{
    uintptr_t end = usable_to;
    while ((uintptr_t)at < end && !atomic_compare_exchange_weak(&usable_to, &end, (uintptr_t)at))
        ;
    if (mmap(at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) !=
        MAP_FAILED) {
        (void)advise(at, size, MADV_DONTDUMP);
        return 0;
    }
    if (madvise(at, size, MADV_DONTNEED) != 0)
        return -1;
    (void)mprotect(at, size, PROT_NONE);
    return 0;
}

/* Smaller free pieces keep their protection: a process may have 65530 mappings, and a fragmented
 * region could use them all. Committing such a piece again changes nothing. */
#define PROTECTED_FROM ((size_t)256 << 10)
static bool kept; /* there may be such pieces among the holes; guarded by the lock */

/* Gives a piece back. */
static void give(void *at, size_t size, bool keeps)
{
    pthread_mutex_lock(&lock);
    hf_holes_give((uintptr_t)at, size);
    used -= size;
    kept |= keeps;
    pthread_mutex_unlock(&lock);
}

static void protect_hole(uintptr_t start, size_t size)
{
    (void)release((void *)start, size);
}

/* Commits pages that the region hands out. Free pieces that kept their protection count towards
 * RLIMIT_DATA and the system's commit limit; if the commit fails, they are decommitted and it is
 * tried again. Once that is done, a process that has reached its limit fails at little cost. */
static int commit_anyhow(void *at, size_t size, int protection)
{
    if (commit(at, size, protection) == 0)
        return 0;
    pthread_mutex_lock(&lock);
    if (kept)
        hf_holes_each(protect_hole);
    kept = false;
    pthread_mutex_unlock(&lock);
    return commit(at, size, protection);
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
        int result =
            protection == PROT_NONE ? release(hint, size) : commit_anyhow(hint, size, protection);
        return result == 0 ? hint : MAP_FAILED;
    }
    if (hint != NULL) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    void *at = MAP_FAILED;
    if (size >= HF_PAGE_2M)
        at = hf_region_map_aligned(size, HF_PAGE_2M, protection); /* for huge pages */
    return at != MAP_FAILED ? at : hf_region_map_aligned(size, 1, protection);
}

void *hf_region_map_aligned(size_t size, size_t alignment, int protection)
{
    pthread_mutex_lock(&lock);
    uintptr_t at = hf_holes_take(size, alignment);
    if (at != 0) {
        used += size;
        if (at + size > atomic_load_explicit(&reached, memory_order_relaxed))
            atomic_store_explicit(&reached, at + size, memory_order_relaxed);
    }
    pthread_mutex_unlock(&lock);
    if (at == 0) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    if (protection == PROT_NONE) {
        if (at < usable_to)
            (void)release((void *)at, size);
    } else if (commit_anyhow((void *)at, size, protection) != 0) {
        int error = errno;
        give((void *)at, size, release((void *)at, size) != 0);
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
    const bool keeps = size < PROTECTED_FROM && advise(address, size, MADV_DONTNEED);
    if (!keeps && release(address, size) != 0)
        return -1;
    give(address, size, keeps);
    return 0;
}

size_t hf_region_used(void)
{
    pthread_mutex_lock(&lock);
    size_t bytes = used;
    pthread_mutex_unlock(&lock);
    return bytes;
}

bool hf_region_was_reached(const void *at)
{
    return (uintptr_t)at < atomic_load_explicit(&reached, memory_order_relaxed);
}

void hf_region_reset(void)
{
    pthread_mutex_init(&lock, NULL);
}
