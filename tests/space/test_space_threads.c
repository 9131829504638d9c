/*
 * Threads that allocate in both spaces, free each other's blocks on any stream and by any function,
 * end and begin again, while another one trims, moves the double's clock and forks. Each block is
 * marked, so that one that is handed out twice is seen.
 */
#include "control.h"
#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, GENERATIONS = 6, STEPS = 1500, SLOTS = 128, DISTURBANCES = 25 };

struct block {
    unsigned char *at;
    size_t size;
    enum hf_space_kind kind;
    unsigned char mark;
};
/* A slot belongs to the thread that took its pointer out. */
static struct block *_Atomic slots[SLOTS];
static atomic_bool over;

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void release(struct block *block, uint64_t chance)
{
    if (block == NULL)
        return;
    struct hf_space space = {.size = sizeof space};
    must(hf_space_of(block->at, &space) == 0 && space.kind == block->kind &&
         space.block == block->at && space.block_size >= block->size);
    if (block->kind == HF_SPACE_PINNED)
        for (size_t i = 0; i < block->size; i += 1 + i / 2)
            must(block->at[i] == block->mark);
    switch (chance % 4) {
    case 0:
        hf_free(block->at);
        break;
    case 1:
        must(hf_space_free(block->at, NULL) == 0);
        break;
    case 2:
        must(hf_space_use(block->at, (void *)2) == 0);
        must(hf_space_free(block->at, HF_STREAM_DONE) == 0);
        break;
    default:
        must(hf_space_free(block->at, HF_STREAM_DONE) == 0);
    }
    free(block);
}

static struct block *allocate(uint64_t *state)
{
    struct block *block = malloc(sizeof *block);
    uint64_t chance = next(state);
    must(block != NULL);
    *block = (struct block){.size = next(state) % (chance % 3 == 0 ? 3000000 : 30000),
                            .kind = chance & 4 ? HF_SPACE_PINNED : HF_SPACE_DEVICE,
                            .mark = (unsigned char)(chance >> 8)};
    void *at;
    int error = hf_space_alloc(&at, block->kind, 0, block->size, 0, NULL);
    if (error != 0) {
        must(error == -ENOMEM);
        free(block);
        return NULL;
    }
    block->at = at;
    if (block->kind == HF_SPACE_PINNED)
        memset(at, block->mark, block->size);
    return block;
}

static void *work(void *context)
{
    uint64_t state = (uintptr_t)context * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (int i = 0; i < STEPS; i++) {
        struct block *mine = next(&state) % 3 != 0 ? allocate(&state) : NULL;
        release(atomic_exchange(&slots[next(&state) % SLOTS], mine), next(&state));
    }
    return NULL;
}

/* A child can use what is live, but gives nothing back. */
static void child(void)
{
    void *at;
    struct block *block = atomic_exchange(&slots[0], NULL);
    if (hf_space_alloc(&at, HF_SPACE_PINNED, 0, 100, 0, NULL) != -ENODEV ||
        hf_space_alloc(&at, HF_SPACE_DEVICE, 0, 1 << 20, 0, NULL) != -ENODEV)
        _exit(1);
    if (block != NULL && hf_space_free(block->at, HF_STREAM_DONE) != -ECANCELED)
        _exit(2);
    _exit(0);
}

static void *disturb(void *context)
{
    (void)context;
    for (int i = 0; i < DISTURBANCES && !atomic_load(&over); i++) {
        uint64_t released;
        int status;
        must(hf_space_trim(i % 2 ? HF_SPACE_PINNED : HF_SPACE_DEVICE, 0, 0, &released) == 0);
        double_advance(3);
        pid_t pid = fork();
        must(pid >= 0);
        if (pid == 0)
            child();
        must(waitpid(pid, &status, 0) == pid && status == 0);
    }
    return NULL;
}

START_TEST(threads_share_the_spaces)
{
    pthread_t threads[THREADS], disturber;
    void *at;
    ck_assert_int_eq(hf_space_alloc(&at, HF_SPACE_PINNED, 0, 1, 0, NULL), 0);
    hf_free(at);
    ck_assert_int_eq(hf_space_alloc(&at, HF_SPACE_DEVICE, 0, 1, 0, NULL), 0);
    hf_free(at);
    ck_assert_int_eq(pthread_create(&disturber, NULL, disturb, NULL), 0);
    for (uintptr_t generation = 0; generation < GENERATIONS; generation++) {
        for (uintptr_t i = 0; i < THREADS; i++)
            ck_assert_int_eq(
                pthread_create(&threads[i], NULL, work, (void *)(generation * THREADS + i + 1)), 0);
        for (int i = 0; i < THREADS; i++)
            ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    atomic_store(&over, true);
    ck_assert_int_eq(pthread_join(disturber, NULL), 0);
    for (size_t i = 0; i < SLOTS; i++)
        release(slots[i], 0);
    for (enum hf_space_kind kind = HF_SPACE_PINNED; kind <= HF_SPACE_DEVICE; kind++) {
        struct hf_space_stats stats = {.size = sizeof stats};
        ck_assert_int_eq(hf_space_trim(kind, 0, 0, NULL), 0);
        ck_assert_int_eq(hf_space_stats(kind, 0, HF_STREAM_ANY, &stats), 0);
        ck_assert_uint_eq(stats.reserved, 0);
        ck_assert_uint_eq(stats.allocated, 0);
        ck_assert_uint_eq(stats.pending, 0);
        ck_assert_uint_eq(stats.leaked, 0);
    }
    ck_assert_uint_eq(double_faults(), 0);
}
END_TEST

int main(void)
{
    return RUN_SUITE(threads_share_the_spaces);
}
