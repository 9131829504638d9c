/* The region's own mmap and munmap, alone, with private symbols: what it refuses, and that address
 * space which came back is handed out again. Each test runs in a child, because a process has one
 * region. */
#include "alloc/heap/internal.h"
#include "alloc/heap/region.h"
#include "death.h"
#include "suite.h"

#include <errno.h>
#include <homefree/homefree.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE     ((size_t)1 << HF_LG_PAGE)
#define MIB      ((size_t)1 << 20)
#define SIZE     ((PAGE == 4096 ? 64 : 128) * MIB)
#define PAGES    (SIZE / PAGE)
#define NEW      (MAP_PRIVATE | MAP_ANONYMOUS)
#define WRITABLE (PROT_READ | PROT_WRITE)

static char *base(void)
{
    return (char *)hf_region.base;
}

/* Whether the kernel lets a byte be read. */
static bool readable(const char *at)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    bool result = false;
    must(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL) {
        uintptr_t start, end;
        char permission;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %c", &start, &end, &permission) == 3 &&
            start <= (uintptr_t)at && (uintptr_t)at < end)
            result = permission == 'r';
    }
    fclose(maps);
    return result;
}

static void reserves(void *unused)
{
    (void)unused;
    must(!hf_owned(&unused));
    must(hf_region_reserve(SIZE) == 0);
    must(hf_region.size == HF_REGION_MIN && hf_region.limit == SIZE);
    must(hf_region.base % HF_PAGE_2M == 0);
    must(hf_owned(base()));
    must(!readable(base()));
    must(!readable(base() + SIZE - 1));
    must(hf_region_used() == 0);
}

static void reserved_pages_are_unreadable(void *unused)
{
    (void)unused;
    must(hf_region_reserve(SIZE) == 0);
    char *first = hf_region_map(NULL, PAGE, WRITABLE, NEW);
    must(first == base());
    char *none = hf_region_map(NULL, PAGE, PROT_NONE, NEW);
    must(none == base() + PAGE);
    must(readable(first) && !readable(none));
    char *next = hf_region_map(NULL, PAGE, WRITABLE, NEW);
    must(next == none + PAGE);
    next[0] = 1;
    must(hf_region_unmap(first, PAGE) == 0);
    must(hf_region_map(NULL, PAGE, PROT_NONE, NEW) == first && !readable(first));
}

static void reserves_a_large_one(void *unused)
{
    (void)unused;
    must(hf_region_reserve((size_t)16 << 30) == 0);
    must(hf_region.base % ((size_t)1 << 30) == 0);
}

static void reserves_whole_pages(void *unused)
{
    (void)unused;
    must(hf_region_reserve(SIZE + 12345) == 0);
    must(hf_region.limit >= HF_REGION_MIN && hf_region.limit <= SIZE + 12345);
    must(hf_region.limit % PAGE == 0);
    must(hf_region_map(NULL, hf_region.limit / HF_PAGE_2M * HF_PAGE_2M, WRITABLE, NEW) == base());
}

