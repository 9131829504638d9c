/* Under RLIMIT_AS the region takes the address space that it needs, up to the limit; if not even
 * the smallest region fits, it says so. Under RLIMIT_DATA freed pieces are given back before it
 * fails, and failing is cheap. */
#include "alloc/heap/internal.h"
#include "alloc/heap/region.h"
#include "death.h"
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <homefree/homefree.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static void limit_to(size_t size)
{
    const struct rlimit limit = {size, size};
    must(setrlimit(RLIMIT_AS, &limit) == 0);
}

static void takes_what_there_is(void *context)
{
    size_t limit = *(size_t *)context, got = 0;
    limit_to(limit);
    must(hf_region_reserve((size_t)16 << 40) == 0);
    must(hf_region.size <= 16 * MIB);
    /* Others can map most of it, too. */
    void *other = mmap(NULL, limit / 2, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(other != MAP_FAILED && munmap(other, limit / 2) == 0);
    while (hf_region_map(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS) !=
           MAP_FAILED)
        got += MIB;
    must(got <= limit && got > limit - limit / 256 - 24 * MIB);
    must(hf_region_unmap((void *)hf_region.base, MIB) == 0);
    must(hf_region_map(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS) ==
         (void *)hf_region.base);
}

static void leaves_a_small_wish_alone(void *unused)
{
    (void)unused;
    limit_to(512 * MIB);
    must(hf_region_reserve(32 * MIB) == 0);
    must(hf_region.limit == 32 * MIB);
}

static void fails_when_there_is_no_capacity(void *unused)
{
    (void)unused;
    limit_to(12 * MIB);
    must(hf_region_reserve((size_t)16 << 40) == -ENOMEM);
    must(hf_region.size == 0);
    must(!hf_owned(&unused));
}

/* The limit falls below what is mapped; pages can still be given back and mapped again. */
static void gives_back_under_a_lowered_limit(void *unused)
{
    (void)unused;
    must(hf_region_reserve(64 * MIB) == 0);
    char *p = hf_region_map(NULL, 32 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
    must(p != MAP_FAILED);
    p[0] = p[32 * MIB - 1] = 1;
    limit_to(MIB);
    must(mmap(NULL, MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
    must(hf_region_unmap(p, 32 * MIB) == 0);
    must(hf_region_map(NULL, 32 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS) == p);
    must(p[0] == 0 && p[32 * MIB - 1] == 0);
}

/* Stands in front of libc's. */
static unsigned long mmap_calls;
void *mmap(void *at, size_t size, int protection, int flags, int file, off_t offset)
{
    mmap_calls++;
    return (void *)syscall(SYS_mmap, at, size, protection, flags, file, offset);
}

/* What counts towards RLIMIT_DATA, in bytes. */
static size_t data_size(void)
{
    char text[4096] = "";
    const int file = open("/proc/self/status", O_RDONLY);
    must(read(file, text, sizeof text - 1) > 0);
    must(close(file) == 0);
    return strtoul(strstr(text, "VmData:") + strlen("VmData:"), NULL, 10) << 10;
}

static void fails_cheaply(void *unused)
{
    enum { PIECES = 400, TRIES = 1000 };
    const size_t piece = 64 << 10;
    static void *pieces[PIECES];
    (void)unused;
    must(hf_region_reserve(512 * MIB) == 0);
    for (size_t i = 0; i < PIECES; i++) {
        pieces[i] = hf_region_map_aligned(piece, 1, PROT_READ | PROT_WRITE);
        must(pieces[i] != MAP_FAILED);
    }
    for (size_t i = 0; i < PIECES; i += 2)
        must(hf_region_unmap(pieces[i], piece) == 0);
    const struct rlimit limit = {data_size() + MIB, RLIM_INFINITY};
    must(setrlimit(RLIMIT_DATA, &limit) == 0);
    must(hf_region_map_aligned(PIECES / 4 * piece, 1, PROT_READ | PROT_WRITE) != MAP_FAILED);
    mmap_calls = 0;
    for (size_t i = 0; i < TRIES; i++)
        must(hf_region_map_aligned(64 * MIB, 1, PROT_READ | PROT_WRITE) == MAP_FAILED);
    must(mmap_calls <= (unsigned long)TRIES * 2);
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

START_TEST(all)
{
    size_t limits[] = {128 * MIB, 512 * MIB, 3000 * MIB, 20000 * MIB};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        run(takes_what_there_is, &limits[i]);
}
END_TEST

START_TEST(small)
{
    run(leaves_a_small_wish_alone, NULL);
}
END_TEST

START_TEST(none)
{
    run(fails_when_there_is_no_capacity, NULL);
}
END_TEST

START_TEST(lowered)
{
    run(gives_back_under_a_lowered_limit, NULL);
}
END_TEST

START_TEST(data)
{
    run(fails_cheaply, NULL);
}
END_TEST

int main(void)
{
    return RUN_SUITE(all, small, none, lowered, data);
}
