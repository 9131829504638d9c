/* Small blocks that cross threads, and threads that end: a block is freed once, whoever does it,
 * and what a thread leaves is found by others, in forked children too. Each test runs in a child of
 * its own. Yielding and waiting for atomics is the only synchronisation. */
#include "alloc/heap/fork_gate.h"
#include "core.h"

#include "alloc/spans/supply.h"
#include "death.h"
#include "suite.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define REGION ((size_t)1 << 30)
#define MIB    ((size_t)1 << 20)

static struct hf_spans_count count(void)
{
    return hf_spans_count();
}

static void join_new(void *(*body)(void *), void *context)
{
    pthread_t thread;
    must(pthread_create(&thread, NULL, body, context) == 0);
    must(pthread_join(thread, NULL) == 0);
}

/* ---- hand-over ---- */

enum { SLOTS = 512, THREADS = 4, ROUNDS = 200000 }; /* at most; see times() */
struct block {
    size_t size;
    unsigned char filled[];
};
static struct block *slots[SLOTS];

static void check_and_give(struct block *block)
{
    for (size_t at = 0; at < block->size; at++)
        must(block->filled[at] == (unsigned char)block->size);
    must(core_give(block) == -1);
}

static bool asks; /* what stacks hold goes back meanwhile, with the pages where nothing is live */

static void ask(void)
{
    struct hf_pass pass;
    while (!hf_gate_enter(&pass))
        (void)hf_gate_wait();
    hf_locals_ask();
    hf_gate_leave(&pass);
}

/* Takes a block, and exchanges it for one of anybody's. */
static void *exchange(void *context)
{
    unsigned seed = (unsigned)(uintptr_t)context;
    for (int i = 0, rounds = times(ROUNDS); i < rounds; i++) {
        const size_t size = (size_t)rand_r(&seed) % (rand_r(&seed) % 64 == 0 ? 20000 : 200);
        if (asks && i % 256 == 0)
            ask();
        struct block *block = core_take(sizeof *block + size);
        must(block != NULL);
        block->size = size;
        memset(block->filled, (int)size, size);
        block = __atomic_exchange_n(&slots[rand_r(&seed) % SLOTS], block, __ATOMIC_ACQ_REL);
        if (block != NULL)
            check_and_give(block);
    }
    return NULL;
}

static void blocks_cross_threads(void *unused)
{
    (void)unused;
    core_start(REGION);
    for (uintptr_t generation = 0; generation < 4; generation++) {
        pthread_t threads[THREADS];
        for (uintptr_t i = 0; i < THREADS; i++)
            must(pthread_create(&threads[i], NULL, exchange, (void *)(generation * 100 + i)) == 0);
        for (size_t i = 0; i < THREADS; i++)
            must(pthread_join(threads[i], NULL) == 0);
        uint64_t left = 0;
        for (size_t i = 0; i < SLOTS; i++)
            left += slots[i] != NULL;
        must(count().blocks == left);
    }
    for (size_t i = 0; i < SLOTS; i++)
        if (slots[i] != NULL)
            check_and_give(slots[i]);
    must(count().blocks == 0);
}

static void *take_one(void *context)
{
    void **block = context;
    *block = core_take(100);
    return NULL;
}

static void freed_twice_by_anybody(void *unused)
{
    void *block, *mine;
    (void)unused;
    core_start(REGION);
    join_new(take_one, &block);
    mine = core_take(100);
    must(core_give((char *)block + 16) == HF_CORRUPT_INSIDE);
    must(core_give(block) == -1);
    must(core_give(block) != -1);
    must(core_give(mine) == -1);
    must(hf_span_give(NULL, mine, hf_entry_of(mine)) == HF_CORRUPT_FREED);
}

/* A consumer that never allocates, and a producer that lives on what the other gives back. */
enum { HANDED = 1000000, RING = 64 };
static void *ring[RING];

static void *consume(void *unused)
{
    for (size_t i = 0; i < HANDED; i++) {
        void *block;
        while ((block = __atomic_exchange_n(&ring[i % RING], NULL, __ATOMIC_ACQUIRE)) == NULL)
            sched_yield();
        must(core_give(block) == -1);
    }
    return unused;
}