static size_t mapped_bytes(void)
{
    FILE *statm = fopen("/proc/self/statm", "re");
    size_t pages = 0;
    must(statm != NULL && fscanf(statm, "%zu", &pages) == 1);
    fclose(statm);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Others get the addresses near the libraries; the region takes its own when they are needed. */
static void grows_as_it_is_used(void *unused)
{
    const size_t before = mapped_bytes(), large = (size_t)times(3) << 30;
    struct hf_region_range range = {0, 0};
    (void)unused;
    must(hf_region_reserve((size_t)16 << 40) == 0);
    must(hf_region.limit == (size_t)16 << 40);
    must(mapped_bytes() - before < 20 * MIB);
    enum { TABLE_SHIFT = 10 };
    const uint8_t *table = hf_region_table(TABLE_SHIFT);
    ck_assert(hf_region_publish(&range));
    must(range.base == hf_region.base && range.size == hf_region.size);
    for (size_t i = 0; i < 40; i++) {
        char *other = mmap(NULL, MIB, WRITABLE, NEW, -1, 0);
        must(other != MAP_FAILED && !hf_owned(other));
        must((uintptr_t)other - hf_region.base > hf_region.limit);
        char *p = hf_region_map(NULL, MIB, WRITABLE, NEW);
        must(hf_owned(p) && hf_owned(p + MIB - 1));
    }
    must(mapped_bytes() - before < 140 * MIB);
    char *p = hf_region_map(NULL, large, WRITABLE, NEW);
    must(hf_owned(p) && hf_owned(p + large - 1));
    p[0] = p[large - 1] = 1;
    must(range.size == hf_region.size && range.size < large + 100 * MIB);
    /* A table has grown as well. */
    must(table != NULL && table[(size_t)(p - base() + large - 1) >> TABLE_SHIFT] == 0);
    must(table[hf_region.size >> TABLE_SHIFT] == 0);
}

static void is_full_where_others_are(void *unused)
{
    (void)unused;
    must(hf_region_reserve((size_t)16 << 40) == 0);
    char *other = base() + 64 * MIB;
    must(mmap(other, PAGE, WRITABLE, NEW | MAP_FIXED, -1, 0) == other);
    must(hf_region_map(NULL, 65 * MIB, WRITABLE, NEW) == MAP_FAILED && errno == ENOMEM);
    must(hf_region_map(NULL, 64 * MIB, WRITABLE, NEW) == base());
    must(!hf_owned(other) && hf_region.size == 64 * MIB);
    other[0] = 1;
}

/* A block of several mappings keeps its contents, and what is behind it stays as it is, however
 * much room there is. */
static void moves_pages(void *unused)
{
    const size_t size = 21 * MIB + PAGE, rooms[] = {size, size + PAGE, 25 * MIB};
    (void)unused;
    must(hf_region_reserve(SIZE) == 0);
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
        const size_t all = size + rooms[i] + PAGE;
        char *from = hf_region_map(NULL, all, WRITABLE, NEW);
        must(from != MAP_FAILED);
        char *to = from + size;
        for (size_t at = 0; at < size; at += PAGE)
            *(size_t *)(from + at) = at;
        memset(to, 1, rooms[i] + PAGE);
        must(madvise(from + 5 * MIB, MIB, MADV_DONTFORK) == 0);
        must(hf_region_move(to, rooms[i], from, size));
        for (size_t at = 0; at < size; at += PAGE)
            must(*(size_t *)(to + at) == at);
        memset(from, 1, size);
        memset(to, 1, rooms[i]);
        must(to[rooms[i]] == 1 && to[rooms[i] + PAGE - 1] == 1);
        must(hf_region_unmap(from, all) == 0);
    }
    must(hf_region_moves(4 * MIB) && !hf_region_moves(MIB));
}

static void refuses(void *unused)
{
    (void)unused;
    must(hf_region_reserve(SIZE) == 0);
    char *p = hf_region_map(NULL, MIB, WRITABLE, NEW);
    must(p != MAP_FAILED && hf_owned(p));
    p[0] = 1;

    char *const hints[] = {p + MIB, base() + SIZE / 2, (char *)&unused, base() + SIZE};
    for (size_t i = 0; i < 4; i++) {
        errno = 0;
        must(hf_region_map(hints[i], MIB, WRITABLE, NEW) == MAP_FAILED && errno == ENOMEM);
    }
    /* Fixed mappings that are refused: outside the region, across its beginning, across its end,
     * and wrapping around. */
    char *const fixed[] = {base() + SIZE, base() - MIB, base() - PAGE, base() + SIZE - PAGE, NULL};
    for (size_t i = 0; i < 5; i++) {
        errno = 0;
        must(hf_region_map(fixed[i], MIB, WRITABLE, NEW | MAP_FIXED) == MAP_FAILED);
        must(errno == EINVAL);
        errno = 0;
        must(hf_region_unmap(fixed[i], MIB) == -1 && errno == EINVAL);
    }
    errno = 0;
    must(hf_region_map(p, SIZE_MAX - PAGE + 1, WRITABLE, NEW | MAP_FIXED) == MAP_FAILED);
    must(errno == EINVAL);
    must(hf_region_used() == MIB);
    must(p[0] == 1);
}

