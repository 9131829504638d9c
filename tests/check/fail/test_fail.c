/* The call that hf_fail_at() names fails, whichever function of the family it is and whoever makes
 * it, and no other; counting is exact, each thread's own or the process's, and ends. */
#include "death.h"
#include "module.h"
#include "suite.h"
#include "watching.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static struct module module;

static struct hf_fail_counts counts(unsigned flags)
{
    struct hf_fail_counts counts = {.size = sizeof counts};
    must(hf_fail_count(flags, &counts) == 0);
    return counts;
}

static void end(uint64_t calls, uint64_t failed)
{
    struct hf_fail_counts seen = {.size = sizeof seen};
    ck_assert_int_eq(hf_fail_end(0, &seen), 0);
    ck_assert_uint_eq(seen.calls, calls);
    ck_assert_uint_eq(seen.failed, failed);
}

START_TEST(the_named_call_and_no_other)
{
    ck_assert_int_eq(hf_fail_at(3, 0), 0);
    void *blocks[5];
    for (size_t i = 0; i < 5; i++) {
        errno = 0;
        blocks[i] = hf_malloc(100);
        ck_assert_int_eq(blocks[i] == NULL, i == 2);
        ck_assert_int_eq(errno, i == 2 ? ENOMEM : 0);
    }
    for (size_t i = 0; i < 5; i++)
        hf_free(blocks[i]);
    end(5, 1);
}
END_TEST

START_TEST(all_calls_from_there_on)
{
    ck_assert_int_eq(hf_fail_at(2, HF_FAIL_ONWARDS), 0);
    void *block = hf_malloc(1);
    ck_assert_ptr_nonnull(block);
    for (int i = 0; i < 10; i++)
        ck_assert_ptr_null(hf_malloc(1));
    hf_free(block);
    end(11, 10);
    hf_free(block = hf_malloc(1));
    ck_assert_ptr_nonnull(block);
}
END_TEST

static void *aligned_alloc_64(size_t size)
{
    return hf_aligned_alloc(64, size);
}

static void *memalign_4096(size_t size)
{
    return hf_memalign(4096, size);
}

static void *posix_memalign_64(size_t size)
{
    void *out = &module;
    int error = hf_posix_memalign(&out, 64, size);
    ck_assert_int_eq(error, out == &module ? ENOMEM : 0);
    if (error != 0)
        errno = error;
    return error == 0 ? out : NULL;
}

static void *calloc_1(size_t size)
{
    return hf_calloc(1, size);
}

static void *realloc_null(size_t size)
{
    return hf_realloc(NULL, size);
}

static void *reallocarray_null(size_t size)
{
    return hf_reallocarray(NULL, 1, size);
}

static void *string(size_t size)
{
    (void)size;
    return hf_strdup("text");
}

static void *first_bytes(size_t size)
{
    (void)size;
    return hf_strndup("text", 2);
}

static void *printed(size_t size)
{
    char *text = NULL;
    int length = hf_asprintf(&text, "%zu", size);
    if (length < 0)
        return NULL;
    return text;
}

static void *by_module(size_t size)
{
    return module.make(size);
}

static void *(*const allocating[])(size_t) = {
    hf_malloc,         calloc_1, aligned_alloc_64, memalign_4096, posix_memalign_64, realloc_null,
    reallocarray_null, string,   first_bytes,      printed,       by_module,
};
enum { ALLOCATING = sizeof allocating / sizeof allocating[0] };

/* Small blocks, and large ones, which have paths of their own. */
START_TEST(every_function)
{
    const size_t sizes[] = {1, 100, 5000, 100000, 1 << 23};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        ck_assert_int_eq(hf_fail_at(1, 0), 0);
        errno = 0;
        ck_assert_ptr_null(allocating[_i](sizes[s]));
        ck_assert_int_eq(errno, ENOMEM);
        void *block = allocating[_i](sizes[s]);
        ck_assert_ptr_nonnull(block);
        hf_free(block);
        end(2, 1);
    }
}
END_TEST

