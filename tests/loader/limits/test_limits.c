/*
 * A limit counts what one library allocates, until it is freed, and refuses what is above it
 * (homefree/limit.h): for a library with the shim, an adopted one, and many threads.
 */
#include "death.h"
#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <homefree/homefree.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *library_path, *other_path, *plain_path;

#define PAGE ((uint64_t)4096)
#define MIB  ((size_t)1 << 20)

static struct library {
    void *handle;
    void *(*malloc)(size_t size);
    void *(*calloc)(size_t size);
    void *(*aligned)(size_t alignment, size_t size);
    void *(*realloc)(void *block, size_t size);
    void *(*reallocf)(void *block, size_t size);
    char *(*strdup)(const char *text);
    void (*free)(void *block);
    void *(*new)(size_t size);
    void (*delete)(void *block);
} library;

static void *symbol(void *handle, const char *name)
{
    void *found = dlsym(handle, name);
    ck_assert_msg(found != NULL, "%s", name);
    return found;
}

static struct library open_library(const char *path)
{
    struct library opened = {.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    ck_assert_msg(opened.handle != NULL, "%s", dlerror());
#define FIND(member)                                             \
    do {                                                         \
        void *found = symbol(opened.handle, "library_" #member); \
        memcpy(&opened.member, &found, sizeof found);            \
    } while (0)
    FIND(malloc);
    FIND(calloc);
    FIND(aligned);
    FIND(realloc);
    FIND(reallocf);
    FIND(strdup);
    FIND(free);
    FIND(new);
    FIND(delete);
    return opened;
}

static struct hf_limit *begin_with(uint64_t bytes, const struct hf_limit_options *options)
{
    struct hf_limit *limit = NULL;
    library = open_library(library_path);
    ck_assert_int_eq(hf_limit_begin(&limit, library_path, bytes, options), 0);
    ck_assert_ptr_nonnull(limit);
    return limit;
}

static struct hf_limit *begin(uint64_t bytes)
{
    return begin_with(bytes, NULL);
}

static struct hf_limit_state state_of(const struct hf_limit *limit)
{
    struct hf_limit_state state = {.size = sizeof state};
    must(hf_limit_read(limit, &state) == 0); /* in a child, too, where Check's lock may be held */
    return state;
}

/* With checks:hardened and checks:full, large blocks have pages around them, which count. */
static bool has_guards(void)
{
    const char *conf = getenv("HOMEFREE_CONF");
    return conf != NULL && strstr(conf, "checks") != NULL;
}

/* What a block counts. */
static uint64_t bytes_of(const void *block, size_t asked)
{
    const size_t usable = hf_usable_size(block);
    return usable <= 32768 && asked != 0 ? usable : (asked + PAGE - 1) & -PAGE;
}

static void assert_used(const struct hf_limit *limit, uint64_t bytes)
{
    const uint64_t used = state_of(limit).used;
    if (has_guards() && bytes != 0) {
        ck_assert_uint_ge(used + bytes / 2, bytes);
        ck_assert_uint_le(used, bytes + bytes / 4 + 80 * PAGE);
        return;
    }
    ck_assert_uint_ge(used, bytes);
    ck_assert_uint_le(used, bytes + PAGE);
}

/* ---- counting ---- */

/* What every way to allocate takes, in small and in large, comes back when it is freed. */
START_TEST(test_everything_counts_until_it_is_freed)
{
    static const size_t sizes[] = {1, 100, 1000, 5000, 30000, 40000, 3 * MIB};
    struct hf_limit *limit = begin(HF_LIMIT_NONE);
    uint64_t sum = 0;
    void *blocks[64];
    size_t asked[64], count = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *taken[] = {library.malloc(sizes[i]),        library.calloc(sizes[i]),
                         library.aligned(64, sizes[i]),   library.aligned(8192, sizes[i]),
                         library.realloc(NULL, sizes[i]), library.new(sizes[i])};
        for (size_t j = 0; j < sizeof taken / sizeof *taken; j++) {
            ck_assert_ptr_nonnull(taken[j]);
            memset(taken[j], 1, sizes[i]);
            asked[count] = sizes[i];
            blocks[count++] = taken[j];
            sum += bytes_of(taken[j], sizes[i]);
        }
        assert_used(limit, sum);
    }
    blocks[count] = library.strdup("a text that is copied");
    asked[count] = sizeof "a text that is copied";
    sum += bytes_of(blocks[count], asked[count]);
    count++;
    assert_used(limit, sum);
    /* Whoever frees it. */
    for (size_t i = 0; i < count; i++) {
        sum -= bytes_of(blocks[i], asked[i]);
        if (i % 3 == 0)
            library.free(blocks[i]);
        else if (i % 3 == 1)
            hf_free(blocks[i]);
        else
            library.delete(blocks[i]);
        assert_used(limit, sum);
    }
    ck_assert_uint_eq(sum, 0);
    ck_assert_uint_gt(state_of(limit).peak, 18 * MIB);
    ck_assert_int_eq(hf_limit_end(limit), 0);
}
END_TEST

/* What others allocate does not count, nor what the library had before, until it resizes it. */
START_TEST(test_others_do_not_count)
{
    library = open_library(library_path);
    void *old = library.malloc(50000);
    struct hf_limit *limit = begin(HF_LIMIT_NONE);
    void *mine = hf_malloc(100000);
    assert_used(limit, 0);
    hf_free(mine);
    library.free(old);
    assert_used(limit, 0);
    old = hf_malloc(40000);
    old = library.realloc(old, 80000);
    assert_used(limit, bytes_of(old, 80000));
    old = hf_realloc(old, 120000); /* by anybody */
    assert_used(limit, bytes_of(old, 120000));
    old = hf_realloc(old, 20);
    assert_used(limit, bytes_of(old, 20));
    hf_free(old);
    assert_used(limit, 0);
    ck_assert_int_eq(hf_limit_end(limit), 0);
}
END_TEST

/* What others allocated, or the library before its limit, grows below the limit alone. */
START_TEST(test_other_blocks_grow_within_the_limit)
{
    static const size_t sizes[] = {100, 50000};
    library = open_library(library_path);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *old = library.malloc(sizes[i]);
        memset(old, 'x', sizes[i]);
        struct hf_limit *limit = begin(MIB);
        errno = 0;
        ck_assert_ptr_null(library.realloc(old, 2 * MIB));
        ck_assert_int_eq(errno, ENOMEM);
        ck_assert_ptr_null(library.realloc(old, SIZE_MAX));
        ck_assert_uint_eq(state_of(limit).refused, 2);
        ck_assert_int_eq(old[sizes[i] - 1], 'x');
        assert_used(limit, 0);
        ck_assert_int_eq(hf_limit_set(limit, 0), 0);
        old = library.realloc(old, sizes[i] / 2); /* it does not grow */
        ck_assert_ptr_nonnull(old);
        assert_used(limit, bytes_of(old, sizes[i] / 2));
        ck_assert_int_eq(hf_limit_set(limit, MIB), 0);
        library.free(old);
        old = library.realloc(hf_malloc(sizes[i]), MIB / 2);
        assert_used(limit, bytes_of(old, MIB / 2));
        hf_free(old);
        ck_assert_int_eq(hf_limit_end(limit), 0);
    }
}
END_TEST