static void fixed_changes_pages(void *unused)
{
    (void)unused;
    must(hf_region_reserve(SIZE) == 0);
    char *p = hf_region_map(NULL, 4 * PAGE, WRITABLE, NEW);
    must(p != MAP_FAILED);
    memset(p, 1, 4 * PAGE);
    must(hf_region_map(p + PAGE, PAGE, PROT_NONE, NEW | MAP_FIXED) == p + PAGE);
    must(!readable(p + PAGE));
    must(p[0] == 1 && p[2 * PAGE] == 1);
    must(hf_region_map(p + PAGE, PAGE, WRITABLE, NEW | MAP_FIXED) == p + PAGE);
    must(p[PAGE] == 0 && p[2 * PAGE - 1] == 0);
    must(p[0] == 1 && p[2 * PAGE] == 1);
    must(hf_region_used() == 4 * PAGE);
}

static void large_mappings_are_aligned(void *unused)
{
    (void)unused;
    must(hf_region_reserve(SIZE) == 0);
    for (size_t i = 0; i < 4; i++) {
        must(hf_region_map(NULL, PAGE, WRITABLE, NEW) != MAP_FAILED);
        char *p = hf_region_map(NULL, 2 * MIB, WRITABLE, NEW);
        must(p != MAP_FAILED && (uintptr_t)p % HF_PAGE_2M == 0);
    }
    must(hf_region_used() == 4 * (PAGE + 2 * MIB));
}

static void or_not_if_it_fits_nowhere_else(void *unused)
{
    (void)unused;
    must(hf_region_reserve(SIZE) == 0);
    char *all = hf_region_map(NULL, SIZE, WRITABLE, NEW);
    must(all == base() && hf_region_unmap(all + MIB, 2 * MIB + PAGE) == 0);
    must(hf_region_map(NULL, 2 * MIB, WRITABLE, NEW) == all + MIB);
}

static void full_and_not_full_again(void *unused)
{
    (void)unused;
    must(hf_region_reserve(SIZE) == 0);
    char *blocks[SIZE / (4 * MIB)];
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < SIZE / (4 * MIB); i++) {
            blocks[i] = hf_region_map(NULL, 4 * MIB, WRITABLE, NEW);
            must(blocks[i] != MAP_FAILED);
            must(blocks[i][0] == 0);
            blocks[i][0] = 1;
        }
        must(hf_region_used() == SIZE);
        errno = 0;
        must(hf_region_map(NULL, PAGE, WRITABLE, NEW) == MAP_FAILED && errno == ENOMEM);
        must(hf_region_unmap(blocks[3], 4 * MIB) == 0);
        must(!readable(blocks[3]));
        errno = 0;
        must(hf_region_map(NULL, 4 * MIB + PAGE, WRITABLE, NEW) == MAP_FAILED && errno == ENOMEM);
        must(hf_region_map(NULL, 4 * MIB, WRITABLE, NEW) == blocks[3]);
        for (size_t i = 0; i < SIZE / (4 * MIB); i++)
            must(hf_region_unmap(blocks[i], 4 * MIB) == 0);
        must(hf_region_used() == 0);
    }
    must(hf_region_map(NULL, SIZE, WRITABLE, NEW) == base());
}