static void producer_gets_its_blocks_back(void *unused)
{
    pthread_t thread;
    (void)unused;
    core_start(REGION);
    must(pthread_create(&thread, NULL, consume, NULL) == 0);
    for (size_t i = 0; i < HANDED; i++) {
        while (__atomic_load_n(&ring[i % RING], __ATOMIC_RELAXED) != NULL)
            sched_yield();
        __atomic_store_n(&ring[i % RING], core_take(500), __ATOMIC_RELEASE);
    }
    must(pthread_join(thread, NULL) == 0);
    must(count().active < MIB && count().blocks == 0);
}

/* What another thread frees goes back, though every class has free blocks and lacks no span. */
enum { KEPT = 2000, SMALL = 200 };
static void *kept[KEPT];

static void *give_every_second(void *unused)
{
    for (size_t i = 0; i < KEPT; i += 2)
        must(core_give(kept[i]) == -1);
    return unused;
}

static void take_and_give_small(void)
{
    void *blocks[SMALL];
    for (size_t i = 0; i < SMALL; i++)
        must((blocks[i] = core_take(48)) != NULL);
    for (size_t i = 0; i < SMALL; i++)
        must(core_give(blocks[i]) == -1);
}

static void freed_spans_are_noticed(void *unused)
{
    (void)unused;
    core_start(REGION);
    must(core_take(48) != NULL); /* so that the small ones have a span */
    for (size_t i = 0; i < KEPT; i++)
        kept[i] = core_take(1000);
    for (size_t i = 1; i < KEPT; i += 2)
        must(core_give(kept[i]) == -1);
    join_new(give_every_second, NULL);
    must(count().active > MIB && count().blocks == 1);
    for (int i = 0; i < 100; i++)
        take_and_give_small();
    must(count().active < MIB / 2);
}

/* ---- the trap: whoever frees may be interrupted at any step ---- */

static struct hf_span *take_span(void **block)
{
    must(core_give(core_take(1)) == -1); /* this thread has a local heap of its own */
    join_new(take_one, block);
    return hf_entry_span(hf_entry_of(*block));
}

/* The first step of a remote free. */
static void make_remote(void *block)
{
    uint8_t *state;
    must(hf_entry_state(hf_entry_of(block), block, &state) && *state == HF_LIVE);
    *state = HF_REMOTE;
}

static bool is_in_queue(const struct hf_local *local, const struct hf_span *span)
{
    const struct hf_span *at = local->queue;
    while (at != NULL && at != span)
        at = at->next_queued;
    return at != NULL;
}

static void hint_follows_the_span(void *unused)
{
    struct hf_pass pass;
    void *block, *mine = NULL;
    (void)unused;
    core_start(REGION);
    struct hf_span *span = take_span(&block);
    struct hf_local *orphans = span->owner;
    make_remote(block);
    must(__atomic_exchange_n(&span->queued, 1, __ATOMIC_SEQ_CST) == 0);
    /* The span changes hands meanwhile. */
    mine = core_take(100);
    struct hf_local *own = hf_local_own();
    must(hf_entry_span(hf_entry_of(mine)) == span && span->owner == own && own != orphans);
    hf_span_queue(span);
    must(is_in_queue(own, span));
    must(hf_gate_enter(&pass));
    hf_spans_drain(own);
    hf_gate_leave(&pass);
    must(!span->queued && own->queue == NULL);
    must(core_give(mine) == -1 && count().blocks == 0);
}

/* A span that was given away, and is another one's of its class. */
static void hint_of_a_span_that_is_gone(void *unused)
{
    void *block;
    (void)unused;
    core_start(REGION);
    struct hf_span *span = take_span(&block);
    must(core_give(block) == -1);
    must(span->queued);
    hf_spans_trim(true); /* drains, and ends it */
    must(span->owner == NULL && !span->queued);
    must(__atomic_exchange_n(&span->queued, 1, __ATOMIC_SEQ_CST) == 0);
    hf_span_queue(span); /* nobody's */
    must(!span->queued);
    must(__atomic_exchange_n(&span->queued, 1, __ATOMIC_SEQ_CST) == 0);
    block = core_take(100);
    must(hf_entry_span(hf_entry_of(block)) == span && span->owner == hf_local_own());
    hf_span_queue(span);
    must(is_in_queue(hf_local_own(), span));
}

/* ---- ends ---- */

static void *take_and_give_some(void *context)
{
    void *blocks[1000];
    for (size_t i = 0; i < 1000; i++)
        must((blocks[i] = core_take(i * 7 % 4000)) != NULL);
    for (size_t i = 0; i < 1000; i++)
        must(context != NULL && i % 10 == 0 ? true : core_give(blocks[i]) == -1);
    return NULL;
}