/* A function that frees a block when it refuses to resize it is called once. */
START_TEST(test_a_refused_reallocf_frees_the_block)
{
    struct hf_limit *limit = begin(MIB);
    ck_assert_ptr_null(library.reallocf(NULL, 2 * MIB));
    void *block = library.reallocf(NULL, 1000);
    block = library.reallocf(block, MIB / 2);
    assert_used(limit, bytes_of(block, MIB / 2));
    ck_assert_ptr_null(library.reallocf(block, 2 * MIB));
    assert_used(limit, 0);
    block = library.malloc(100);
    ck_assert_ptr_null(library.reallocf(block, SIZE_MAX));
    ck_assert_ptr_null(library.reallocf(hf_malloc(100), 2 * MIB));
    assert_used(limit, 0);
    ck_assert_uint_eq(state_of(limit).refused, 4);
    /* Near the limit, the heap may refuse what seemed to fit. */
    block = library.malloc(100);
    ck_assert_int_eq(hf_limit_set(limit, HF_LIMIT_NONE), 0);
    ck_assert_ptr_null(library.reallocf(block, PTRDIFF_MAX));
    assert_used(limit, 0);
    ck_assert_int_eq(hf_limit_end(limit), 0);
}
END_TEST

/* After the end, its blocks are ordinary ones, and the library allocates as before. */
START_TEST(test_an_ended_limit_leaves_nothing)
{
    struct hf_limit *limit = begin(MIB);
    void *small = library.malloc(100), *large = library.malloc(100000);
    ck_assert_ptr_null(library.malloc(2 * MIB));
    ck_assert_int_eq(hf_limit_end(limit), 0);
    void *more = library.malloc(2 * MIB);
    ck_assert_ptr_nonnull(more);
    struct hf_limit_state state = {.size = sizeof state};
    ck_assert_int_eq(hf_limit_read(limit, &state), -EINVAL);
    ck_assert_int_eq(hf_limit_end(limit), -EINVAL);
    struct hf_limit *next = begin(MIB);
    assert_used(next, 0);
    library.free(small);
    library.free(large);
    library.free(more);
    assert_used(next, 0);
    small = library.malloc(100);
    assert_used(next, 112);
    library.free(small);
    ck_assert_int_eq(hf_limit_end(next), 0);
}
END_TEST

