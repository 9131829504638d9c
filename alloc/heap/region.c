/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the region's bounds, the tables below it, and which parts of the region are in use. All
 * threads share it through hf_region_map() and hf_region_unmap(); `lock` guards everything. The
 * size, which only grows, is read without it: whoever got an address of the region from another
 * thread sees the size that the address needs. Callable at any stage once the region is reserved;
 * calls only mmap, munmap, mprotect, mremap, madvise and sysinfo, and reads one file of /proc.
 *
 * Where the region lies. The kernel places mappings side by side, near libhomefree. The region
 * begins far away from there, so that the addresses above it are free, and takes them in small
 * steps as they are needed. Tables grow below it in the same way. So a process has hardly
 * more address space than it uses, which counts under RLIMIT_AS, under RLIMIT_MEMLOCK once it calls
 * mlockall(), and in emulators that keep books of every page. If others have mapped something in
 * the way, the region is full.
 *
 * Address space is handed out from the lowest address up, and reused (holes.h): alignment slack,
 * arenas of hosted allocators, and what jemalloc gives back (pages/pages.c).
 */
#include "alloc/heap/region.h"

#include "alloc/base/fork_lock.h"
#include "alloc/base/uncancelled.h"
#include "alloc/heap/holes.h"
#include "alloc/heap/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#    define MAP_FIXED_NOREPLACE 0x100000
#endif

struct hf_region_bounds hf_region;
struct hf_region_here hf_region_here;

static pthread_mutex_t HF_FORK_LOCK lock = PTHREAD_MUTEX_INITIALIZER;
static struct hf_hole first_holes[128];
static struct hf_holes holes = {
    .fresh = first_holes,
    .fresh_end = first_holes + sizeof first_holes / sizeof *first_holes,
};
static atomic_size_t used;         /* the lock's to write */
static _Atomic(uintptr_t) reached; /* the highest end of what was ever taken; the lock's to write */
/* What grows below the region, along with it: tables with some bytes for each part of it. */
static struct table {
    unsigned shift; /* a byte for so many bits of addresses */
    uintptr_t start, end;
} tables[3]; /* entries and granules of spans, and hosted.c's */
static size_t table_count;
static struct hf_region_range *ranges[64]; /* that others read: three of each copy */

/* What a leaf of jemalloc's rtree covers, so that the region shares none with other pages. */
#define ALIGNMENT ((size_t)1 << 30)
/* How far away the region begins: half of that is for the region, the rest for other mappings.
 * Multiples of ALIGNMENT. */
#define FARTHEST HF_REGION_MOST
#define NEAREST  (2 * ALIGNMENT)
#define STEP     HF_REGION_MIN

/* Advice is optional: a sandbox may refuse it, and then the caller's errno stays. */
static bool advise(void *at, size_t size, int advice)
{
    const int saved_errno = errno;
    const bool taken = madvise(at, size, advice) == 0;
    errno = saved_errno;
    return taken;
}

/* Maps fresh pages there or not at all; only with MAP_FIXED over others. Keeps reserved pages out
 * of core files. HINTED: an interposed mmap(), such as ThreadSanitizer's, may know that nothing
 * should be there, and passes a hint on as none, but any other flag to the kernel. */
#define HINTED 0
static bool map_at(uintptr_t at, size_t size, int protection, int fixed)
{
    void *got = mmap((void *)at, size, protection,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
    if (got == MAP_FAILED)
        return false;
    if (got != (void *)at) { /* before Linux 4.17, MAP_FIXED_NOREPLACE means nothing */
        munmap(got, size);
        errno = EEXIST;
        return false;
    }
    if (protection == PROT_NONE)
        (void)advise(got, size, MADV_DONTDUMP);
    return true;
}

/* The kernel refuses to map more than all memory and swap at once, and so glibc's malloc() fails.
 * It does not object to reserved pages that become usable. Asked when the process starts, because a
 * sandbox may end it for asking later. Nothing is too much if the administrator lets processes
 * allocate more than there is (vm.overcommit_memory is 1). */
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

/* Makes pages usable. mprotect, unlike mmap, adds no address space, and so works in a process that
 * has lowered RLIMIT_AS below the reservation. */
static int commit(void *at, size_t size, int protection)
{
    if (HF_UNLIKELY(size > most)) {
        errno = ENOMEM;
        return -1;
    }
    if (mprotect(at, size, protection) != 0)
        return -1;
    (void)advise(at, size, MADV_DODUMP);
    return 0;
}

static void publish(void)
{
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0] && ranges[i] != NULL; i++) {
        ranges[i]->base = hf_region.base;
        __atomic_store_n(&ranges[i]->size, hf_region.size, __ATOMIC_RELEASE);
    }
}

