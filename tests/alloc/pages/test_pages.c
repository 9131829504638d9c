/* The seam to jemalloc's pages, alone, on a region of its own: what it gives, takes back, resizes,
 * clears and purges; a full region; threads; a forked child; and that it brings no thread-local
 * storage. Each test runs in a child, because a process has one region. */
#include "alloc/pages/pages.h"

#include "alloc/base/options.h"
#include "alloc/heap/internal.h"
#include "alloc/heap/region.h"
#include "death.h"
#include "suite.h"

#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB  ((size_t)1 << 10)
#define MIB  ((size_t)1 << 20)
#define PAGE ((size_t)1 << HF_LG_PAGE)

struct hf_options hf_options;

/* What region.c calls of corruption.c. */
void hf_heap_fatal_memory(void)
{
    must(!"out of memory");
    abort();
}

static void start_alone(size_t region, uint64_t decay)
{
    hf_options.dirty_decay_ms = decay;
    must(hf_region_reserve(region) == 0);
    must(hf_pages_start());
}

/* With jemalloc: the first pages are used up. */
static void start(size_t region, uint64_t decay)
{
    start_alone(region, decay);
    while (hf_pages_stats().books == 0)
        hf_pages_give(hf_pages_take(64 * KIB, PAGE, false), 64 * KIB);
}

static bool is_zero(const char *at, size_t size)
{
    return at[0] == 0 && memcmp(at, at + 1, size - 1) == 0;
}

static size_t resident(char *at, size_t size)
{
    unsigned char present[4096];
    size_t bytes = 0;
    must(size / (size_t)getpagesize() <= sizeof present);
    must(mincore(at, size, present) == 0);
    for (size_t i = 0; i < size / (size_t)getpagesize(); i++)
        bytes += (present[i] & 1) * (size_t)getpagesize();
    return bytes;
}

static void end_window(void)
{
    uint64_t late;
    while (!hf_pages_due(&late))
        ;
}

/* ---- one thread ---- */

static void takes_and_gives(void *unused)
{
    (void)unused;
    start(256 * MIB, 10000);
    for (size_t size = 32 * KIB; size < 8 * MIB; size += size / 7 & -16) {
        const size_t usable = hf_pages_size(size);
        must(usable >= size && usable % PAGE == 0 && hf_pages_size(usable) == usable);
        must(usable - size < usable / 5 + PAGE);
        for (size_t alignment = PAGE; alignment <= 4 * MIB; alignment *= 4) {
            char *at = hf_pages_take(size, alignment, false);
            must(at != NULL && (uintptr_t)at % alignment == 0);
            must(hf_owned(at) && hf_owned(at + usable - 1));
            must(hf_pages_stats().taken == usable);
            memset(at, 1, usable);
            hf_pages_give(at, usable);
            must(hf_pages_stats().taken == 0);
        }
    }
    must(hf_pages_size(SIZE_MAX) == 0);
    must(hf_pages_take(SIZE_MAX / 2, PAGE, false) == NULL);
}

static void clears(void *unused)
{
    (void)unused;
    start(256 * MIB, 10000);
    for (size_t size = 32 * KIB; size <= 8 * MIB; size *= 2)
        for (int round = 0; round < 3; round++) {
            char *at = hf_pages_take(size, PAGE, true);
            must(at != NULL && is_zero(at, size));
            memset(at, 0xff, size);
            hf_pages_give(at, size);
        }
}

static void resizes(void *unused)
{
    (void)unused;
    start(256 * MIB, 10000);
    char *at = hf_pages_take(8 * MIB, PAGE, false);
    memset(at, 1, 8 * MIB);
    must(hf_pages_resize(at, 8 * MIB, 2 * MIB));
    must(hf_pages_stats().taken == 2 * MIB);
    must(hf_pages_stats().unused >= 6 * MIB && hf_pages_stats().unused < 7 * MIB);
    char *other = hf_pages_take(MIB, PAGE, false);
    must(other != at + 2 * MIB || !hf_pages_resize(at, 2 * MIB, 4 * MIB));
    must(hf_pages_stats().taken == 3 * MIB);
    hf_pages_give(other, MIB);
    must(hf_pages_resize(at, 2 * MIB, 4 * MIB));
    must(at[2 * MIB - 1] == 1);
    hf_pages_give(at, 4 * MIB);
    must(hf_pages_stats().taken == 0);
}

/* ---- the first pages ---- */