/* ---- refusing ---- */

START_TEST(test_what_is_above_is_refused)
{
    struct hf_limit *limit = begin(MIB);
    errno = 0;
    ck_assert_ptr_null(library.malloc(MIB + 1));
    ck_assert_int_eq(errno, ENOMEM);
    ck_assert_ptr_null(library.calloc(2 * MIB));
    ck_assert_ptr_null(library.aligned(4096, 2 * MIB));
    ck_assert_int_eq(errno, ENOMEM);
    ck_assert_ptr_null(library.realloc(NULL, 2 * MIB));
    ck_assert_ptr_eq(library.new(2 * MIB), (void *)1);
    ck_assert_uint_eq(state_of(limit).refused, 5);
    assert_used(limit, 0);
    /* Up to the last byte, in small blocks, each of which is 112 bytes large. */
    size_t count = 0;
    void **first = NULL, **block;
    while ((block = library.malloc(100)) != NULL) {
        *block = first;
        first = block;
        count++;
    }
    if (!has_guards())
        ck_assert_uint_eq(count, MIB / 112);
    ck_assert_ptr_null(library.strdup("sixteen letters, and many more than these are, so that it "
                                      "needs as much as the blocks do"));
    ck_assert_uint_le(state_of(limit).used, MIB);
    for (; first != NULL; first = block) {
        block = *first;
        hf_free(first);
    }
    assert_used(limit, 0);
    void *all = library.malloc(MIB - (has_guards() ? 80 : 1) * PAGE);
    ck_assert_ptr_nonnull(all);
    hf_free(all);
    ck_assert_int_eq(hf_limit_end(limit), 0);
}
END_TEST

/* A block that may not grow stays as it is. */
START_TEST(test_a_refused_realloc_leaves_the_block)
{
    struct hf_limit *limit = begin(MIB);
    static const size_t sizes[] = {100, 20000, 500000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *block = library.malloc(sizes[i]);
        memset(block, 'x', sizes[i]);
        errno = 0;
        ck_assert_ptr_null(library.realloc(block, 3 * MIB));
        ck_assert_int_eq(errno, ENOMEM);
        ck_assert_ptr_null(hf_realloc(block, 3 * MIB));
        for (size_t j = 0; j < sizes[i]; j++)
            ck_assert_int_eq(block[j], 'x');
        assert_used(limit, bytes_of(block, sizes[i]));
        char *grown = library.realloc(block, sizes[i] + sizes[i] / 2);
        ck_assert_ptr_nonnull(grown);
        for (size_t j = 0; j < sizes[i]; j++)
            ck_assert_int_eq(grown[j], 'x');
        assert_used(limit, bytes_of(grown, sizes[i] + sizes[i] / 2));
        hf_free(grown);
        assert_used(limit, 0);
    }
    ck_assert_ptr_null(library.realloc(library.malloc(10), 0));
    assert_used(limit, 0);
    ck_assert_int_eq(hf_limit_end(limit), 0);
}
END_TEST