/* The bytes of a table for a region of that size, and for what lies behind it. */
static size_t capacity(const struct table *table, size_t size)
{
    const size_t step = (size_t)64 << 10; /* no system has larger pages */
    return ((size >> table->shift) + step) & -step;
}

static bool cover(struct table *table, size_t size)
{
    const uintptr_t end = table->start + capacity(table, size);
    if (table->start == 0 || end <= table->end)
        return true;
    if (!map_at(table->end, end - table->end, PROT_READ | PROT_WRITE, HINTED))
        return false;
    table->end = end;
    return true;
}

/* Lets the region, at its base, have a size. */
static bool extend(uintptr_t base, size_t size)
{
    const uintptr_t end = base + hf_region.size;
    for (size_t i = 0; i < table_count; i++)
        if (!cover(&tables[i], size))
            return false;
    if (!map_at(end, base + size - end, PROT_NONE, HINTED))
        return false;
    hf_holes_give(&holes, end, base + size - end);
    hf_region.base = hf_region_here.base = base; /* size last: until then nothing is owned */
    __atomic_store_n(&hf_region_here.size, size, __ATOMIC_RELEASE);
    __atomic_store_n(&hf_region.size, size, __ATOMIC_RELEASE);
    publish();
    return true;
}

int hf_region_reserve(size_t size)
{
    ask_most();
    const uintptr_t here = (uintptr_t)&hf_region & -ALIGNMENT;
    for (uintptr_t far = size > FARTHEST / 2 ? 2 * FARTHEST : FARTHEST; far >= NEAREST; far /= 2) {
        const size_t limit = (size < far / 2 ? size : far / 2) & -HF_PAGE_2M;
        if (!(here > far + far / 4 && extend(here - far, HF_REGION_MIN)) &&
            !extend(here + far, HF_REGION_MIN))
            continue;
        hf_region.limit = limit;
        return 0;
    }
    return -ENOMEM;
}

bool hf_region_publish(struct hf_region_range *range)
{
    const size_t count = sizeof ranges / sizeof ranges[0];
    size_t i = 0;
    pthread_mutex_lock(&lock);
    while (i < count && ranges[i] != NULL)
        i++;
    if (i < count) {
        ranges[i] = range;
        publish();
    }
    pthread_mutex_unlock(&lock);
    return i < count;
}

uint8_t *hf_region_table(unsigned shift)
{
    uintptr_t above = hf_region.base;
    size_t i = 0;
    pthread_mutex_lock(&lock);
    for (; i < table_count && tables[i].shift != shift; i++)
        above = tables[i].start;
    if (i == table_count && i < sizeof tables / sizeof tables[0]) {
        const uintptr_t start = above - capacity(&(struct table){.shift = shift}, hf_region.limit);
        tables[i] = (struct table){.shift = shift, .start = start, .end = start};
        if (cover(&tables[i], hf_region.size))
            table_count++;
    }
    uint8_t *table = i < table_count ? (uint8_t *)tables[i].start : NULL;
    pthread_mutex_unlock(&lock);
    return table;
}

/* Gets address space for a request that fits into no hole; first in a large step, then exactly. */
static bool grow(size_t size, size_t alignment)
{
    const uintptr_t base = hf_region.base;
    const uintptr_t hole = hf_holes_last(&holes, base + hf_region.size);
    const uintptr_t at = (hole + alignment - 1) & -alignment;
    if (at < hole || at - base > hf_region.limit || size > hf_region.limit - (at - base))
        return false;
    const size_t needed = (at - base + size + HF_PAGE_2M - 1) & -HF_PAGE_2M;
    const size_t wanted = (needed + STEP - 1) & -STEP;
    return (wanted <= hf_region.limit && extend(base, wanted)) || extend(base, needed);
}

/* Decommits pages. A fresh mapping comes first, because it lets adjacent reserved ranges merge. */
static int release(void *at, size_t size)
{
    if (map_at((uintptr_t)at, size, PROT_NONE, MAP_FIXED))
        return 0;
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
    hf_holes_give(&holes, (uintptr_t)at, size);
    used -= size;
    kept |= keeps;
    pthread_mutex_unlock(&lock);
}

