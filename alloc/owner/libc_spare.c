/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See libc_spare.h. Any thread, once the heap has started.
 *
 * What was free after it was given back is free still, but is no memory: `given` counts it, and is
 * at most what is free now, because what glibc uses again, it faults in again.
 */
#include "alloc/owner/libc_spare.h"

#include "alloc/base/clock.h"
#include "alloc/base/dynlink.h"
#include "alloc/base/fork_lock.h"
#include "alloc/base/resident.h"
#include "alloc/heap/front_end.h"
#include "alloc/heap/region.h"

#include <errno.h>
#include <gnu/libc-version.h>
#include <malloc.h>
#include <pthread.h>

/* glibc's struct mallinfo2, which older headers lack. */
struct info {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

/* Less, or less a part of what else there is, is not worth the calls. */
#define LEAST ((size_t)32 << 20)
enum { PART = 16 };
/* How much more others have when their growth counts, as a part of what is spare. */
enum { GROWN = 8 };
/* The region's growth after which glibc is asked. */
#define STEP ((size_t)32 << 20)
/* Nanoseconds a KiB: to give it back, and to fault it in again. That, and asking glibc, which looks
 * at every free block, shall be so small a part of the time. */
#define COST ((uint64_t)564)
enum { SHARE = 64, ASK_SHARE = 32 };
/* Nanoseconds for each free block: its header is in no cache. No clock tells what asking takes: on
 * a busy machine, or where somebody has glibc's locks, it waits. */
#define ASK_BLOCK ((uint64_t)500)
/* Asking stands in somebody's way: where there are so many free blocks that it can be noticed, it
 * is done once in minutes. */
enum { SLOW_ASK_SHARE = 1024 };
#define SLOW_ASK    ((uint64_t)10 * MILLISECOND)
#define MILLISECOND ((uint64_t)1000000)

static pthread_mutex_t HF_FORK_LOCK lock = PTHREAD_MUTEX_INITIALIZER;
/* Who else takes memory: as far as the region tells, and all that is resident. */
enum { REGION, RESIDENT, KINDS };
static struct {
    size_t given; /* of what is free */
    size_t spare; /* the least that was free beside it since `since` */
    uint64_t since;
    struct {
        size_t least, last; /* bytes, since `since` and at the last look */
    } others[KINDS];
    uint64_t next; /* no look before; atomic */
    uint64_t paid; /* by then the time has paid for what was given back */
} seen;
static size_t mark = STEP; /* atomic: the size of the region at which glibc is asked next */

/* glibc's answer; false before 2.35, and if another libc serves the process. Looked up each time:
 * it takes less than the answer, and no pointer to a function stays where it could be written. */
static bool ask(struct info *out)
{
    const struct link_map *map = hf_dynlink_find_fast((const void *)gnu_get_libc_version);
    struct hf_object libc;
    if (map == NULL || !hf_dynlink_open(map, &libc))
        return false;
    void *found = hf_object_address(&libc, "mallinfo2");
    if (found == NULL)
        return false;
    *out = ((struct info(*)(void))found)();
    return true;
}

static void begin(size_t spare, uint64_t now)
{
    seen.spare = spare;
    seen.since = now;
    for (int kind = 0; kind < KINDS; kind++)
        seen.others[kind].least = seen.others[kind].last;
}

/* Notes what is spare: what was so all the time, unless most of it was used or much more came. */
static void note(size_t spare, uint64_t now)
{
    if (spare < seen.spare / 2 || spare / 2 > seen.spare)
        begin(spare, now);
    else if (spare < seen.spare)
        seen.spare = spare;
}

/* How much more others have than they had when what is spare was first seen. */
static size_t growth(int kind, size_t others)
{
    const size_t least = seen.others[kind].least;
    seen.others[kind].last = others;
    if (others < least)
        seen.others[kind].least = others;
    return others > least ? others - least : 0;
}

static bool is_due(int kind, size_t others, uint64_t now)
{
    const size_t grown = growth(kind, others);
    if (seen.spare < LEAST || seen.spare < others / PART)
        return false;
    return (grown >= seen.spare / GROWN && now >= seen.paid) ||
           now - seen.since >= seen.spare / 1024 * COST * SHARE;
}

static void give_back(uint64_t now)
{
    struct info info;
    const uint64_t cost = seen.spare / 1024 * COST;
    (void)malloc_trim(0);
    if (ask(&info))
        seen.given = info.fordblks;
    seen.paid = now + cost * SHARE;
    begin(0, now);
}

/* before, others: bytes at the last look, and now. Of RESIDENT only what is there now is known,
 * with glibc's own. */
static void look(int kind, size_t before, size_t others)
{
    const int saved_errno = errno;
    const uint64_t now = hf_clock(CLOCK_MONOTONIC_COARSE);
    struct info info;
    if (now < __atomic_load_n(&seen.next, __ATOMIC_RELAXED) || pthread_mutex_trylock(&lock) != 0)
        return;
    uint64_t next = UINT64_MAX;
    if (ask(&info)) {
        if (info.fordblks < seen.given)
            seen.given = info.fordblks;
        if (kind == RESIDENT) {
            const size_t libcs = info.arena - seen.given;
            others -= others < libcs ? others : libcs;
            before = seen.others[kind].last != 0 ? seen.others[kind].last : others;
        }
        seen.others[kind].last = before;
        note(info.fordblks - seen.given, now);
        if (is_due(kind, others, now))
            give_back(now);
        const uint64_t took = (info.ordblks + info.smblks) * ASK_BLOCK;
        const uint64_t share = took < SLOW_ASK ? ASK_SHARE : SLOW_ASK_SHARE;
        next = now + share * (took + 4 * MILLISECOND); /* not at every step */
    }
    __atomic_store_n(&seen.next, next, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
    errno = saved_errno;
}

void hf_libc_spare_grown(void)
{
    const size_t size = hf_region_used();
    const size_t at = __atomic_load_n(&mark, __ATOMIC_RELAXED);
    if (HF_LIKELY(size < at && size + 2 * STEP >= at))
        return;
    __atomic_store_n(&mark, size + STEP, __ATOMIC_RELAXED);
    if (size >= at)
        look(REGION, at - STEP, size);
}

void hf_libc_spare_look(void)
{
    const size_t resident = hf_resident();
    if (resident != 0)
        look(RESIDENT, 0, resident);
}