START_TEST(test_a_limit_of_nothing_and_one_that_changes)
{
    struct hf_limit *limit = begin(0);
    ck_assert_ptr_null(library.malloc(1));
    ck_assert_int_eq(hf_limit_set(limit, MIB), 0);
    void *half = library.malloc(MIB / 2);
    ck_assert_ptr_nonnull(half);
    ck_assert_int_eq(hf_limit_set(limit, MIB / 4), 0); /* below what is used */
    ck_assert_ptr_null(library.malloc(16));
    char *less = library.realloc(half, MIB / 8);
    ck_assert_ptr_nonnull(less);
    void *more = library.malloc(16);
    ck_assert_ptr_nonnull(more);
    library.free(less);
    library.free(more);
    ck_assert_int_eq(hf_limit_set(limit, HF_LIMIT_NONE), 0);
    more = library.malloc(10 * MIB);
    ck_assert_ptr_nonnull(more);
    library.free(more);
    ck_assert_int_eq(hf_limit_end(limit), 0);
}
END_TEST

/* ---- callbacks ---- */

static struct seen {
    unsigned calls, python;
    uint64_t asked, used;
    void *cache, *nested;
} seen;

static void note(void *context, const struct hf_limit_state *state, uint64_t asked)
{
    ck_assert_ptr_eq(context, &seen);
    ck_assert_str_eq(state->name, "the library");
    seen.calls++;
    seen.asked = asked;
    seen.used = state->used;
    seen.python = state->python;
    seen.nested = library.malloc(2 * MIB); /* refused without another call, or had */
    library.free(seen.cache);
    seen.cache = NULL;
}

static struct hf_limit *begin_mode(unsigned mode)
{
    const struct hf_limit_options options = {.size = sizeof options,
                                             .mode = mode,
                                             .callback = note,
                                             .context = &seen,
                                             .name = "the library"};
    return begin_with(MIB, &options);
}

/* Once for each time that the limit is reached. */
START_TEST(test_a_callback_is_told_once)
{
    struct hf_limit *limit = begin_mode(HF_LIMIT_REFUSE);
    for (int i = 0; i < 3; i++)
        ck_assert_ptr_null(library.malloc(2 * MIB));
    ck_assert_uint_eq(seen.calls, 1);
    ck_assert_uint_eq(seen.asked, 2 * MIB);
    ck_assert_ptr_null(seen.nested);
    void *block = library.malloc(MIB / 2);
    ck_assert_ptr_null(library.malloc(2 * MIB));
    library.free(block);
    ck_assert_ptr_null(library.malloc(2 * MIB));
    ck_assert_uint_eq(seen.calls, 3); /* much less was used in between */
    ck_assert_uint_eq(state_of(limit).crossings, 3);
    ck_assert_uint_eq(state_of(limit).refused, 3 + 2 + seen.calls);
    ck_assert_int_eq(hf_limit_end(limit), 0);
}
END_TEST

START_TEST(test_a_warning_refuses_nothing)
{
    struct hf_limit *limit = begin_mode(HF_LIMIT_WARN);
    void *blocks[4];
    for (int i = 0; i < 4; i++)
        ck_assert_ptr_nonnull(blocks[i] = library.malloc(MIB / 2 + 1));
    ck_assert_uint_eq(seen.calls, 1);
    ck_assert_uint_gt(seen.used, MIB);
    ck_assert_uint_eq(state_of(limit).refused, 0);
    ck_assert_uint_gt(state_of(limit).used, 4 * MIB); /* with what the callback took */
    library.free(seen.nested);
    for (int i = 0; i < 4; i++)
        library.free(blocks[i]);
    assert_used(limit, 0);
    ck_assert_int_eq(hf_limit_end(limit), 0);
}
END_TEST

