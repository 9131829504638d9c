/* Watches work several at a time, end cleanly, report what did not fit, refuse wrong arguments,
 * and survive fork(). */
#include "death.h"
#include "module.h"
#include "suite.h"
#include "watching.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct module module;

START_TEST(each_has_its_own_begin)
{
    struct hf_watch *outer = begin(0);
    void *a = module.make(10);
    struct hf_watch *inner = begin(0);
    void *b = module.make(10);
    hf_free(a);
    hf_free(b);
    ck_assert_int_eq(hf_watch_end(outer), 0);
    hf_free(module.make(10));
    ck_assert_uint_eq(report_of(outer).crossings, 2);
    ck_assert_uint_eq(report_of(inner).crossings, 2);
    ck_assert_uint_eq(report_of(inner).before, 1);
    hf_watch_drop(inner);
    hf_watch_drop(outer);
}
END_TEST

START_TEST(the_end)
{
    struct hf_watch *watch = begin(0);
    ck_assert_int_eq(hf_watch_end(watch), 0);
    hf_free(module.make(10));
    ck_assert_uint_eq(report_of(watch).allocations, 0);
    ck_assert_int_eq(hf_watch_end(watch), -EALREADY);
    hf_watch_drop(watch);
    hf_watch_drop(NULL);
}
END_TEST

/* A watch slows down a thread that then ends without another call; the next watch finds no trace of
 * it. */
enum { IDLE = 8, ROUNDS = 20 };
static pthread_barrier_t used, watched;

static void *idle(void *unused)
{
    hf_free(hf_malloc(100));
    pthread_barrier_wait(&used);
    pthread_barrier_wait(&watched);
    return unused;
}

START_TEST(threads_that_end_while_slowed_down)
{
    pthread_barrier_init(&used, NULL, IDLE + 1);
    pthread_barrier_init(&watched, NULL, IDLE + 1);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[IDLE];
        for (int i = 0; i < IDLE; i++)
            ck_assert_int_eq(pthread_create(&threads[i], NULL, idle, NULL), 0);
        pthread_barrier_wait(&used);
        struct hf_watch *watch = begin(0);
        pthread_barrier_wait(&watched);
        for (int i = 0; i < IDLE; i++)
            ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_int_eq(hf_watch_end(watch), 0);
        hf_watch_drop(watch);
    }
}
END_TEST

START_TEST(no_capacity)
{
    struct hf_watch *watch = begin(3);
    void *blocks[5];
    for (size_t i = 0; i < 5; i++)
        blocks[i] = module.make(100);
    ck_assert_uint_eq(report_of(watch).dropped, 2);
    for (size_t i = 0; i < 5; i++)
        hf_free(blocks[i]);
    struct hf_watch_report report = report_of(watch);
    ck_assert_uint_eq(report.dropped, 4);
    ck_assert_uint_eq(report.crossings, 3);
    hf_watch_drop(watch);
}
END_TEST

/* Code outside every object, such as a JIT compiler's, is a side by its address, so that much of it
 * fills the table of sides. Each thunk calls a function with two arguments. */
typedef void *thunk(void *first, size_t second, void *(*function)(void *first, size_t second));
enum { THUNK = 16, THUNKS = 4096 };

