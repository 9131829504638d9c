/*
 * Blocks of a real allocator hidden inside a module go home whoever frees, resizes or measures
 * them, whether the module or libhomefree was loaded first. If the module is stripped, homefree
 * knows what it has mapped since; freeing that elsewhere ends with one line instead of a crash in
 * libc.
 *
 * usage: test-mmap-tracking ORDER LIBHOMEFREE MODULE ALLOCATOR USER
 *   ORDER   before: the module is loaded, and has allocated, before libhomefree comes; or after
 *   MODULE  a stripped one has "stripped" in its name
 */
#include "blocks.h"
#include "death.h"
#include "modules/embedded.h"
#include "modules/user.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *homefree_path, *module_path, *allocator, *user_path;
static bool before, is_stripped;

static int (*owner_of)(const void *ptr, struct hf_owner *out);
static void (*free_any)(void *ptr);
static int (*route_report)(struct hf_route_report *out, hf_route_visitor *visit, void *context);
static const struct embedded *embedded;
static const struct user *user;
static void (*delete)(void *ptr);

enum { EARLY = 12, HUGE = 64 << 20 };
static char *early[EARLY]; /* blocks from before libhomefree, if the module was there */

static char *block_of(size_t size)
{
    char *block = embedded->acquire(size);
    ck_assert_ptr_nonnull(block);
    return memset(block, 1, size);
}

static void set_up(void)
{
    if (before) {
        embedded = ((embedded_function *)symbol_of(load(module_path, RTLD_NOW), "embedded"))();
        user = load_user(user_path, RTLD_LAZY);
        for (int i = 0; i < EARLY; i++)
            early[i] = block_of((size_t)24 << i);
    }
    void *handle = load(homefree_path, RTLD_NOW);
    owner_of = (int (*)(const void *, struct hf_owner *))symbol_of(handle, "hf_owner_of");
    free_any = (void (*)(void *))symbol_of(handle, "hf_free");
    route_report = (int (*)(struct hf_route_report *, hf_route_visitor *, void *))symbol_of(
        handle, "hf_route_report");
    if (!before) {
        embedded = ((embedded_function *)symbol_of(load(module_path, RTLD_NOW), "embedded"))();
        user = load_user(user_path, RTLD_LAZY);
    }
    delete = (void (*)(void *))symbol_of(load("libstdc++.so.6", RTLD_NOW), "_ZdlPv");
}

static void assert_theirs(const void *block)
{
    struct hf_owner owner = {.size = sizeof owner};
    ck_assert_int_eq(owner_of(block, &owner), 0);
    ck_assert_int_eq(owner.kind, HF_OWNER_ALLOCATOR);
    ck_assert_str_eq(owner.allocator, allocator);
    ck_assert_ptr_nonnull(strstr(module_path, strrchr(owner.object, '/')));
}

START_TEST(what_came_before)
{
    set_up();
    for (int i = 0; i < EARLY && before; i++) {
        assert_theirs(early[i]);
        ck_assert_uint_ge(malloc_usable_size(early[i]), (size_t)24 << i);
        if (i % 3 == 0)
            free(early[i]);
        else if (i % 3 == 1)
            user->release(early[i]);
        else
            free(realloc(early[i], (size_t)100 << i));
    }
}
END_TEST

START_TEST(freed)
{
    set_up();
    assert_given_out_again(block_of, HUGE, free);
    assert_given_out_again(block_of, HUGE, free_any);
    assert_given_out_again(block_of, HUGE, user->release);
    assert_given_out_again(block_of, HUGE, user->constant->release);
    assert_given_out_again(block_of, HUGE, delete);
    assert_given_out_again(block_of, HUGE, (void (*)(void *))dlsym(RTLD_DEFAULT, "free"));
}
END_TEST

START_TEST(resized_and_measured)
{
    set_up();
    void *(*const resizes[])(void *, size_t) = {realloc, user->resize, user->constant->resize};
    for (size_t i = 0; i < 3; i++)
        for (size_t size = 20; size < HUGE; size *= 5) {
            char *block = block_of(size);
            ck_assert_uint_eq(malloc_usable_size(block), embedded->measure(block));
            ck_assert_uint_eq(user->measure(block), embedded->measure(block));
            strcpy(block, "content");
            block = resize_content(resizes[i], block, 3 * size);
            assert_theirs(block);
            block = resize_array_content(user, block, 2, size);
            assert_theirs(block);
            free(block);
        }
}
END_TEST