/* What the callback frees can be had at once. */
START_TEST(test_a_callback_makes_room)
{
    struct hf_limit *limit = begin_mode(HF_LIMIT_TRIM);
    seen.cache = library.malloc(3 * MIB / 4);
    void *block = library.malloc(MIB / 2);
    ck_assert_ptr_nonnull(block);
    ck_assert_uint_eq(seen.calls, 1);
    seen.cache = library.malloc(MIB / 4);
    block = library.realloc(block, 3 * MIB / 4 + PAGE);
    ck_assert_ptr_nonnull(block);
    ck_assert_uint_eq(seen.calls, 2);
    ck_assert_ptr_null(library.malloc(MIB / 2)); /* there is no cache */
    library.free(block);
    ck_assert_int_eq(hf_limit_end(limit), 0);
}
END_TEST

/* ---- threads, processes ---- */

enum { THREADS = 10, TURNS = 20000, SLOTS = 32 };
static void *exchanged[256];

/* Each thread frees what others allocated, too. */
static void *storm(void *argument)
{
    unsigned long random = (unsigned long)(uintptr_t)argument * 2654435761U + 1;
    void *own[SLOTS] = {NULL};
    size_t refused = 0;
    for (int i = 0; i < TURNS; i++) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        const size_t size = (random >> 33) % 100 == 0 ? 60000 : (random >> 33) % 3000;
        void **slot = &own[(random >> 50) % SLOTS];
        void *block;
        if (*slot != NULL && random >> 63) {
            block = library.realloc(*slot, size + 1);
            if (block != NULL)
                *slot = block;
            continue;
        }
        block = library.malloc(size);
        refused += block == NULL;
        block = __atomic_exchange_n(&exchanged[(random >> 40) % 256], block, __ATOMIC_ACQ_REL);
        library.free(*slot);
        *slot = block;
    }
    for (int i = 0; i < SLOTS; i++)
        library.free(own[i]);
    return (void *)refused;
}

static size_t run_storm(void)
{
    pthread_t threads[THREADS];
    size_t refused = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        must(pthread_create(&threads[i], NULL, storm, (void *)i) == 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *result;
        must(pthread_join(threads[i], &result) == 0);
        refused += (size_t)result;
    }
    for (size_t i = 0; i < 256; i++)
        library.free(__atomic_exchange_n(&exchanged[i], NULL, __ATOMIC_RELAXED));
    return refused;
}

/* At the limit, nothing is counted twice or lost, whoever frees. */
START_TEST(test_many_threads_at_the_limit)
{
    struct hf_limit *limit = begin(300000);
    ck_assert_uint_gt(run_storm(), 0);
    ck_assert_uint_le(state_of(limit).peak, 300000);
    assert_used(limit, 0); /* the threads have ended, and have nothing at hand */
    ck_assert_int_eq(hf_limit_end(limit), 0);
}
END_TEST

/* While a limit begins and ends. */
START_TEST(test_it_ends_under_load)
{
    library = open_library(library_path);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, storm, NULL), 0);
    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(hf_limit_end(begin(i % 2 == 0 ? 1000 : MIB)), 0);
    void *result;
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    for (size_t i = 0; i < 256; i++)
        library.free(__atomic_exchange_n(&exchanged[i], NULL, __ATOMIC_RELAXED));
}
END_TEST

static void *fork_storm(void *argument)
{
    (void)argument;
    (void)run_storm();
    return NULL;
}