static unsigned char *make_thunks(void)
{
    unsigned char *code = MAP_FAILED;
#if defined(__x86_64__)
    /* sub $8, %rsp; call *%rdx; add $8, %rsp; ret */
    static const unsigned char bytes[] = {0x48, 0x83, 0xec, 8, 0xff, 0xd2,
                                          0x48, 0x83, 0xc4, 8, 0xc3};
    code = mmap(NULL, THUNK * THUNKS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(code, MAP_FAILED);
    for (size_t i = 0; i < THUNKS; i++)
        memcpy(code + i * THUNK, bytes, sizeof bytes);
    ck_assert_int_eq(mprotect(code, THUNK * THUNKS, PROT_READ | PROT_EXEC), 0);
#endif
    return code;
}

static void *by(unsigned char *code, size_t index, void *first, size_t second,
                void *(*function)(void *first, size_t second))
{
    return ((thunk *)(void *)(code + index * THUNK))(first, second, function);
}

/* Blocks stay where they are, one whose allocating side found no room and one whose side is known;
 * neither may count as freed. */
START_TEST(no_capacity_for_sides)
{
    unsigned char *code = make_thunks();
    if (code == MAP_FAILED)
        return;
    /* Taken before the watch, which makes this program's slots lead to caller thunks. */
    void *(*volatile resize)(void *, size_t) = hf_realloc;
    struct hf_watch *watch = begin(0);
    void *kept = NULL;
    for (size_t i = 0; i < THUNKS; i++) {
        /* hf_realloc(NULL, …) jumps to hf_malloc(), so the thunk is the caller. */
        kept = by(code, i, NULL, 100, resize);
        ck_assert_ptr_nonnull(kept);
        if (i + 1 < THUNKS)
            by(code, i, kept, 0, resize);
    }
    const uint64_t frees = report_of(watch).frees;
    ck_assert_uint_gt(report_of(watch).dropped, 0);
    ck_assert_uint_eq(report_of(watch).before, 0);
    const uint32_t freed = block_at(watch, kept).freed;
    for (size_t i = 0; i < 3; i++) {
        ck_assert_ptr_eq(by(code, THUNKS - 1, kept, 101 + i, resize), kept);
        ck_assert_uint_eq(block_at(watch, kept).freed, freed);
        ck_assert_uint_eq(block_at(watch, kept).freed_unmatched, 0);
        ck_assert_uint_eq(report_of(watch).before, 0);
        ck_assert_uint_eq(report_of(watch).frees, frees);
    }
    hf_free(kept);
    ck_assert_uint_eq(block_at(watch, kept).freed_unmatched, 0);
    ck_assert_uint_eq(report_of(watch).before, 0);
    ck_assert_uint_eq(report_of(watch).frees, frees + 1);
    hf_watch_drop(watch);
    munmap(code, THUNK * THUNKS);
}
END_TEST

START_TEST(too_many)
{
    struct hf_watch *watches[HF_WATCHES_MAX], *more = NULL;
    for (size_t i = 0; i < HF_WATCHES_MAX; i++)
        watches[i] = begin(16);
    ck_assert_int_eq(hf_watch_begin(&more, 16), -ENOSPC);
    ck_assert_ptr_null(more);
    for (size_t i = 0; i < HF_WATCHES_MAX; i++)
        hf_watch_drop(watches[i]);
    hf_watch_drop(begin(16));
}
END_TEST

START_TEST(wrong_arguments)
{
    struct hf_watch *watch = NULL;
    struct hf_watch_report small = {.size = sizeof(size_t)};
    struct hf_watch_block block = {.size = sizeof(size_t)};
    ck_assert_int_eq(hf_watch_begin(NULL, 0), -EINVAL);
    ck_assert_int_eq(hf_watch_begin(&watch, SIZE_MAX), -EINVAL);
    ck_assert_int_eq(hf_watch_end(NULL), -EINVAL);
    ck_assert_int_eq(hf_watch_report(NULL, NULL, NULL, NULL), -EINVAL);
    ck_assert_int_eq(hf_watch_at(NULL, NULL, NULL), -EINVAL);
    watch = begin(0);
    ck_assert_int_eq(hf_watch_report(watch, &small, NULL, NULL), -EINVAL);
    ck_assert_int_eq(hf_watch_at(watch, watch, &block), -EINVAL);
    ck_assert_int_eq(hf_watch_at(watch, watch, NULL), -EINVAL);
    ck_assert_uint_eq(block_at(watch, NULL).freed, 0);
    hf_watch_drop(watch);
}
END_TEST

static void allocate_in_visitor(const struct hf_crossing *crossing, void *context)
{
    (void)crossing;
    hf_free(module.make(10));
    ++*(int *)context;
}

START_TEST(a_visitor_may_allocate)
{
    struct hf_watch *watch = begin(0);
    int visits = 0;
    hf_free(module.make(10));
    ck_assert_int_eq(hf_watch_report(watch, NULL, allocate_in_visitor, &visits), 0);
    ck_assert_int_eq(visits, 1);
    hf_watch_drop(watch);
}
END_TEST

/* The child has records of its own, and ends its watches for itself alone. */
static void be_a_child(void *context)
{
    struct hf_watch *watch = context;
    struct hf_watch_report report = {.size = sizeof report};
    hf_free(module.make(10));
    must(hf_watch_report(watch, &report, NULL, NULL) == 0 && report.crossings == 2);
    must(hf_watch_end(watch) == 0);
    hf_watch_drop(watch);
}

START_TEST(a_child_has_copies)
{
    struct hf_watch *watch = begin(0);
    hf_free(module.make(10));
    assert_succeeds(outcome_of_call(be_a_child, watch));
    ck_assert_uint_eq(report_of(watch).crossings, 1);
    hf_watch_drop(watch);
}
END_TEST

static volatile bool stop;

static void *allocate(void *context)
{
    void *blocks[16];
    (void)context;
    for (size_t n = 0; !stop; n++) {
        for (size_t i = 0; i < 16; i++)
            blocks[i] = n % 2 == 0 ? module.make(i * 500) : hf_malloc(i);
        for (size_t i = 0; i < 16; i++)
            n % 3 == 0 ? module.drop(blocks[i]) : hf_free(blocks[i]);
    }
    return NULL;
}

static void nothing(void *context)
{
    (void)context;
    hf_free(module.make(10));
}

/* Watches begin and end and processes fork while threads allocate. */
START_TEST(threads)
{
    pthread_t others[4];
    stop = false;
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&others[i], NULL, allocate, NULL), 0);
    for (int i = 0; i < times(200); i++) {
        struct hf_watch *a = begin(0), *b = begin(0);
        void *block = module.make(20000);
        if (i % 20 == 0)
            assert_succeeds(outcome_of_call(nothing, NULL));
        hf_free(block);
        struct hf_watch_report report = report_of(b);
        ck_assert_uint_ge(report.crossings, 1);
        ck_assert_uint_eq(block_at(b, block).freed > 0, 1);
        hf_watch_drop(a);
        hf_watch_drop(b);
    }
    stop = true;
    for (size_t i = 0; i < 4; i++)
        pthread_join(others[i], NULL);
}
END_TEST

/* The calls of a thread that is older than the watch are recorded, too. */
static pthread_barrier_t turn;

static void *take_turns(void *context)
{
    hf_free(module.make(10)); /* warms up its fast paths */
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    hf_free(module.make(10));
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    hf_free(module.make(10));
    return context;
}

START_TEST(another_thread)
{
    pthread_t other;
    pthread_barrier_init(&turn, NULL, 2);
    ck_assert_int_eq(pthread_create(&other, NULL, take_turns, NULL), 0);
    pthread_barrier_wait(&turn);
    struct hf_watch *watch = begin(0);
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    ck_assert_int_eq(hf_watch_end(watch), 0);
    pthread_barrier_wait(&turn);
    pthread_join(other, NULL);
    ck_assert_uint_eq(report_of(watch).crossings, 1);
    hf_watch_drop(watch);
}
END_TEST

int main(int count, char **arguments)
{
    const char *path;
    TAKE_ARGUMENTS(&path);
    module = load_module(path);
    return RUN_SUITE(threads_that_end_while_slowed_down, each_has_its_own_begin, the_end,
                     no_capacity, no_capacity_for_sides, too_many, wrong_arguments,
                     a_visitor_may_allocate, a_child_has_copies, threads, another_thread);
}