/* Makes many holes; none may be lost or handed out twice. */
static void many_holes(void *unused)
{
    (void)unused;
    static unsigned char taken[PAGES];
    must(hf_region_reserve(SIZE) == 0);
    for (size_t i = 0; i < 2000; i++)
        must(hf_region_map(NULL, PAGE, WRITABLE, NEW) == base() + i * PAGE);
    for (size_t i = 0; i < 2000; i += 2)
        must(hf_region_unmap(base() + i * PAGE, PAGE) == 0);
    for (size_t i = 1; i < 2000; i += 2)
        taken[i] = 1;
    for (;;) {
        char *p = hf_region_map(NULL, PAGE, WRITABLE, NEW);
        if (p == MAP_FAILED)
            break;
        size_t page = (size_t)(p - base()) / PAGE;
        must(page < PAGES && !taken[page]);
        must(p[0] == 0);
        p[0] = taken[page] = 1;
    }
    for (size_t i = 0; i < PAGES; i++)
        must(taken[i] && hf_region_unmap(base() + i * PAGE, PAGE) == 0);
    must(hf_region_used() == 0);
    must(hf_region_map(NULL, SIZE, WRITABLE, NEW) == base());
}

/* ---- against a model ---- */

/* The model of the region: a byte for each page, and the live pieces. A mapping may fail only if it
 * fits nowhere. */
#define PIECES_MAX 1000

static struct {
    unsigned char taken[PAGES];
    struct {
        size_t page, count;
    } pieces[PIECES_MAX];
    size_t pieces_count, taken_count;
} model;

/* At a multiple of `step` pages. */
static bool model_fits(size_t count, size_t step)
{
    for (size_t start = 0; start + count <= PAGES;) {
        const unsigned char *taken = memchr(model.taken + start, 1, count);
        if (taken == NULL)
            return true;
        size_t after = (size_t)(taken - model.taken) + 1;
        start = (after + step - 1) / step * step;
    }
    return false;
}

static void model_set(size_t page, size_t count, unsigned char value)
{
    memset(model.taken + page, value, count);
    model.taken_count += value ? count : 0;
    model.taken_count -= value ? 0 : count;
}

static void add_piece(size_t page, size_t count)
{
    if (count == 0)
        return;
    must(model.pieces_count < PIECES_MAX);
    model.pieces[model.pieces_count].page = page;
    model.pieces[model.pieces_count++].count = count;
}

static void step_map(size_t count)
{
    bool fits = model_fits(count, 1);
    bool aligned = count * PAGE >= HF_PAGE_2M && model_fits(count, HF_PAGE_2M / PAGE);
    char *p = hf_region_map(NULL, count * PAGE, WRITABLE, NEW);
    if (p == MAP_FAILED) {
        must(errno == ENOMEM);
        must(!fits);
        return;
    }
    must(fits);
    size_t page = (size_t)(p - base()) / PAGE;
    must(p >= base() && page + count <= PAGES);
    must((size_t)(p - base()) % PAGE == 0);
    must(!aligned || (uintptr_t)p % HF_PAGE_2M == 0);
    must(memchr(model.taken + page, 1, count) == NULL);
    for (size_t i = 0; i < count; i += count / 8 + 1) {
        must(p[i * PAGE] == 0);
        p[i * PAGE] = 1;
    }
    must(p[count * PAGE - 1] == 0);
    p[count * PAGE - 1] = 1;
    model_set(page, count, 1);
    add_piece(page, count);
}

/* Unmaps a part of a piece, as jemalloc does when it trims head and tail. */
static void step_unmap(size_t which, size_t from, size_t count)
{
    size_t page = model.pieces[which].page, total = model.pieces[which].count;
    must(hf_region_unmap(base() + (page + from) * PAGE, count * PAGE) == 0);
    model_set(page + from, count, 0);
    model.pieces[which] = model.pieces[--model.pieces_count];
    add_piece(page, from);
    add_piece(page + from + count, total - from - count);
}