/* A child keeps its limits, and counts what it has. */
START_TEST(test_a_forked_child_has_the_limit)
{
    struct hf_limit *limit = begin(MIB);
    void *block = library.malloc(MIB / 2);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, fork_storm, NULL), 0);
    for (int i = 0; i < 10; i++) {
        const pid_t child = fork();
        if (child == 0) {
            const uint64_t before = state_of(limit).used;
            if (before < MIB / 2 || before > MIB || library.malloc(MIB) != NULL)
                _exit(1);
            library.free(block);
            const uint64_t after = state_of(limit).used;
            const uint64_t most = MIB / 2 + (has_guards() ? 80 : 2) * PAGE;
            _exit(before - after >= MIB / 2 && before - after <= most ? 0 : 2);
        }
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    assert_used(limit, MIB / 2);
    library.free(block);
    assert_used(limit, 0);
    ck_assert_int_eq(hf_limit_end(limit), 0);
}
END_TEST

/* ---- objects ---- */

START_TEST(test_which_objects)
{
    struct hf_limit *limit, *second = NULL;
    char directory[4096];
    ck_assert_int_eq(hf_limit_begin(&limit, library_path, MIB, NULL), -ENOENT);
    library = open_library(library_path);
    (void)open_library(plain_path);
    ck_assert_int_eq(hf_limit_begin(&limit, plain_path, MIB, NULL), -EXDEV);
    ck_assert_int_eq(hf_limit_begin(&limit, strrchr(library_path, '/') + 1, MIB, NULL), 0);
    ck_assert_int_eq(hf_limit_begin(&second, library_path, MIB, NULL), -EEXIST);
    ck_assert_ptr_null(library.malloc(2 * MIB));
    ck_assert_int_eq(hf_limit_end(limit), 0);
    /* A directory, also of what is loaded later. */
    strcpy(directory, library_path);
    strrchr(directory, '/')[1] = '\0';
    ck_assert_int_eq(hf_limit_begin(&limit, directory, MIB, NULL), 0);
    const struct library other = open_library(other_path);
    ck_assert_ptr_null(other.malloc(2 * MIB));
    void *half = other.malloc(3 * MIB / 4);
    ck_assert_ptr_null(library.malloc(MIB / 2));
    other.free(half);
    ck_assert_int_eq(hf_limit_end(limit), 0);
    void *block = other.malloc(2 * MIB);
    ck_assert_ptr_nonnull(block);
    other.free(block);
}
END_TEST

/* One without objects is of those that are added, in any number. */
START_TEST(test_objects_may_come_later)
{
    struct hf_limit *limit;
    char directory[64];
    const struct hf_limit_options named = {.size = sizeof named, .name = "later"};
    library = open_library(library_path);
    ck_assert_int_eq(hf_limit_begin(&limit, NULL, MIB, &named), 0);
    ck_assert_str_eq(state_of(limit).name, "later");
    void *block = library.malloc(2 * MIB);
    ck_assert_ptr_nonnull(block);
    assert_used(limit, 0);
    for (int i = 0; i < 40; i++) {
        snprintf(directory, sizeof directory, "/no/such/directory/%d/", i);
        ck_assert_int_eq(hf_limit_add(limit, directory), 0);
    }
    ck_assert_int_eq(hf_limit_add(limit, "/no/such/object.so"), -ENOENT);
    ck_assert_int_eq(hf_limit_add(limit, library_path), 0);
    ck_assert_ptr_null(library.malloc(2 * MIB));
    library.free(block);
    ck_assert_int_eq(hf_limit_end(limit), 0);
    ck_assert_int_eq(hf_limit_begin(&limit, NULL, MIB, NULL), 0);
    ck_assert_int_eq(hf_limit_end(limit), 0);
}
END_TEST