static void first_pages(void *unused)
{
    (void)unused;
    start_alone(256 * MIB, 10000);
    char *at = hf_pages_take(MIB, PAGE, true), *other = hf_pages_take(512 * KIB, 256 * KIB, true);
    must(at != NULL && other >= at + MIB && (uintptr_t)other % (256 * KIB) == 0);
    must(is_zero(at, MIB) && is_zero(other, 512 * KIB));
    memset(at, 1, MIB);
    must(!hf_pages_resize(at, MIB, 2 * MIB));
    must(hf_pages_resize(at, MIB, 512 * KIB));
    must(hf_pages_stats().taken == MIB && hf_pages_stats().unused == 0);
    must(resident(at, MIB) == 512 * KIB && at[512 * KIB - 1] == 1);
    hf_pages_give(at, 512 * KIB);
    must(resident(at, MIB) == 0);
    hf_pages_purge();
    must(hf_pages_stats().books == 0); /* jemalloc has not started */
    must(hf_pages_take(MIB, PAGE, false) != NULL);
    must(hf_pages_stats().books != 0);
    hf_pages_give(other, 512 * KIB);
    must(hf_pages_stats().taken == MIB);
    must(hf_pages_take(SIZE_MAX / 2, PAGE, false) == NULL);
}

/* ---- purging ---- */

static void purges(void *unused)
{
    (void)unused;
    start(256 * MIB, 10000);
    const size_t before = hf_region_used();
    char *at = hf_pages_take(16 * MIB, PAGE, false);
    memset(at, 1, 16 * MIB);
    hf_pages_give(at, 16 * MIB);
    must(resident(at, 16 * MIB) == 16 * MIB && hf_pages_stats().unused >= 16 * MIB);
    hf_pages_purge();
    must(resident(at, 16 * MIB) == 0 && hf_pages_stats().unused < MIB);
    must(hf_region_used() <= before + 4 * MIB); /* the books may have grown */
}

/* A busy machine may let more than a window pass between any two steps. */
static void settles(void *unused)
{
    (void)unused;
    char *at;
    int tries = 0;
    start(256 * MIB, 10000);
    do {
        must(tries++ < 20);
        at = hf_pages_take(16 * MIB, PAGE, false);
        memset(at, 1, 16 * MIB);
        hf_pages_give(at, 16 * MIB);
        end_window();
        must(hf_pages_take(16 * MIB, PAGE, false) == at);
        hf_pages_give(at, 16 * MIB);
        end_window();
        hf_pages_settle(); /* as much was taken meanwhile */
    } while (resident(at, 16 * MIB) != 16 * MIB);
    end_window();
    hf_pages_settle();
    must(resident(at, 16 * MIB) == 0);
}

static void returns_at_once(void *unused)
{
    (void)unused;
    start(256 * MIB, 0);
    char *at = hf_pages_take(16 * MIB, PAGE, false);
    memset(at, 1, 16 * MIB);
    hf_pages_give(at, 16 * MIB);
    must(resident(at, 16 * MIB) == 0);
}

/* ---- a full region ---- */

static void full(void *unused)
{
    (void)unused;
    static char *all[4096];
    start(64 * MIB, 10000);
    size_t count = 0;
    while ((all[count] = hf_pages_take(64 * KIB, PAGE, false)) != NULL)
        all[count++][0] = 1;
    must(count > 800);
    must(hf_pages_take(MIB, PAGE, false) == NULL);
    for (size_t i = 0; i < count; i += 2)
        hf_pages_give(all[i], 64 * KIB);
    must(hf_pages_take(MIB, PAGE, false) == NULL);
    for (size_t i = 1; i < count; i += 2)
        hf_pages_give(all[i], 64 * KIB);
    hf_pages_purge();
    char *at = hf_pages_take(48 * MIB, PAGE, true);
    must(at != NULL && is_zero(at, 48 * MIB));
    must(hf_region_map_aligned(32 * MIB, 1, PROT_NONE) == MAP_FAILED);
    hf_pages_give(at, 48 * MIB);
    hf_pages_purge();
    must(hf_region_map_aligned(32 * MIB, 1, PROT_NONE) != MAP_FAILED);
}

static size_t mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    size_t lines = 0;
    must(maps != NULL);
    for (int c; (c = getc(maps)) != EOF;)
        lines += c == '\n';
    fclose(maps);
    return lines;
}

static void few_mappings(void *unused)
{
    (void)unused;
    static char *all[8192];
    start((size_t)2 << 30, 10000);
    const size_t before = mappings();
    for (size_t i = 0; i < 8192; i++)
        must((all[i] = hf_pages_take(128 * KIB, PAGE, false)) != NULL);
    for (size_t i = 0; i < 8192; i += 2)
        hf_pages_give(all[i], 128 * KIB);
    hf_pages_purge();
    must(mappings() < before + 64);
}

/* ---- threads ---- */

static size_t below(uint64_t *state, size_t limit)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (size_t)(*state >> 33) % limit;
}