START_TEST(resizing_leaves_the_block)
{
    const size_t sizes[] = {12, 1000, 100000};
    char *block = module.make(11);
    memcpy(block, "0123456789", 11);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(hf_fail_at(1, 0), 0);
        errno = 0;
        ck_assert_ptr_null(i == 1 ? hf_realloc(block, sizes[i]) : module.resize(block, sizes[i]));
        ck_assert_int_eq(errno, ENOMEM);
        ck_assert_str_eq(block, "0123456789");
        block = module.resize(block, sizes[i]);
        ck_assert_ptr_nonnull(block);
        ck_assert_str_eq(block, "0123456789");
        end(2, 1);
    }
    /* Freeing cannot fail, whatever it is called. */
    ck_assert_int_eq(hf_fail_at(1, 0), 0);
    ck_assert_ptr_null(hf_realloc(block, 0));
    end(0, 0);
}
END_TEST

START_TEST(resizing_foreign_memory)
{
    char *block = malloc(11);
    strcpy(block, "0123456789");
    ck_assert_int_eq(hf_fail_at(1, 0), 0);
    ck_assert_ptr_null(module.resize(block, 1000));
    ck_assert_str_eq(block, "0123456789");
    char *grown = module.resize(block, 1000);
    ck_assert_ptr_nonnull(grown);
    end(2, 1);
    module.drop(grown);
}
END_TEST

START_TEST(records_fail_as_documented)
{
    struct hf_release *record = NULL;
    void *block = module.make(1);
    ck_assert_int_eq(hf_fail_at(1, 0), 0);
    ck_assert_int_eq(hf_release_new(&record, block, module.drop, "block"), -ENOMEM);
    ck_assert_int_eq(hf_release_new(&record, block, module.drop, "block"), 0);
    hf_release_drop(record);
    end(2, 1);
}
END_TEST

/* The caller has asked dlopen() for nothing of the heap's. */
START_TEST(what_stands_in_for_dlopen_does_not_count)
{
    ck_assert_int_eq(hf_fail_at(1, HF_FAIL_ONWARDS), 0);
    void *handle = dlopen("libm.so.6", RTLD_NOW);
    ck_assert_ptr_nonnull(handle);
    end(0, 0);
    dlclose(handle);
}
END_TEST

static void *allocate_ten(void *unused)
{
    for (int i = 0; i < 10; i++) {
        void *block = hf_malloc(10);
        must(block != NULL);
        hf_free(block);
    }
    return unused;
}

static void *fail_twice(void *unused)
{
    must(hf_fail_at(2, 0) == 0);
    hf_free(hf_malloc(1));
    must(hf_malloc(1) == NULL);
    must(counts(0).calls == 2 && counts(0).failed == 1);
    must(hf_fail_end(0, NULL) == 0);
    return unused;
}

static void run(void *(*function)(void *), size_t count)
{
    pthread_t threads[8];
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, function, NULL), 0);
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

START_TEST(each_thread_has_its_own)
{
    ck_assert_int_eq(hf_fail_at(1, 0), 0);
    run(allocate_ten, 8);
    run(fail_twice, 8);
    ck_assert_uint_eq(counts(0).calls, 0);
    ck_assert_ptr_null(hf_malloc(1));
    end(1, 1);
}
END_TEST

static void *allocate_100(void *failed)
{
    for (int i = 0; i < 100; i++) {
        void *block = hf_malloc(10);
        if (block == NULL)
            __atomic_add_fetch((int *)failed, 1, __ATOMIC_RELAXED);
        hf_free(block);
    }
    return NULL;
}