static void ended_threads_leave_all(void *unused)
{
    (void)unused;
    core_start(REGION);
    join_new(take_and_give_some, NULL);
    size_t pages = core_pages_taken();
    const uint64_t metadata = count().metadata;
    for (int i = 0; i < 300; i++)
        join_new(take_and_give_some, NULL);
    must(core_pages_taken() == pages && count().metadata < metadata + MIB / 2);
    must(count().locals <= 2 && count().blocks == 0);
    hf_spans_trim(true); /* what is kept for the next thread */
    must(count().active == 0);
    /* Blocks that live on do not keep what lies around them from others. */
    for (int i = 0; i < 20; i++)
        join_new(take_and_give_some, &pages);
    must(count().blocks == 2000 && core_pages_taken() < pages + 8 * MIB);
}

static void without_a_key(void *unused)
{
    pthread_key_t key;
    (void)unused;
    while (pthread_key_create(&key, NULL) == 0)
        ;
    core_start(REGION);
    for (int i = 0; i < 300; i++)
        join_new(take_and_give_some, NULL);
    must(count().locals < 100 && count().blocks == 0);
    must(core_pages_taken() < 128 * MIB);
    struct hf_pass pass;
    must(hf_gate_enter(&pass));
    hf_local_slow(true); /* must not store into threads that are gone */
    must(hf_local_get() == &hf_local_none || hf_local_own() == NULL);
    hf_gate_leave(&pass);
    must(core_give(core_take(100)) == -1);
    must(hf_gate_enter(&pass));
    hf_local_slow(false);
    hf_gate_leave(&pass);
}

/* ---- fork ---- */

static void in_forked_child(void (*body)(void))
{
    int status;
    core_before_fork();
    const pid_t child = fork();
    if (child == 0) {
        alarm(patience(20));
        core_in_child();
        body();
        _exit(0);
    }
    core_in_parent();
    must(waitpid(child, &status, 0) == child && status == 0);
}

static pthread_barrier_t ready, done;
static void *blocks_of_other[3000];

static void *hold_while_forking(void *unused)
{
    for (size_t i = 0; i < 3000; i++)
        must((blocks_of_other[i] = core_take(i % 700)) != NULL);
    for (size_t i = 1; i < 3000; i += 3)
        must(core_give(blocks_of_other[i]) == -1);
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&done);
    return unused;
}

static void child_has_all_blocks(void)
{
    must(count().blocks == 2000);
    for (size_t i = 0; i < 3000; i += 3)
        must(core_give(blocks_of_other[i]) == -1);
    must(core_give(blocks_of_other[0]) != -1);
    const uint64_t active = count().active;
    for (int i = 0; i < 3000; i++)
        must(core_give(core_take((size_t)i % 700)) == -1);
    must(count().active <= active + MIB / 4 && count().blocks == 1000);
    join_new(take_and_give_some, NULL);
    for (size_t i = 2; i < 3000; i += 3)
        must(core_give(blocks_of_other[i]) == -1);
    must(count().blocks == 0);
}

static void fork_beside(void *(*other)(void *), void (*body)(void))
{
    pthread_t thread;
    core_start(REGION);
    must(core_give(core_take(1)) == -1);
    pthread_barrier_init(&ready, NULL, 2);
    pthread_barrier_init(&done, NULL, 2);
    must(pthread_create(&thread, NULL, other, NULL) == 0);
    pthread_barrier_wait(&ready);
    in_forked_child(body);
    pthread_barrier_wait(&done);
    must(pthread_join(thread, NULL) == 0);
}

static void forked_child_goes_on(void *unused)
{
    (void)unused;
    fork_beside(hold_while_forking, child_has_all_blocks);
    must(count().blocks == 2000);
}

/* Children of children free in one span of a thread that all of them lack. */
enum { HELD = 8, HELD_SIZE = 4000, GENERATIONS = 4 };
static unsigned char *held[HELD];
static int generation;

static void *hold_some(void *unused)
{
    for (int i = 0; i < HELD; i++) {
        must((held[i] = core_take(HELD_SIZE)) != NULL);
        memset(held[i], i, HELD_SIZE);
    }
    must(hf_entry_span(hf_entry_of(held[0])) == hf_entry_span(hf_entry_of(held[HELD - 1])));
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&done);
    return unused;
}

