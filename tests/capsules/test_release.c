/* A record frees its pointer once, whoever drops it, in whatever order, on whatever thread; what it
 * may not free is left, and counted. */
#include "death.h"
#include "heap.h"
#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <homefree/homefree.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4

static const char *releaser; /* a shared object with a freeing function */

static _Atomic(int) freed;
static void *last;

static void count(void *pointer)
{
    last = pointer;
    atomic_fetch_add(&freed, 1);
    errno = EDOM;
    hf_free(pointer);
}

static struct hf_release *make(const char *name)
{
    struct hf_release *record = NULL;
    void *block = hf_malloc(100);
    struct hf_owner owner = {.size = sizeof owner};
    ck_assert_int_eq(hf_owner_of(block, &owner), 0);
    ck_assert_int_eq(owner.kind, HF_OWNER_HEAP);
    ck_assert_int_eq(hf_release_new(&record, block, count, name), 0);
    ck_assert_ptr_nonnull(record);
    ck_assert_ptr_eq(hf_release_pointer(record), block);
    return record;
}

/* Asserts how the counts have changed since `before`. */
static void assert_counts(const struct hf_stats *before, int64_t live, uint64_t run,
                          uint64_t leaked)
{
    struct hf_stats now = stats_now();
    ck_assert_int_eq((int64_t)(now.releases_live - before->releases_live), live);
    ck_assert_uint_eq(now.releases_run - before->releases_run, run);
    ck_assert_uint_eq(now.releases_leaked - before->releases_leaked, leaked);
}

START_TEST(the_last_reference_frees_once)
{
    struct hf_stats before = stats_now();
    freed = 0;
    struct hf_release *record = make("matrix");
    void *block = hf_release_pointer(record);
    assert_counts(&before, 1, 0, 0);
    ck_assert(hf_release_is(record));
    hf_release_take(record);
    hf_release_drop(record);
    ck_assert_int_eq(freed, 0);
    errno = 5;
    hf_release_drop(record);
    ck_assert_int_eq(errno, 5);
    ck_assert_int_eq(freed, 1);
    ck_assert_ptr_eq(last, block);
    assert_counts(&before, 0, 1, 0);
    hf_release_drop(NULL);
}
END_TEST

START_TEST(run_early_it_is_not_run_again)
{
    struct hf_stats before = stats_now();
    freed = 0;
    struct hf_release *record = make(NULL);
    ck_assert_ptr_null(hf_release_name(record));
    ck_assert_int_eq(hf_release_run(record), 0);
    ck_assert_int_eq(freed, 1);
    ck_assert_int_eq(hf_release_run(record), -EALREADY);
    ck_assert_int_eq(hf_release_forbid(record), -EALREADY);
    hf_release_drop(record);
    ck_assert_int_eq(freed, 1);
    assert_counts(&before, 0, 1, 0);
}
END_TEST

START_TEST(forbidden_it_is_the_callers)
{
    struct hf_stats before = stats_now();
    freed = 0;
    struct hf_release *record = make("matrix");
    void *block = hf_release_pointer(record);
    ck_assert_int_eq(hf_release_forbid(record), 0);
    ck_assert_int_eq(hf_release_forbid(record), -EALREADY);
    ck_assert_int_eq(hf_release_run(record), -EALREADY);
    hf_release_drop(record);
    ck_assert_int_eq(freed, 0);
    assert_counts(&before, 0, 0, 0);
    memset(block, 1, 100);
    hf_free(block);
}
END_TEST

static int cannot(void *pointer)
{
    (void)pointer;
    return -EAGAIN;
}

static int can(void *pointer)
{
    count(pointer);
    return 0;
}

START_TEST(what_its_function_cannot_free_is_counted)
{
    struct hf_stats before = stats_now();
    struct hf_release *record = NULL;
    char block[1];
    ck_assert_int_eq(hf_release_new_attempt(&record, block, cannot, "object"), 0);
    hf_release_drop(record);
    assert_counts(&before, 0, 0, 1);
    ck_assert_int_eq(hf_release_new_attempt(&record, block, cannot, "object"), 0);
    ck_assert_int_eq(hf_release_run(record), -ECANCELED);
    ck_assert_int_eq(hf_release_run(record), -EALREADY);
    hf_release_drop(record);
    assert_counts(&before, 0, 0, 2);
    ck_assert_int_eq(hf_release_new_attempt(&record, hf_malloc(1), can, "object"), 0);
    hf_release_drop(record);
    assert_counts(&before, 0, 1, 2);
}
END_TEST

