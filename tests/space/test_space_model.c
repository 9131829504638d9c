/*
 * A model of the spaces: random calls on the double of CUDA, compared with a list of what is live.
 * No two live blocks overlap, none is handed out while work that was enqueued before its free has
 * not run, page-locked blocks keep their contents, and the counters add up.
 *
 * usage: test_space_model [STEPS]
 */
#include "control.h"
#include "suite.h"

#include <homefree/homefree.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 400, STREAMS = 4 };
static int steps = 8000;

struct block {
    unsigned char *at;
    size_t size;
    enum hf_space_kind kind;
    int device;
    unsigned char mark;
};
static struct block live[MOST];
static size_t count;

static uint64_t state = 88172645463325252u;
static uint64_t chance(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static size_t some_size(void)
{
    switch (chance() % 5) {
    case 0:
        return chance() % 600;
    case 1:
        return chance() % 40000;
    case 2:
        return chance() % (1 << 20);
    case 3:
        return (chance() % 64) * 65536;
    default:
        return chance() % (12 << 20);
    }
}

static void overlaps_none(const unsigned char *at, size_t size)
{
    for (size_t i = 0; i < count; i++)
        ck_assert(at + size <= live[i].at || live[i].at + live[i].size <= at);
}

static void *some_stream(void *const streams[STREAMS])
{
    return streams[chance() % STREAMS];
}

static void allocate(void *const streams[STREAMS])
{
    struct block block = {.size = some_size(),
                          .kind = chance() % 2 ? HF_SPACE_PINNED : HF_SPACE_DEVICE,
                          .device = (int)(chance() % 2),
                          .mark = (unsigned char)chance()};
    size_t alignment = chance() % 8 == 0 ? (size_t)1 << (chance() % 22) : 0;
    void *at = NULL;
    int error =
        hf_space_alloc(&at, block.kind, block.device, block.size, alignment, some_stream(streams));
    if (error == -ENOMEM)
        return;
    ck_assert_int_eq(error, 0);
    ck_assert_uint_eq((uintptr_t)at % (alignment != 0 ? alignment : 256), 0);
    block.at = at;
    overlaps_none(block.at, block.size);
    struct hf_space space = {.size = sizeof space};
    ck_assert_int_eq(hf_space_of(block.at + block.size / 2, &space), 0);
    ck_assert_int_eq(space.kind, block.kind);
    ck_assert_ptr_eq(space.block, block.at);
    ck_assert_uint_ge(space.block_size, block.size);
    ck_assert_int_eq(space.device, block.kind == HF_SPACE_DEVICE ? block.device : -1);
    if (block.kind == HF_SPACE_PINNED)
        memset(at, block.mark, block.size);
    live[count++] = block;
}

static void release(void *const streams[STREAMS])
{
    size_t which = chance() % count;
    struct block block = live[which];
    live[which] = live[--count];
    if (block.kind == HF_SPACE_PINNED)
        for (size_t i = 0; i < block.size; i += 1 + i / 3)
            ck_assert_uint_eq(block.at[i], block.mark);
    switch (chance() % 4) {
    case 0:
        ck_assert_int_eq(hf_space_free(block.at, HF_STREAM_DONE), 0);
        break;
    case 1:
        hf_free(block.at);
        break;
    case 2:
        ck_assert_int_eq(hf_space_use(block.at, some_stream(streams)), 0);
        ck_assert_int_eq(hf_space_free(block.at, HF_STREAM_DONE), 0);
        break;
    default:
        ck_assert_int_eq(hf_space_free(block.at, some_stream(streams)), 0);
    }
}

static void counters_add_up(enum hf_space_kind kind, int device)
{
    struct hf_space_stats stats = {.size = sizeof stats};
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        if (live[i].kind == kind && (kind == HF_SPACE_PINNED || live[i].device == device))
            bytes += live[i].size;
    ck_assert_int_eq(hf_space_stats(kind, device, HF_STREAM_ANY, &stats), 0);
    ck_assert_uint_ge(stats.allocated, bytes);
    ck_assert_uint_le(stats.allocated + stats.pending, stats.reserved);
    ck_assert_uint_le(stats.reserved, stats.limit);
    ck_assert_uint_eq(stats.leaked, 0);
}

START_TEST(random_calls)
{
    void *streams[STREAMS] = {NULL, (void *)2};
    double_memory(0, (size_t)512 << 20);
    ck_assert_int_eq(hf_space_limit(HF_SPACE_PINNED, 0, (uint64_t)512 << 20), 0);
    for (int step = 0; step < steps; step++) {
        unsigned what = chance() % 1000;
        if (what < 3) {
            uint64_t released;
            ck_assert_int_eq(hf_space_trim(chance() % 2 ? HF_SPACE_PINNED : HF_SPACE_DEVICE,
                                           (int)(chance() % 2), chance() % (64 << 20), &released),
                             0);
        } else if (what < 20) {
            double_advance(chance() % 20);
        } else if (count < MOST && (count == 0 || chance() % 100 < 52)) {
            allocate(streams);
        } else {
            release(streams);
        }
        if (step % 500 == 0) {
            counters_add_up(HF_SPACE_PINNED, 0);
            counters_add_up(HF_SPACE_DEVICE, 0);
            counters_add_up(HF_SPACE_DEVICE, 1);
        }
    }
    while (count > 0)
        release(streams);
    uint64_t released;
    struct hf_space_stats stats = {.size = sizeof stats};
    for (int i = 0; i < 3; i++) {
        enum hf_space_kind kind = i == 0 ? HF_SPACE_PINNED : HF_SPACE_DEVICE;
        ck_assert_int_eq(hf_space_trim(kind, i - 1, 0, &released), 0);
        ck_assert_int_eq(hf_space_stats(kind, i - 1, HF_STREAM_ANY, &stats), 0);
        ck_assert_uint_eq(stats.reserved, 0);
        ck_assert_uint_eq(stats.pending, 0);
    }
    ck_assert_uint_eq(double_faults(), 0);
}
END_TEST

int main(int count_given, char **given)
{
    if (count_given > 1)
        steps = (int)strtol(given[1], NULL, 10);
    return RUN_SUITE(random_calls);
}