static void random_steps(void *context)
{
    unsigned seed = *(unsigned *)context;
    must(hf_region_reserve(SIZE) == 0);
    for (int i = 0; i < 2000; i++) {
        if (model.pieces_count < PIECES_MAX - 2 && rand_r(&seed) % 2 == 0) {
            size_t most = rand_r(&seed) % 8 == 0 ? 2000 : 64;
            step_map(1 + (size_t)rand_r(&seed) % most);
        } else if (model.pieces_count > 0) {
            size_t which = (size_t)rand_r(&seed) % model.pieces_count;
            size_t total = model.pieces[which].count;
            size_t from = rand_r(&seed) % 3 == 0 ? (size_t)rand_r(&seed) % total : 0;
            size_t count = total - from;
            if (rand_r(&seed) % 3 == 0 && model.pieces_count < PIECES_MAX - 1)
                count = 1 + (size_t)rand_r(&seed) % count;
            step_unmap(which, from, count);
        }
        must(hf_region_used() == model.taken_count * PAGE);
    }
    while (model.pieces_count > 0)
        step_unmap(model.pieces_count - 1, 0, model.pieces[model.pieces_count - 1].count);
    /* Everything has merged into one hole again. */
    must(hf_region_used() == 0);
    must(hf_region_map(NULL, SIZE, WRITABLE, NEW) == base());
}

/* What region.c calls of corruption.c. */
void hf_heap_fatal_memory(void)
{
    must(!"out of memory");
    abort();
}

static void run(void (*body)(void *), void *context)
{
    assert_succeeds(outcome_of_call(body, context));
}

static void three_tables_grow_along(void *unused)
{
    static const unsigned shifts[] = {10, 15, 18};
    uint8_t *tables[3];
    (void)unused;
    must(hf_region_reserve((size_t)1 << 30) == 0);
    for (size_t i = 0; i < 3; i++) {
        tables[i] = hf_region_table(shifts[i]);
        must(tables[i] != NULL && tables[i][hf_region.size >> shifts[i]] == 0);
        memset(tables[i], (int)i + 1, (hf_region.size >> shifts[i]) + 1);
    }
    const size_t before = hf_region.size;
    must(hf_region_map(NULL, 8 * before, WRITABLE, NEW) != MAP_FAILED && hf_region.size > before);
    for (size_t i = 0; i < 3; i++) {
        must(hf_region_table(shifts[i]) == tables[i]);
        must(tables[i][0] == i + 1 && tables[i][before >> shifts[i]] == i + 1);
        must(tables[i][hf_region.size >> shifts[i]] == 0);
    }
}

START_TEST(reserving)
{
    run(three_tables_grow_along, NULL);
    run(reserves, NULL);
    run(reserves_a_large_one, NULL);
    run(reserves_whole_pages, NULL);
    run(reserved_pages_are_unreadable, NULL);
    run(grows_as_it_is_used, NULL);
    run(is_full_where_others_are, NULL);
}
END_TEST

START_TEST(refusing)
{
    run(refuses, NULL);
}
END_TEST

START_TEST(mapping)
{
    run(fixed_changes_pages, NULL);
    run(large_mappings_are_aligned, NULL);
    run(or_not_if_it_fits_nowhere_else, NULL);
    run(full_and_not_full_again, NULL);
    run(many_holes, NULL);
    run(moves_pages, NULL);
}
END_TEST

START_TEST(random_steps_agree_with_a_model)
{
    unsigned seeds[] = {1, 2, 3, (unsigned)time(NULL)};
    const char *fixed = getenv("SEED");
    if (fixed != NULL)
        seeds[3] = (unsigned)strtoul(fixed, NULL, 10);
    printf("SEED=%u\n", seeds[3]);
    fflush(stdout);
    for (size_t i = 0; i < 4; i++)
        run(random_steps, &seeds[i]);
}
END_TEST

int main(void)
{
    return RUN_SUITE(reserving, refusing, mapping, random_steps_agree_with_a_model);
}