static void *churn(void *seed)
{
    uint64_t state = *(const uint64_t *)seed;
    char *blocks[16] = {NULL};
    size_t sizes[16];
    for (int i = 0, rounds = times(3000); i < rounds; i++) {
        const size_t k = below(&state, 16);
        if (blocks[k] != NULL) {
            must(blocks[k][0] == (char)k && blocks[k][sizes[k] - 1] == (char)k);
            hf_pages_give(blocks[k], sizes[k]);
        }
        sizes[k] = hf_pages_size(32 * KIB + below(&state, MIB));
        const bool zeroed = below(&state, 2) != 0;
        blocks[k] = hf_pages_take(sizes[k], PAGE, zeroed);
        must(blocks[k] != NULL);
        must(!zeroed || (blocks[k][0] == 0 && blocks[k][sizes[k] - 1] == 0));
        blocks[k][0] = blocks[k][sizes[k] - 1] = (char)k;
        uint64_t late;
        if (hf_pages_due(&late))
            hf_pages_settle();
    }
    for (size_t k = 0; k < 16; k++)
        if (blocks[k] != NULL)
            hf_pages_give(blocks[k], sizes[k]);
    return NULL;
}

static void threads(void *unused)
{
    (void)unused;
    pthread_t all[8];
    uint64_t seeds[8];
    start((size_t)1 << 30, 10000);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 8; i++) {
            seeds[i] = i + 1;
            must(pthread_create(&all[i], NULL, churn, &seeds[i]) == 0);
        }
        for (size_t i = 0; i < 8; i++)
            must(pthread_join(all[i], NULL) == 0);
        must(hf_pages_stats().taken == 0);
    }
    hf_pages_purge();
    must(hf_pages_stats().unused < MIB);
}

static void *nothing(void *unused)
{
    hf_pages_give(hf_pages_take(64 * KIB, PAGE, false), 64 * KIB);
    return unused;
}

/* A thread leaves nothing behind, and takes nothing with it. */
static void threads_cost_nothing(void *unused)
{
    (void)unused;
    pthread_t thread;
    start(256 * MIB, 10000);
    nothing(NULL);
    const uint64_t books = hf_pages_stats().books;
    const size_t used = hf_region_used();
    for (int i = 0; i < 500; i++) {
        must(pthread_create(&thread, NULL, nothing, NULL) == 0);
        must(pthread_join(thread, NULL) == 0);
    }
    must(hf_pages_stats().books == books && hf_region_used() == used);
}

static void forks(void *unused)
{
    (void)unused;
    int status;
    start(256 * MIB, 10000);
    char *at = hf_pages_take(MIB, PAGE, false);
    const pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        hf_pages_give(at, MIB);
        hf_pages_purge();
        must((at = hf_pages_take(2 * MIB, PAGE, true)) != NULL && is_zero(at, 2 * MIB));
        _exit(0);
    }
    must(waitpid(child, &status, 0) == child && status == 0);
    hf_pages_give(at, MIB);
}

/* ---- thread-local storage ---- */

static int look(struct dl_phdr_info *object, size_t size, void *bytes)
{
    (void)size;
    for (size_t i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_TLS)
            *(size_t *)bytes = object->dlpi_phdr[i].p_memsz;
    return 1; /* the program comes first */
}

static void has_no_tls(void *unused)
{
    (void)unused;
    size_t bytes = 0;
    (void)dl_iterate_phdr(look, &bytes);
#ifdef SYSTEM_JEMALLOC
    must(bytes > sizeof(void *)); /* as distributions build it: 2.6 KiB */
#else
    must(bytes <= sizeof(void *));
#endif
}

CALL_TEST(few_pages_need_no_jemalloc, first_pages, NULL)
CALL_TEST(it_takes_and_gives, takes_and_gives, NULL)
CALL_TEST(it_clears_what_was_used, clears, NULL)
CALL_TEST(it_resizes_in_place, resizes, NULL)
CALL_TEST(a_purge_returns_memory_and_addresses, purges, NULL)
CALL_TEST(what_a_window_did_not_take_goes_back, settles, NULL)
CALL_TEST(no_decay_returns_at_once, returns_at_once, NULL)
CALL_TEST(a_full_region_is_not_full_after_a_purge, full, NULL)
CALL_TEST(holes_are_not_mappings, few_mappings, NULL)
CALL_TEST(threads_churn, threads, NULL)
CALL_TEST(threads_leave_nothing, threads_cost_nothing, NULL)
CALL_TEST(a_forked_child_goes_on, forks, NULL)
CALL_TEST(there_is_no_thread_local_storage, has_no_tls, NULL)

int main(void)
{
    return RUN_SUITE(few_pages_need_no_jemalloc, it_takes_and_gives, it_clears_what_was_used,
                     it_resizes_in_place, a_purge_returns_memory_and_addresses,
                     what_a_window_did_not_take_goes_back, no_decay_returns_at_once,
                     a_full_region_is_not_full_after_a_purge, holes_are_not_mappings, threads_churn,
                     threads_leave_nothing, a_forked_child_goes_on,
                     there_is_no_thread_local_storage);
}