START_TEST(the_process_as_a_whole)
{
    pthread_t threads[8];
    int failed = 0;
    ck_assert_int_eq(hf_fail_at(500, HF_FAIL_PROCESS), 0);
    ck_assert_int_eq(hf_fail_count(0, &(struct hf_fail_counts){.size = 24}), -EALREADY);
    for (size_t i = 0; i < 8; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, allocate_100, &failed), 0);
    for (size_t i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(failed, 1);
    ck_assert_uint_eq(counts(HF_FAIL_PROCESS).calls, 800);
    ck_assert_int_eq(hf_fail_end(HF_FAIL_PROCESS, NULL), 0);
    ck_assert_int_eq(hf_fail_end(HF_FAIL_PROCESS, NULL), -EALREADY);
}
END_TEST

START_TEST(counting_begins_again)
{
    ck_assert_int_eq(hf_fail_at(2, 0), 0);
    hf_free(hf_malloc(1));
    ck_assert_int_eq(hf_fail_at(2, 0), 0);
    hf_free(hf_malloc(1));
    ck_assert_uint_eq(counts(0).calls, 1);
    ck_assert_int_eq(hf_fail_at(0, 0), 0);
    hf_free(hf_malloc(1));
    end(1, 0);
    ck_assert_int_eq(hf_fail_end(0, NULL), -EALREADY);
}
END_TEST

START_TEST(wrong_arguments)
{
    struct hf_fail_counts short_one = {.size = 8}, right = {.size = sizeof right};
    ck_assert_int_eq(hf_fail_at(1, 4), -EINVAL);
    ck_assert_int_eq(hf_fail_at(1, ~0U), -EINVAL);
    ck_assert_int_eq(hf_fail_count(0, &right), -EALREADY);
    ck_assert_int_eq(hf_fail_at(0, 0), 0);
    ck_assert_int_eq(hf_fail_count(0, NULL), -EINVAL);
    ck_assert_int_eq(hf_fail_count(0, &short_one), -EINVAL);
    ck_assert_int_eq(hf_fail_count(HF_FAIL_ONWARDS, &right), -EINVAL);
    ck_assert_int_eq(hf_fail_end(2, NULL), -EINVAL);
    ck_assert_int_eq(hf_fail_end(0, &short_one), -EINVAL);
    end(0, 0);
}
END_TEST

static pthread_barrier_t counting, finished;

static void *hold(void *unused)
{
    must(hf_fail_at(0, 0) == 0);
    pthread_barrier_wait(&counting);
    pthread_barrier_wait(&finished);
    must(hf_fail_end(0, NULL) == 0);
    return unused;
}

START_TEST(too_many_threads)
{
    pthread_t threads[HF_FAIL_THREADS_MAX];
    pthread_barrier_init(&counting, NULL, HF_FAIL_THREADS_MAX + 1);
    pthread_barrier_init(&finished, NULL, HF_FAIL_THREADS_MAX + 1);
    for (size_t i = 0; i < HF_FAIL_THREADS_MAX; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, hold, NULL), 0);
    pthread_barrier_wait(&counting);
    ck_assert_int_eq(hf_fail_at(1, 0), -ENOSPC);
    ck_assert_int_eq(hf_fail_at(0, HF_FAIL_PROCESS), 0);
    ck_assert_int_eq(hf_fail_end(HF_FAIL_PROCESS, NULL), 0);
    pthread_barrier_wait(&finished);
    for (size_t i = 0; i < HF_FAIL_THREADS_MAX; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(hf_fail_at(0, 0), 0);
    end(0, 0);
}
END_TEST