START_TEST(memory_of_a_space_has_a_stream)
{
    struct hf_stats before = stats_now();
    struct hf_release *record = NULL;
    int first, second;
    void *block = hf_malloc(100); /* the heap is a space, too */
    ck_assert_int_eq(hf_release_new_space(&record, block, &first, "block"), 0);
    ck_assert_ptr_eq(hf_release_pointer(record), block);
    ck_assert_str_eq(hf_release_name(record), "block");
    ck_assert(hf_release_is(record));
    ck_assert_int_eq(hf_release_device(record), -1);
    ck_assert_ptr_eq(hf_release_stream(record), &first);
    ck_assert_int_eq(hf_release_set_stream(record, &second), 0);
    ck_assert_ptr_eq(hf_release_stream(record), &second);
    hf_release_take(record);
    hf_release_drop(record);
    assert_counts(&before, 1, 0, 0);
    ck_assert_int_eq(hf_release_run(record), 0);
    ck_assert_int_eq(hf_release_set_stream(record, &first), -EALREADY);
    ck_assert_ptr_eq(hf_release_stream(record), &second);
    hf_release_drop(record);
    assert_counts(&before, 0, 1, 0);

    ck_assert_int_eq(hf_release_new_space(NULL, block, NULL, NULL), -EINVAL);
    ck_assert_int_eq(hf_release_new_space(&record, NULL, NULL, NULL), -EINVAL);
}
END_TEST

START_TEST(other_memory_has_no_stream)
{
    struct hf_release *record = make("matrix");
    ck_assert_int_eq(hf_release_device(record), -1);
    ck_assert_ptr_eq(hf_release_stream(record), HF_STREAM_DONE);
    ck_assert_int_eq(hf_release_set_stream(record, NULL), -EINVAL);
    ck_assert_uint_eq(hf_usable_size(record), 80); /* no room for one */
    hf_release_drop(record);
}
END_TEST

START_TEST(the_name_is_copied)
{
    char *name = hf_strdup("a name that goes");
    struct hf_release *record = make(name);
    memset(name, 'x', strlen(name));
    hf_free(name);
    ck_assert_str_eq(hf_release_name(record), "a name that goes");
    hf_release_drop(record);
}
END_TEST

START_TEST(wrong_use_is_an_error)
{
    struct hf_stats before = stats_now();
    struct hf_release *record = (void *)&before;
    char block[1];
    ck_assert_int_eq(hf_release_new(NULL, block, count, NULL), -EINVAL);
    ck_assert_int_eq(hf_release_new(&record, NULL, count, NULL), -EINVAL);
    ck_assert_int_eq(hf_release_new(&record, block, NULL, NULL), -EINVAL);
    ck_assert_int_eq(hf_release_new_attempt(&record, block, NULL, NULL), -EINVAL);
    ck_assert_ptr_eq(record, &before);
    assert_counts(&before, 0, 0, 0);
}
END_TEST

START_TEST(no_other_address_is_a_record)
{
    uint64_t stack[32] = {0};
    static uint64_t data[32];
    struct hf_release *record = make("matrix");
    char *inside = hf_malloc(500);
    memset(inside, 0xff, 500);
    ck_assert(hf_release_is(record));
    ck_assert(!hf_release_is(NULL));
    ck_assert(!hf_release_is((void *)16));
    ck_assert(!hf_release_is((void *)UINTPTR_MAX));
    ck_assert(!hf_release_is(stack));
    ck_assert(!hf_release_is(data));
    ck_assert(!hf_release_is(inside));
    ck_assert(!hf_release_is((char *)record + 8));
    ck_assert(!hf_release_is((void *)(hf_region_range.base + hf_region_range.size - 64)));
    hf_release_drop(record);
    ck_assert(!hf_release_is(record));
    hf_free(inside);
}
END_TEST

static void *drop_many(void *records)
{
    struct hf_release **record = records;
    for (; *record != NULL; record++)
        hf_release_drop(*record);
    return NULL;
}

static void *run_many(void *records)
{
    struct hf_release **record = records;
    for (; *record != NULL; record++)
        hf_release_run(*record);
    return drop_many(records);
}