static bool protect_hole(void *context, uintptr_t start, size_t size)
{
    (void)context;
    (void)release((void *)start, size);
    return true;
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
        hf_holes_each(&holes, 0, protect_hole, NULL);
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
    uintptr_t at = hf_holes_take(&holes, size, alignment);
    if (at == 0 && (protection == PROT_NONE || size <= most) && grow(size, alignment))
        at = hf_holes_take(&holes, size, alignment);
    if (at != 0) {
        used += size;
        if (at + size > atomic_load_explicit(&reached, memory_order_relaxed))
            atomic_store_explicit(&reached, at + size, memory_order_relaxed);
    }
    const bool usable = kept;
    pthread_mutex_unlock(&lock);
    if (at == 0) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    if (protection == PROT_NONE) {
        if (usable)
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

/* ---- blocks that take their pages along ---- */

/* A moved block is a mapping of its own, and a process may have 65530. */
#define MOVED_MIN   ((size_t)4 << 20)
#define MOVED_SHARE 8192
#define PIECE       HF_PAGE_2M

bool hf_region_can_move(size_t size)
{
    const uintptr_t end = atomic_load_explicit(&reached, memory_order_relaxed);
    return size >= (end - hf_region.base) / MOVED_SHARE;
}

bool hf_region_moves(size_t size)
{
    return size >= MOVED_MIN && hf_region_can_move(size);
}

/* Moves one mapping's pages, which then have to_size bytes: more than before, because the kernel
 * refuses to let several mappings grow. Linux 6.17 and later would move several of the same size,
 * and might fail with some of them moved. Nobody else maps anything between the two calls: the
 * kernel chooses addresses far away. *mapped becomes false if there are no fresh pages where the
 * old ones were. */
static bool move_mapping(char *to, size_t to_size, char *from, size_t size, bool *mapped)
{
    if (to_size <= size)
        return false;
    if (mremap(from, size, to_size, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to) {
        /* For valgrind, which may take what is new for unusable; the kernel has nothing to do. */
        (void)mprotect(to + size, to_size - size, PROT_READ | PROT_WRITE);
        *mapped &= map_at((uintptr_t)from, size, PROT_READ | PROT_WRITE, MAP_FIXED_NOREPLACE);
        return true;
    }
    /* Of several mappings, or at the limit on mappings. Some failures come after the kernel has
     * unmapped the target. */
    if (!map_at((uintptr_t)to, to_size, PROT_READ | PROT_WRITE, MAP_FIXED_NOREPLACE) &&
        errno != EEXIST)
        hf_heap_fatal_memory();
    return false;
}

/* The bytes behind a block, if they are free. */
static bool take_behind(uintptr_t end, size_t more)
{
    pthread_mutex_lock(&lock);
    const size_t capacity = hf_holes_from(&holes, end);
    const bool taken =
        capacity >= more || (end + capacity == hf_region.base + hf_region.size && more <= most &&
                             grow(more, 1) && hf_holes_from(&holes, end) >= more);
    if (taken) {
        hf_holes_take_at(&holes, end, more);
        used += more;
        if (end + more > atomic_load_explicit(&reached, memory_order_relaxed))
            atomic_store_explicit(&reached, end + more, memory_order_relaxed);
    }
    pthread_mutex_unlock(&lock);
    return taken;
}

/* The mapping itself grows, so that it can be moved as one later. */
bool hf_region_extend(char *start, size_t size, size_t more)
{
    char *end = start + size;
    if (!take_behind((uintptr_t)end, more))
        return false;
    if (munmap(end, more) == 0) {
        if (mremap(start, size, size + more, 0) == start) {
            (void)mprotect(end, more, PROT_READ | PROT_WRITE); /* as in move_mapping() */
            return true;
        }
        /* Another thread may have reached the limit meanwhile: then these addresses are lost. */
        if (!map_at((uintptr_t)end, more, PROT_NONE, MAP_FIXED_NOREPLACE))
            return false;
    }
    give(end, more, false);
    return false;
}

/* A block that grew in place behind pages that it once took along has several mappings: halves,
 * then, down to pieces, which are copied. What moves gets a page more, which what follows takes. */
static void move_parts(char *to, size_t to_size, char *from, size_t size, bool *mapped)
{
    const size_t more = size + ((size_t)1 << HF_LG_PAGE);
    if (move_mapping(to, more < to_size ? more : to_size, from, size, mapped))
        return;
    if (size > PIECE) {
        const size_t half = (size / 2 + PIECE - 1) & -(size_t)PIECE;
        move_parts(to, to_size, from, half, mapped);
        move_parts(to + half, to_size - half, from + half, size - half, mapped);
        return;
    }
    memcpy(to, from, size);
    /* Fresh pages: what the program has advised of the old ones, or mapped there, ends. */
    if (!map_at((uintptr_t)from, size, PROT_READ | PROT_WRITE, MAP_FIXED))
        (void)madvise(from, size, MADV_DONTNEED);
}

bool hf_region_move(char *to, size_t to_size, char *from, size_t size)
{
    bool mapped = true;
    if (!move_mapping(to, to_size, from, size, &mapped))
        move_parts(to, to_size, from, size, &mapped);
    return mapped;
}

size_t hf_region_used(void)
{
    return atomic_load_explicit(&used, memory_order_relaxed);
}

bool hf_region_was_reached(const void *at)
{
    return (uintptr_t)at < atomic_load_explicit(&reached, memory_order_relaxed);
}