/* As soon as it is adopted. */
START_TEST(test_an_adopted_library)
{
    struct hf_limit *limit;
    library = open_library(plain_path);
    ck_assert_int_gt(hf_adopt(library.handle), 0);
    ck_assert_int_eq(hf_limit_begin(&limit, plain_path, MIB, NULL), 0);
    void *block = library.malloc(MIB / 2);
    assert_used(limit, MIB / 2);
    /* Whoever routes or adopts again leaves its slots as they are. */
    ck_assert_int_eq(hf_adopt(library.handle), 0);
    ck_assert_int_eq(dlclose(open_library(other_path).handle), 0);
    ck_assert_int_ge(hf_route(), 0);
    ck_assert_ptr_null(library.malloc(MIB));
    ck_assert_ptr_null(library.realloc(NULL, MIB));
    ck_assert_ptr_null(library.realloc(block, 2 * MIB));
    ck_assert_ptr_eq(library.new(2 * MIB), (void *)1);
    void *newed = library.new(1000);
    assert_used(limit, MIB / 2 + bytes_of(newed, 1000));
    library.delete(newed);
    library.free(block);
    assert_used(limit, 0);
    ck_assert_int_eq(hf_limit_end(limit), 0);
}
END_TEST

static int count_limits(void *context, const struct hf_limit_state *state)
{
    ck_assert_uint_eq(state->limit, MIB);
    ++*(int *)context;
    return 0;
}

START_TEST(test_what_there_is)
{
    int count = 0;
    struct hf_limit *limit;
    ck_assert_int_eq(hf_limit_each(count_limits, &count), 0);
    ck_assert_int_eq(count, 0);
    limit = begin(MIB);
    ck_assert_int_eq(hf_limit_each(count_limits, &count), 0);
    ck_assert_int_eq(count, 1);
    ck_assert_int_eq(hf_limit_end(limit), 0);
    ck_assert_int_eq(hf_limit_end(NULL), 0);
    ck_assert_int_eq(hf_limit_begin(NULL, library_path, 1, NULL), -EINVAL);
    ck_assert_int_eq(hf_limit_begin(&limit, "", 1, NULL), -EINVAL);
    const struct hf_limit_options wrong = {.size = sizeof wrong, .mode = 3};
    ck_assert_int_eq(hf_limit_begin(&limit, library_path, 1, &wrong), -EINVAL);
}
END_TEST

static int count_samples(const struct hf_profile_sample *sample, void *context)
{
    *(int *)context += strstr(sample->object, "libhomefree") == NULL;
    return 0;
}

/* A profile samples blocks that count, and both are told when they go. */
START_TEST(test_with_a_profile)
{
    ck_assert_int_eq(hf_profile_begin(1000), 0);
    struct hf_limit *limit = begin(MIB);
    void *blocks[1000];
    uint64_t sum = 0;
    for (int i = 0; i < 1000; i++) {
        ck_assert_ptr_nonnull(blocks[i] = library.malloc((size_t)i));
        sum += hf_usable_size(blocks[i]);
    }
    if (!has_guards())
        assert_used(limit, sum);
    int samples = 0;
    ck_assert_int_eq(hf_profile_each(count_samples, &samples), 0);
    ck_assert_int_gt(samples, 100);
    for (int i = 0; i < 1000; i++)
        hf_free(blocks[i]);
    assert_used(limit, 0);
    samples = 0;
    ck_assert_int_eq(hf_profile_each(count_samples, &samples), 0);
    ck_assert_int_eq(samples, 0);
    ck_assert_int_eq(hf_profile_end(), 0);
    ck_assert_int_eq(hf_limit_end(limit), 0);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&library_path, &other_path, &plain_path);
    return RUN_SUITE(
        test_everything_counts_until_it_is_freed, test_others_do_not_count,
        test_other_blocks_grow_within_the_limit, test_a_refused_reallocf_frees_the_block,
        test_an_ended_limit_leaves_nothing, test_what_is_above_is_refused,
        test_a_refused_realloc_leaves_the_block, test_a_limit_of_nothing_and_one_that_changes,
        test_a_callback_is_told_once, test_a_warning_refuses_nothing, test_a_callback_makes_room,
        test_many_threads_at_the_limit, test_it_ends_under_load, test_a_forked_child_has_the_limit,
        test_which_objects, test_objects_may_come_later, test_an_adopted_library,
        test_what_there_is, test_with_a_profile);
}