/* Half of the threads only drop, the others run first; the record is freed once all the same. */
START_TEST(threads_free_once)
{
    enum { RECORDS = 20000 };
    static struct hf_release *records[RECORDS + 1];
    struct hf_stats before = stats_now();
    int count_records = times(RECORDS);
    pthread_t threads[THREADS];
    freed = 0;
    for (int i = 0; i < count_records; i++) {
        records[i] = make("matrix");
        for (int j = 1; j < THREADS; j++)
            hf_release_take(records[i]);
    }
    records[count_records] = NULL;
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(
            pthread_create(&threads[i], NULL, i % 2 == 0 ? drop_many : run_many, records), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(freed, count_records);
    assert_counts(&before, 0, (uint64_t)count_records, 0);
}
END_TEST

static pthread_barrier_t start;

static void *take_and_drop(void *record)
{
    pthread_barrier_wait(&start);
    for (int i = 0; i < times(4000000); i++) {
        hf_release_take(record);
        hf_release_drop(record);
    }
    return NULL;
}

START_TEST(threads_count_references)
{
    pthread_t threads[THREADS];
    struct hf_release *record = make("matrix");
    freed = 0;
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, take_and_drop, record), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(freed, 0);
    hf_release_drop(record);
    ck_assert_int_eq(freed, 1);
}
END_TEST

/* Everybody else unloads the object that contains `destroy`; it stays loaded. */
START_TEST(the_functions_object_stays)
{
    struct hf_release *record = NULL;
    void *object = dlopen(releaser, RTLD_NOW);
    ck_assert_msg(object != NULL, "%s", dlerror());
    void (*function)(void *) = (void (*)(void *))(uintptr_t)dlsym(object, "releaser_free");
    int *calls = dlsym(object, "releaser_calls");
    ck_assert_ptr_nonnull((void *)(uintptr_t)function);
    ck_assert_ptr_nonnull(calls);
    ck_assert_int_eq(hf_release_new(&record, hf_malloc(10), function, NULL), 0);
    dlclose(object);
    ck_assert_ptr_nonnull(dlopen(releaser, RTLD_NOW | RTLD_NOLOAD));
    hf_release_drop(record);
    ck_assert_int_eq(*calls, 1);
}
END_TEST

START_TEST(code_is_pinned_or_not)
{
    ck_assert_int_eq(hf_release_pin((void *)(uintptr_t)count), 0);
    ck_assert_int_eq(hf_release_pin((void *)(uintptr_t)hf_free), 0);
    ck_assert_int_eq(hf_release_pin((void *)(uintptr_t)strlen), 0);
    void *code = hf_malloc(16);
    ck_assert_int_eq(hf_release_pin(code), -ENOENT);
    ck_assert_int_eq(hf_release_pin(NULL), -ENOENT);
    hf_free(code);
}
END_TEST

/* ---- exit ---- */

static struct hf_release *held;

static void say(void *pointer)
{
    fputs("freed\n", stderr);
    hf_free(pointer);
}

static void drop_held(void)
{
    hf_release_drop(held);
}

static void exit_holding(void *context)
{
    (void)context;
    must(hf_release_new(&held, hf_malloc(10), say, NULL) == 0);
    must(atexit(drop_held) == 0);
    exit(0);
}

START_TEST(exit_handlers_still_free)
{
    assert_exited(outcome_of_call(exit_holding, NULL), 0, 1, "freed");
}
END_TEST

/* After libhomefree's own end, the pointer is left alone. The program's last destructor, which runs
 * later, drops the record (last_drop.c). */
extern void last_drop(struct hf_release *record, void (*drop)(struct hf_release *),
                      int (*stats)(struct hf_stats *));

static void exit_too_late(void *context)
{
    (void)context;
    must(hf_release_new(&held, hf_malloc(10), say, NULL) == 0);
    last_drop(held, hf_release_drop, hf_stats);
    exit(0);
}

START_TEST(too_late_it_is_leaked)
{
    assert_exited(outcome_of_call(exit_too_late, NULL), 0, 1, "live 0 run 0 leaked 1");
}
END_TEST

static void in_child(void *context)
{
    (void)context;
    hf_release_drop(held);
}

START_TEST(a_forked_child_has_records_of_its_own)
{
    ck_assert_int_eq(hf_release_new(&held, hf_malloc(10), say, NULL), 0);
    assert_exited(outcome_of_call(in_child, NULL), 0, 1, "freed");
    ck_assert_int_eq(hf_release_forbid(held), 0);
    hf_free(hf_release_pointer(held));
    hf_release_drop(held);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&releaser);
    /* The first test needs fresh counts, and no other object loaded: loading one would make the
     * loader reorder the destructors. */
    return RUN_SUITE(too_late_it_is_leaked, the_last_reference_frees_once,
                     run_early_it_is_not_run_again, forbidden_it_is_the_callers,
                     what_its_function_cannot_free_is_counted, memory_of_a_space_has_a_stream,
                     other_memory_has_no_stream, the_name_is_copied, wrong_use_is_an_error,
                     no_other_address_is_a_record, threads_free_once, threads_count_references,
                     the_functions_object_stays, code_is_pinned_or_not, exit_handlers_still_free,
                     a_forked_child_has_records_of_its_own);
}