static void free_in_each_generation(void)
{
    const struct hf_span *span = hf_entry_span(hf_entry_of(held[0]));
    must(core_give(held[generation++]) == -1);
    must(is_in_queue(span->owner, span));
    if (generation < GENERATIONS)
        in_forked_child(free_in_each_generation);
    hf_spans_trim(true); /* drains, and leaves the span to all */
    must(span->owner->queue == NULL && count().blocks == (uint64_t)(HELD - generation));
    for (int i = 0; i < HELD; i++) {
        must(hf_span_check(held[i], hf_entry_of(held[i])) ==
             (i < generation ? HF_CORRUPT_FREED : -1));
        for (size_t at = 0; i >= generation && at < HELD_SIZE; at++)
            must(held[i][at] == i);
    }
    for (int i = generation; i < HELD; i++)
        must(core_give(held[i]) == -1);
    hf_spans_trim(true);
    must(span->owner == NULL && count().blocks == 0);
}

static void forked_children_fork(void *unused)
{
    (void)unused;
    fork_beside(hold_some, free_in_each_generation);
    must(count().blocks == HELD);
}

/* A thread that ends while another one forks. */
static void *end_at_once(void *unused)
{
    must(core_take(100) != NULL);
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&done);
    return unused;
}

static void ends_while_the_gate_is_closed(void *unused)
{
    pthread_t thread;
    (void)unused;
    core_start(REGION);
    pthread_barrier_init(&ready, NULL, 2);
    pthread_barrier_init(&done, NULL, 2);
    for (int i = 0; i < 100; i++) {
        must(pthread_create(&thread, NULL, end_at_once, NULL) == 0);
        pthread_barrier_wait(&ready);
        core_before_fork();
        pthread_barrier_wait(&done);
        must(pthread_join(thread, NULL) == 0);
        must(hf_locals_have_ended());
        core_in_parent();
        must(!hf_locals_have_ended());
    }
    must(count().locals <= 2 && count().blocks == 100);
}

/* ---- a thread that begins while another one is about to end ---- */

/* The thread that is about to end, and whether it may; the test's yields, below, let it. */
static pthread_t ending_one;
static int waits_to_end, may_end, has_ended;
static __thread bool lets_it_end;

int sched_yield(void)
{
    if (lets_it_end && __atomic_exchange_n(&may_end, 1, __ATOMIC_SEQ_CST) == 0) {
        must(pthread_join(ending_one, NULL) == 0);
        __atomic_store_n(&has_ended, 1, __ATOMIC_SEQ_CST);
    }
    return (int)syscall(SYS_sched_yield);
}

static void *use(void *context)
{
    must(core_give(core_take(100)) == -1);
    return context;
}

static void *use_and_wait(void *context)
{
    (void)use(NULL);
    __atomic_store_n(&waits_to_end, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&may_end, __ATOMIC_SEQ_CST) == 0)
        sched_yield();
    return context;
}

static void *use_at_last(void *context)
{
    lets_it_end = true;
    return use(context);
}

/* It runs only if the new thread yields: then there is one local heap for both. */
static void begins_after_others_end(void *context)
{
    (void)context;
    core_start(REGION);
    (void)use(NULL);
    join_new(use, NULL); /* threads end in this program */
    must(pthread_create(&ending_one, NULL, use_and_wait, NULL) == 0);
    while (__atomic_load_n(&waits_to_end, __ATOMIC_SEQ_CST) == 0)
        sched_yield();
    const uint64_t before = count().locals;
    join_new(use_at_last, NULL);
    must(has_ended == 1 && count().locals == before);
}

static void run(void (*body)(void *))
{
    assert_succeeds(outcome_of_call(body, NULL));
}

static void blocks_stay_while_pages_go(void *unused)
{
    asks = true;
    blocks_cross_threads(unused);
    must(core_answers > 0);
}

START_TEST(crossing)
{
    run(blocks_cross_threads);
    run(blocks_stay_while_pages_go);
    run(freed_twice_by_anybody);
    run(producer_gets_its_blocks_back);
    run(freed_spans_are_noticed);
}
END_TEST

START_TEST(hints)
{
    run(hint_follows_the_span);
    run(hint_of_a_span_that_is_gone);
}
END_TEST

START_TEST(ending)
{
    run(ended_threads_leave_all);
    run(begins_after_others_end);
    run(without_a_key);
    run(ends_while_the_gate_is_closed);
}
END_TEST

START_TEST(forking)
{
    run(forked_child_goes_on);
    run(forked_children_fork);
}
END_TEST

int main(void)
{
    return RUN_SUITE(crossing, hints, ending, forking);
}
