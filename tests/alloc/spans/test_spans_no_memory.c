/*
 * The core of alloc/spans while the system has no memory: each single call that maps some fails
 * once, and each and all that follow. A block is then refused or whole; nothing is lost, and
 * everything works again as soon as there is memory.
 */
#include "core.h"

#include "alloc/spans/supply.h"
#include "death.h"
#include "suite.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* mmap(2) and mprotect(2) as the linker's option --wrap has them. */
void *real_mmap(void *address, size_t size, int protection, int flags, int file,
                off_t offset) __asm__("__real_mmap");
void *our_mmap(void *address, size_t size, int protection, int flags, int file,
               off_t offset) __asm__("__wrap_mmap");
int real_mprotect(void *address, size_t size, int protection) __asm__("__real_mprotect");
int our_mprotect(void *address, size_t size, int protection) __asm__("__wrap_mprotect");

enum { NEVER = 1 << 30 };
static int calls, fails_from = NEVER, fails_until = NEVER;

static bool fails(void)
{
    const int call = __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
    if (call < fails_from || call >= fails_until)
        return false;
    errno = ENOMEM;
    return true;
}

void *our_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset)
{
    return fails() ? MAP_FAILED : real_mmap(address, size, protection, flags, file, offset);
}

int our_mprotect(void *address, size_t size, int protection)
{
    return fails() ? -1 : real_mprotect(address, size, protection);
}

/* ---- what threads do meanwhile ---- */

enum { ROUNDS = 3, BLOCKS = 600, LEFT = 64 };
struct block {
    unsigned char *at;
    size_t size;
};
static struct block left[LEFT]; /* by threads that end, for others to free */
static unsigned refused;

static size_t size_of(unsigned i)
{
    return i % 50 == 0 ? 0 : i % 7 == 0 ? 1 + i * 53 % HF_LARGEST : 1 + i * 37 % 2000;
}

static void fill(struct block *block, unsigned i)
{
    block->size = size_of(i);
    block->at = core_take(block->size);
    refused += block->at == NULL;
    if (block->at != NULL)
        memset(block->at, (int)(block->size % 251), block->size);
}

static void give(struct block *block)
{
    if (block->at == NULL)
        return;
    for (size_t i = 0; i < block->size; i++)
        must(block->at[i] == block->size % 251);
    must(core_give(block->at) == -1);
    block->at = NULL;
}

static void *live(void *unused)
{
    static __thread struct block blocks[BLOCKS];
    (void)unused;
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < BLOCKS; i++)
            fill(&blocks[i], i + round);
        for (unsigned i = 0; i < LEFT; i++) {
            const struct block mine = blocks[(size_t)i * 3];
            blocks[(size_t)i * 3] = left[i];
            left[i] = mine;
        }
        for (unsigned i = round % 2; i < BLOCKS; i += 2)
            give(&blocks[i]);
        for (unsigned i = 0; i < BLOCKS; i++)
            give(&blocks[i]);
    }
    return NULL;
}

/* One thread after another, so that calls come in the same order each time. */
static void live_thrice(void)
{
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        must(pthread_create(&thread, NULL, live, NULL) == 0);
        must(pthread_join(thread, NULL) == 0);
    }
}

struct failure {
    int from, until;
    int *all; /* in memory that parent and child share: how many calls there were */
};

static void live_without_memory(void *context)
{
    const struct failure *failure = context;
    core_start((size_t)256 << 20);
    calls = 0;
    fails_from = failure->from;
    fails_until = failure->until;
    live_thrice();
    *failure->all = calls;
    must(refused != 0 || failure->from != 0 || failure->until != NEVER);
    fails_from = NEVER;
    refused = 0;
    live_thrice();
    must(refused == 0);
    for (unsigned i = 0; i < LEFT; i++)
        give(&left[i]);
    must(hf_spans_count().blocks == 0);
}

static void fail_each_call(bool all_that_follow)
{
    int *all =
        real_mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct failure failure = {NEVER, NEVER, all};
    assert_succeeds(outcome_of_call(live_without_memory, &failure));
    const int calls_in_all = *all;
    ck_assert_int_gt(calls_in_all, 10);
    for (failure.from = 0; failure.from < calls_in_all; failure.from++) {
        failure.until = all_that_follow ? NEVER : failure.from + 1;
        assert_succeeds(outcome_of_call(live_without_memory, &failure));
    }
}

START_TEST(each_call_fails_once)
{
    fail_each_call(false);
}
END_TEST

START_TEST(each_call_and_all_that_follow_fail)
{
    fail_each_call(true);
}
END_TEST

int main(void)
{
    return RUN_SUITE(each_call_fails_once, each_call_and_all_that_follow_fail);
}