START_TEST(grown_by_libc)
{
    set_up();
    for (int i = 0; i < 20; i++) {
        char *line = grow_line(block_of(16), 16);
        assert_theirs(line);
        free(line);
    }
}
END_TEST

START_TEST(libcs_own_are_not_touched)
{
    set_up();
    for (size_t size = 1; size < HUGE; size *= 3) {
        char *block = calloc(1, size), *text = NULL;
        struct hf_owner owner = {.size = sizeof owner};
        ck_assert_int_eq(owner_of(block, &owner), 0);
        /* Exact: an allocator that moves the program break, too, can be asked. */
        if (is_stripped || !objects_are_found())
            ck_assert_int_ne(owner.kind, HF_OWNER_ALLOCATOR);
        else
            ck_assert_int_eq(owner.kind, HF_OWNER_LIBC);
        free(realloc(block, 2 * size));
        ck_assert_int_gt(asprintf(&text, "%zu", size), 0);
        user->release(text);
        embedded->measure(block_of(size));
    }
}
END_TEST

static char *allocate_either(unsigned random, size_t size)
{
    return (random >> 20) % 3 == 0 ? malloc(size) : embedded->acquire(size);
}

static void free_either(unsigned random, void *block)
{
    (void)random;
    free(block);
}

/* Each of the large blocks is a mapping of its own. */
static const struct exchange exchange = {4000, 4 << 20, allocate_either, free_either};

START_TEST(many_threads)
{
    set_up();
    exchange_in_threads(&exchange);
}
END_TEST

static void free_in_child(void *context)
{
    free(context);
    for (int i = 0; i < 100; i++)
        user->release(embedded->acquire((size_t)i * 100));
    exchange_blocks(&exchange, 0);
}

START_TEST(after_fork)
{
    set_up();
    char *block = block_of(100);
    assert_succeeds(outcome_of_call(free_in_child, block));
    free(block);
}
END_TEST

START_TEST(after_dlclose)
{
    set_up();
    char *block = block_of(100), *large = block_of(HUGE);
    void *handle = load(module_path, RTLD_NOW | RTLD_NOLOAD);
    dlclose(handle);
    dlclose(handle); /* the handle that set_up() opened */
    free(block);
    free(large);
}
END_TEST

/* ---- stripped ---- */

static void free_theirs(void *context)
{
    user->release(context);
}

START_TEST(stripped_it_is_named)
{
    set_up();
    (void)block_of(HUGE);         /* may begin in an older mapping */
    char *block = block_of(HUGE); /* mapped after libhomefree came */
    assert_theirs(block);
    assert_killed(outcome_of_call(free_theirs, block), SIGABRT, "homefree: fatal: free(0x",
                  allocator, "stripped", "called from", "debug file");
}
END_TEST

static void see_leaks(const struct hf_route_entry *entry, void *context)
{
    if (entry->reason != NULL && strstr(entry->reason, "9 of its blocks were leaked") != NULL)
        *(bool *)context = true;
}

static void leak_theirs(void *context)
{
    bool told = false;
    struct hf_route_report report = {.size = sizeof report};
    (void)context;
    for (int i = 0; i < 3; i++) {
        free_any(block_of(HUGE));
        char *moved = user->resize(block_of(HUGE), 10);
        must(moved != NULL && moved[9] == 1);
        user->release(moved);
        must(user->resize(block_of(HUGE), 0) == NULL);
    }
    must(route_report(&report, see_leaks, &told) == 0 && told);
}

START_TEST(stripped_it_is_leaked)
{
    setenv("HOMEFREE_CONF", "unknown_free:leak", 1);
    set_up();
    (void)block_of(HUGE);
    assert_exited(outcome_of_call(leak_theirs, NULL), 0, 1, "homefree: warning: free(0x", allocator,
                  "stripped", "called from", "unknown_free:leak");
}
END_TEST

int main(int count, char **arguments)
{
    const char *order;
    TAKE_ARGUMENTS(&order, &homefree_path, &module_path, &allocator, &user_path);
    before = strcmp(order, "before") == 0;
    is_stripped = strstr(module_path, "stripped") != NULL;
    if (is_stripped)
        need_found_objects();
    if (is_stripped)
        return RUN_TESTS("mmap tracking", stripped_it_is_named, stripped_it_is_leaked,
                         libcs_own_are_not_touched);
    return RUN_TESTS("mmap tracking", what_came_before, freed, resized_and_measured, grown_by_libc,
                     libcs_own_are_not_touched, many_threads, after_fork, after_dlclose);
}