START_TEST(a_child_goes_on_counting)
{
    int status = 0;
    ck_assert_int_eq(hf_fail_at(2, 0), 0);
    hf_free(hf_malloc(1));
    pid_t child = fork();
    if (child == 0) {
        must(hf_malloc(1) == NULL);
        must(counts(0).calls == 2);
        must(hf_fail_end(0, NULL) == 0);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(counts(0).calls, 1);
    ck_assert_ptr_null(hf_malloc(1));
    end(2, 1);
}
END_TEST

/* A watch records nothing of a call that failed, and ends without ending the counting. */
START_TEST(with_a_watch)
{
    struct hf_watch *watch = begin(0);
    void *block = module.make(10);
    ck_assert_int_eq(hf_fail_at(1, 0), 0);
    ck_assert_ptr_null(module.resize(block, 100));
    ck_assert_uint_eq(report_of(watch).frees, 0);
    ck_assert_uint_eq(report_of(watch).allocations, 1);
    hf_watch_drop(watch);
    ck_assert_int_eq(hf_fail_at(1, 0), 0);
    ck_assert_ptr_null(module.make(10));
    module.drop(block);
    end(1, 1);
}
END_TEST

static void add_left(const struct hf_left *left, void *context)
{
    struct wanted_crossing *wanted = context;
    if (strstr(left->allocated_by, wanted->allocated_by) == NULL)
        return;
    wanted->count += left->count;
    wanted->bytes += left->bytes;
}

static void assert_left(struct hf_watch *watch, const char *object, uint64_t count, uint64_t bytes)
{
    struct wanted_crossing seen = {object, NULL, 0, 0};
    ck_assert_int_eq(hf_watch_left(watch, add_left, &seen), 0);
    ck_assert_uint_eq(seen.count, count);
    ck_assert_uint_eq(seen.bytes, bytes);
}

START_TEST(what_is_left)
{
    /* Before glibc 2.35, a module that jumps to malloc() is not told from its caller. */
    if (dlsym(RTLD_DEFAULT, "_dl_find_object") == NULL)
        return;
    void *old = module.make(10), *old_too = module.make(10);
    struct hf_watch *watch = begin(0);
    assert_left(watch, "", 0, 0);
    void *blocks[] = {module.make(10), module.make(20), hf_malloc(100)};
    assert_left(watch, "module_first", 2, 30);
    assert_left(watch, "test_check_fail", 1, 100);
    blocks[1] = module.resize(blocks[1], 24); /* in place */
    assert_left(watch, "module_first", 2, 34);
    blocks[1] = hf_realloc(blocks[1], 100000);
    assert_left(watch, "module_first", 1, 10);
    assert_left(watch, "test_check_fail", 2, 100100);
    ck_assert_ptr_null(module.resize(blocks[0], (size_t)1 << 60));
    assert_left(watch, "module_first", 1, 10);
    /* Blocks from before are nobody's. */
    hf_free(old);
    old_too = module.resize(old_too, 12);
    assert_left(watch, "module_first", 1, 10);
    for (size_t i = 0; i < 3; i++)
        hf_free(blocks[i]);
    assert_left(watch, "", 0, 0);
    hf_free(old_too);
    ck_assert_int_eq(hf_watch_end(watch), 0);
    hf_malloc(1) == NULL ? abort() : (void)0;
    assert_left(watch, "", 0, 0);
    ck_assert_int_eq(hf_watch_left(watch, NULL, NULL), -EINVAL);
    ck_assert_int_eq(hf_watch_left(NULL, add_left, NULL), -EINVAL);
    hf_watch_drop(watch);
}
END_TEST

int main(int count, char **arguments)
{
    const char *path;
    TAKE_ARGUMENTS(&path);
    module = load_module(path);
    TCase *each = tcase_create("functions");
    tcase_add_loop_test(each, every_function, 0, ALLOCATING);
    return RUN_CASES("fail",
                     NEW_CASE("fail", the_named_call_and_no_other, all_calls_from_there_on,
                              resizing_leaves_the_block, resizing_foreign_memory,
                              records_fail_as_documented, what_stands_in_for_dlopen_does_not_count,
                              each_thread_has_its_own, the_process_as_a_whole,
                              counting_begins_again, wrong_arguments, too_many_threads,
                              a_child_goes_on_counting, with_a_watch, what_is_left),
                     each);
}
