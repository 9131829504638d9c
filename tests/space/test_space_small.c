/*
 * Small blocks of spaces, which mostly come from a thread's cache and go back to it without a lock:
 * none is handed out twice, whoever freed it and whatever its memory was before, and what is no
 * block is found.
 */
#include "api.h"
#include "control.h"
#include "suite.h"

#include <homefree/homefree.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

enum { MOST = 300, PHASES = 30, STEPS = 300, SEEDS = 3, DEVICES = 2 };

static const size_t sizes[] = {1, 256, 257, 1000, 1280, 3000, 4096, 14336, 20000, 32768};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

struct block {
    char *at;
    size_t size;
};
static struct block live[MOST];
static size_t count;

static uint64_t state;
static uint64_t chance(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Number 0 is pinned memory, the others are devices. */
static char *take(size_t number, size_t size)
{
    void *at = NULL;
    enum hf_space_kind kind = number == 0 ? HF_SPACE_PINNED : HF_SPACE_DEVICE;
    ck_assert_int_eq(hf_space_alloc(&at, kind, number == 0 ? 0 : (int)number - 1, size, 0, NULL),
                     0);
    return at;
}

static void give(void *at)
{
    ck_assert_int_eq(hf_space_free(at, HF_STREAM_DONE), 0);
}

/* As programs free: on the stream that the block belongs to. */
static void give_own(size_t number, void *at)
{
    ck_assert_int_eq(hf_space_free(at, number == 0 ? HF_STREAM_DONE : NULL), 0);
}

static void *free_half(void *context)
{
    (void)context;
    for (size_t left = count / 2; left > 0; left--)
        give(live[--count].at);
    return NULL;
}

static void add(size_t number, size_t size)
{
    struct block block = {.at = take(number, size), .size = size};
    for (size_t i = 0; i < count; i++)
        ck_assert(block.at + block.size <= live[i].at || live[i].at + live[i].size <= block.at);
    live[count++] = block;
}

/* Three sizes at a time, so that the pages of others are used for them. */
static void phase(size_t number)
{
    size_t first = chance() % SIZES;
    for (int step = 0; step < STEPS; step++) {
        if (count < MOST && (count == 0 || chance() % 100 < 55)) {
            add(number, sizes[(first + chance() % 3) % SIZES]);
            continue;
        }
        /* Often the last one. */
        size_t which = chance() % 2 ? count - 1 : chance() % count;
        give_own(number, live[which].at);
        live[which] = live[--count];
    }
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, free_half, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    while (chance() % 2 && count > 0)
        give_own(number, live[--count].at);
}

START_TEST(none_is_handed_out_twice)
{
    state = (uint64_t)_i * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (size_t number = 0; number <= DEVICES; number++) {
        for (int i = times(PHASES); i > 0; i--)
            phase(number);
        while (count > 0)
            give_own(number, live[--count].at);
    }
    for (int device = -1; device < DEVICES; device++) {
        enum hf_space_kind kind = device < 0 ? HF_SPACE_PINNED : HF_SPACE_DEVICE;
        struct hf_space_stats stats = {.size = sizeof stats};
        ck_assert_int_eq(hf_space_trim(kind, device, 0, NULL), 0);
        ck_assert_int_eq(hf_space_stats(kind, device, HF_STREAM_ANY, &stats), 0);
        ck_assert_uint_eq(stats.reserved, 0);
        ck_assert_uint_eq(stats.allocated, 0);
    }
    ck_assert_uint_eq(double_faults(), 0);
}
END_TEST

START_TEST(what_is_inside_is_no_block)
{
    for (size_t number = 0; number <= DEVICES; number++) {
        for (size_t i = 0; i < SIZES; i++) {
            char *before = take(number, sizes[i]), *at = take(number, sizes[i]);
            for (size_t offset = 128; offset < sizes[i]; offset += 128)
                ck_assert_int_eq(hf_space_free(at + offset, number == 0 ? HF_STREAM_DONE : NULL),
                                 -EINVAL);
            give_own(number, at);
            give_own(number, before);
        }
    }
}
END_TEST

static const void *block_at(const char *at, size_t number, size_t *size)
{
    struct hf_owner owner = {.size = sizeof owner};
    ck_assert_int_eq(hf_owner_of(at, &owner), 0);
    ck_assert_int_eq(owner.kind, number == 0 ? HF_OWNER_PINNED : HF_OWNER_DEVICE);
    ck_assert_int_eq(owner.device, (int)number - 1);
    *size = owner.block_size;
    return owner.block;
}

START_TEST(what_is_inside_is_known)
{
    static const size_t larger[] = {32769, 100000, 300001, 5 << 20};
    enum { ALL = SIZES + sizeof larger / sizeof larger[0] };
    for (size_t number = 0; number <= DEVICES; number++)
        for (size_t i = 0; i < ALL; i++) {
            const size_t size = i < SIZES ? sizes[i] : larger[i - SIZES];
            char *before = take(number, size), *at = take(number, size),
                 *behind = take(number, size);
            size_t found, end;
            ck_assert_ptr_eq(block_at(at, number, &end), at);
            ck_assert_uint_ge(end, size);
            for (size_t offset = 1; offset < end; offset = offset * 2 + 1) {
                ck_assert_ptr_eq(block_at(at + offset, number, &found), at);
                ck_assert_uint_eq(found, end);
            }
            ck_assert_ptr_eq(block_at(at + end - 1, number, &found), at);
            ck_assert_ptr_ne(block_at(behind, number, &found), at);
            ck_assert_ptr_ne(block_at(before + end - 1, number, &found), at);
            give_own(number, at);
            ck_assert_ptr_null(block_at(at + size / 2, number, &found));
            give_own(number, before);
            give_own(number, behind);
        }
}
END_TEST

START_TEST(a_block_that_is_freed_twice_is_there_once)
{
    for (size_t number = 0; number <= DEVICES; number++) {
        for (size_t i = 0; i < SIZES; i++) {
            char *first = take(number, sizes[i]), *second = take(number, sizes[i]);
            /* In the order of a stack, and not. */
            char *twice = _i == 0 ? second : first;
            (void)hf_space_free(twice, number == 0 ? HF_STREAM_DONE : NULL);
            (void)hf_space_free(twice, number == 0 ? HF_STREAM_DONE : NULL);
            char *third = take(number, sizes[i]), *fourth = take(number, sizes[i]);
            ck_assert_ptr_ne(third, fourth);
            give_own(number, third);
            give_own(number, fourth);
            give_own(number, _i == 0 ? first : second);
        }
    }
}
END_TEST

static void nothing(void *argument)
{
    (void)argument;
}

START_TEST(a_block_that_another_stream_uses_waits)
{
    void *stream = (void *)2;            /* cudaStreamPerThread, of device 0 */
    ck_assert_int_eq(cudaFree(NULL), 0); /* which makes the context */
    for (size_t number = 0; number <= 1; number++) {
        give_own(number, take(number, 1000));
        char *used = take(number, 1000);
        ck_assert_int_eq(hf_space_use(used, stream), 0);
        ck_assert_int_eq(double_enqueue(stream, nothing, NULL), 0);
        give_own(number, used);
        char *other = take(number, 1000);
        ck_assert_ptr_ne(other, used);
        give_own(number, other);
        double_advance(100);
        /* Nobody else uses a block any more. */
        char *again = take(number, 1000);
        give_own(number, again);
        ck_assert_ptr_eq(take(number, 1000), again);
        give_own(number, again);
        /* What waits has events, which a search for leaks does not see. */
        double_advance(100);
        ck_assert_int_eq(hf_space_trim(number == 0 ? HF_SPACE_PINNED : HF_SPACE_DEVICE, 0, 0, NULL),
                         0);
    }
}
END_TEST

int main(void)
{
    TCase *tests = NEW_CASE(__FILE__, what_is_inside_is_no_block, what_is_inside_is_known,
                            a_block_that_another_stream_uses_waits);
    tcase_add_loop_test(tests, none_is_handed_out_twice, 0, times(SEEDS));
    tcase_add_loop_test(tests, a_block_that_is_freed_twice_is_there_once, 0, 2);
    return RUN_CASES(__FILE__, tests);
}
