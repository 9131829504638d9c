/*
 * hf_trim() makes an allocator that came late, libc and homefree give back what nobody uses.
 *
 * usage: test-trim ALLOCATOR LIBRARY PREFIX FUNCTION
 */
#include "death.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <homefree/homefree.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
enum { SIZE = 4000, COUNT = 16384 }; /* 64 MB */

static const char *allocator, *library, *prefix, *function;

static size_t resident(void)
{
    char text[128], *rest;
    FILE *statm = fopen("/proc/self/statm", "re");
    ck_assert(statm != NULL && fgets(text, sizeof text, statm) != NULL && fclose(statm) == 0);
    (void)strtoul(text, &rest, 10);
    return strtoul(rest, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

/* All are freed but the last, behind which nothing could be given back otherwise. */
static void *leave_unused(void *(*their_malloc)(size_t), void (*their_free)(void *))
{
    static void *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        ck_assert_ptr_nonnull(blocks[i] = their_malloc(SIZE));
        memset(blocks[i], 1, SIZE);
    }
    for (size_t i = 0; i < COUNT - 1; i++)
        their_free(blocks[i]);
    return blocks[COUNT - 1];
}

struct seen {
    unsigned theirs, homefree, libc;
    bool ordered;
};

static void see(const struct hf_trimmed *trimmed, void *context)
{
    struct seen *seen = context;
    ck_assert(trimmed->before != 0 && trimmed->after != 0);
    if (strcmp(trimmed->allocator, "libc") == 0) {
        seen->libc++;
        ck_assert_ptr_null(trimmed->object);
        ck_assert_str_eq(trimmed->how, "malloc_trim");
    } else if (strcmp(trimmed->allocator, "homefree") == 0) {
        seen->homefree++;
        ck_assert_ptr_null(trimmed->object);
        seen->ordered = seen->libc == 0;
    } else if (strcmp(trimmed->allocator, allocator) == 0 && trimmed->how != NULL) {
        seen->theirs++;
        ck_assert_ptr_nonnull(strstr(trimmed->object, library));
        ck_assert_str_eq(trimmed->how, function);
    }
}

START_TEST(each_allocator_is_told_of)
{
    struct seen seen = {0};
    (void)load(library, RTLD_NOW | RTLD_LOCAL);
    ck_assert_int_eq(hf_trim(see, &seen), 0);
    ck_assert(seen.theirs == 1 && seen.homefree == 1 && seen.libc == 1 && seen.ordered);
}
END_TEST

START_TEST(a_late_allocator_gives_back)
{
    char name[32];
    void *handle = load(library, RTLD_NOW | RTLD_LOCAL);
    snprintf(name, sizeof name, "%smalloc", prefix);
    void *(*their_malloc)(size_t) = (void *(*)(size_t))symbol_of(handle, name);
    snprintf(name, sizeof name, "%sfree", prefix);
    void (*their_free)(void *) = (void (*)(void *))symbol_of(handle, name);
    const size_t before = resident();
    void *last = leave_unused(their_malloc, their_free);
    ck_assert_int_eq(hf_trim(NULL, NULL), 0);
    ck_assert_uint_lt(resident(), before + 24 * MIB);
    their_free(last);
}
END_TEST

static void add_live(const struct hf_other_stats *stats, void *context)
{
    if (strstr(stats->object, library) != NULL) {
        ck_assert_str_eq(stats->allocator, allocator);
        *(uint64_t *)context = stats->live;
    }
}

static uint64_t told_live(void)
{
    uint64_t live = 0;
    ck_assert_int_eq(hf_stats_of_others(add_live, &live), 0);
    return live;
}

/* jemalloc alone has such a function. */
START_TEST(a_late_allocator_tells_what_is_live)
{
    void *handle = load(library, RTLD_NOW | RTLD_LOCAL);
    if (strcmp(function, "mallctl") != 0) {
        ck_assert_uint_eq(told_live(), 0);
        return;
    }
    void *(*their_malloc)(size_t) = (void *(*)(size_t))symbol_of(handle, "malloc");
    void (*their_free)(void *) = (void (*)(void *))symbol_of(handle, "free");
    const uint64_t before = told_live();
    void *block = their_malloc(8 * MIB);
    ck_assert_uint_ge(told_live(), before + 8 * MIB);
    ck_assert_uint_lt(told_live(), before + 9 * MIB);
    their_free(block);
    ck_assert_uint_lt(told_live(), before + MIB);
}
END_TEST

START_TEST(libc_gives_back)
{
    const size_t before = resident();
    void *last = leave_unused(malloc, free);
    ck_assert_uint_gt(resident(), before + 32 * MIB);
    ck_assert_int_eq(hf_trim(NULL, NULL), 0);
    ck_assert_uint_lt(resident(), before + 8 * MIB);
    free(last);
}
END_TEST

START_TEST(the_heap_gives_back)
{
    const size_t before = resident();
    hf_free(leave_unused(hf_malloc, hf_free));
    ck_assert_int_eq(hf_trim(NULL, NULL), 0);
    ck_assert_uint_lt(resident(), before + 4 * MIB);
}
END_TEST

static void count(const struct hf_trimmed *trimmed, void *context)
{
    *(unsigned *)context += trimmed->before != 0 && trimmed->after != 0;
}

/* It looks as if jemalloc lived here: it maps memory, gives some back, and has such a name. */
void named_mallctl(void);
void named_mallctl(void)
{
    char *pages = mmap(NULL, MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(pages != MAP_FAILED && madvise(pages, MIB, MADV_DONTNEED) == 0);
    ck_abort_msg("was called by its name");
}

START_TEST(what_has_the_name_alone_is_not_called)
{
    ck_assert_int_eq(hf_trim(NULL, NULL), 0);
}
END_TEST

static void *trim_cancelled(void *seen)
{
    must(pthread_cancel(pthread_self()) == 0);
    must(hf_trim(count, seen) == 0);
    return seen;
}

/* The file that it opens meanwhile would stay open. */
START_TEST(nobody_is_cancelled_inside)
{
    unsigned seen = 0;
    pthread_t thread;
    void *result;
    must(pthread_create(&thread, NULL, trim_cancelled, &seen) == 0);
    must(pthread_join(thread, &result) == 0);
    ck_assert_ptr_eq(result, &seen);
    ck_assert_uint_ge(seen, 2);
}
END_TEST

static void see_nothing(const struct hf_trimmed *trimmed, void *context)
{
    ck_assert(trimmed->before == 0 && trimmed->after == 0);
    ++*(unsigned *)context;
}

START_TEST(no_descriptor_is_left)
{
    unsigned seen = 0;
    struct rlimit none;
    must(getrlimit(RLIMIT_NOFILE, &none) == 0);
    none.rlim_cur = 0;
    must(setrlimit(RLIMIT_NOFILE, &none) == 0);
    errno = ENOTTY;
    ck_assert_int_eq(hf_trim(see_nothing, &seen), 0);
    ck_assert_int_eq(errno, ENOTTY);
    ck_assert_uint_ge(seen, 2);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    allocator = argv[1];
    library = argv[2];
    prefix = argv[3];
    function = argv[4];
    return RUN_SUITE(each_allocator_is_told_of, a_late_allocator_gives_back,
                     a_late_allocator_tells_what_is_live, libc_gives_back, the_heap_gives_back,
                     what_has_the_name_alone_is_not_called, nobody_is_cancelled_inside,
                     no_descriptor_is_left);
}
