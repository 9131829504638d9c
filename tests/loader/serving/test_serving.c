/*
 * A process whose malloc is another allocator's: linked into the program, preloaded, or wrapped by
 * a library that puts a header before each block. Everything that worked before libhomefree came
 * works after it: who frees calls the same function as before, and homefree's own functions reach
 * that function too. Blocks of the heap go home from everywhere.
 *
 * The cases are from the field: flux-core, falco and oneTBB on RTLD_DEEPBIND under a preloaded
 * allocator; gperftools' and jemalloc's trackers on programs that link them in.
 *
 * usage: test-serving LIBHOMEFREE USER ALLOCATOR
 *   ALLOCATOR  what the report may say lives in the process; "-": nothing that it could name
 */
#include "../blocks.h"
#include "../modules/user.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <homefree/homefree.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *homefree_path, *user_path, *allocator;

static void *(*heap_malloc)(size_t);
static void (*free_any)(void *);
static void *(*realloc_any)(void *, size_t);
static size_t (*measure_any)(const void *);
static bool (*owns)(const void *);
static int (*owner_of)(const void *, struct hf_owner *);
static int (*report)(struct hf_route_report *, hf_route_visitor *, void *);
static const struct user *user;
/* For heap blocks: a program that defines free() calls it without a slot. */
static void (*release_heap)(void *);
static void *(*resize_heap)(void *, size_t);

enum { EARLY = 18 };
static char *early[EARLY];

/* Called through variables, so that the compiler neither pairs nor drops the calls. */
static void *(*volatile allocate)(size_t) = malloc;
static void (*volatile release)(void *) = free;
static void *(*volatile resize)(void *, size_t) = realloc;

static char *block_of(size_t size)
{
    char *block = allocate(size);
    ck_assert_ptr_nonnull(block);
    return memset(block, 1, size);
}

static void set_up(void)
{
    user = load_user(user_path, RTLD_LAZY);
    for (int i = 0; i < EARLY; i++)
        early[i] = block_of((size_t)20 << i);
    void *handle = load(homefree_path, RTLD_NOW);
    heap_malloc = (void *(*)(size_t))symbol_of(handle, "hf_malloc");
    free_any = (void (*)(void *))symbol_of(handle, "hf_free");
    realloc_any = (void *(*)(void *, size_t))symbol_of(handle, "hf_realloc");
    measure_any = (size_t(*)(const void *))symbol_of(handle, "hf_usable_size");
    owns = (bool (*)(const void *))symbol_of(handle, "hf_owns");
    owner_of = (int (*)(const void *, struct hf_owner *))symbol_of(handle, "hf_owner_of");
    report = (int (*)(struct hf_route_report *, hf_route_visitor *, void *))symbol_of(
        handle, "hf_route_report");
    bool own = strcmp(object_of((void *)release), object_of((void *)set_up)) == 0;
    release_heap = own ? user->release : release;
    resize_heap = own ? user->resize : resize;
}

START_TEST(freed_by_everybody)
{
    set_up();
    void (*const releases[])(void *) = {release, user->release, user->constant->release, free_any,
                                        (void (*)(void *))dlsym(RTLD_DEFAULT, "free")};
    enum { COUNT = sizeof releases / sizeof releases[0] };
    for (int i = 0; i < EARLY; i++)
        releases[i % COUNT](early[i]);
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < COUNT; i++)
            for (size_t size = 1; size < 64 << 20; size *= 3) {
                releases[i](block_of(size));
                releases[i](user->acquire(size));
                releases[i](strdup("text"));
                (i == 0 ? release_heap : releases[i])(memset(heap_malloc(size), 1, size));
            }
}
END_TEST

START_TEST(resized_and_measured)
{
    set_up();
    void *(*const resizes[])(void *, size_t) = {resize, user->resize, user->constant->resize,
                                                realloc_any};
    for (size_t i = 0; i < 4; i++)
        for (size_t size = 20; size < 16 << 20; size *= 7) {
            char *block = strcpy(block_of(size), "content");
            ck_assert_uint_ge(measure_any(block), size);
            block = resize_content(resizes[i], block, 3 * size);
            ck_assert(!owns(block));
            block = resize_array_content(user, block, 2, size);
            release(block);
            block = resize_content(i == 0 ? resize_heap : resizes[i],
                                   strcpy(heap_malloc(size), "content"), 3 * size);
            ck_assert(owns(block));
            release_heap(block);
        }
}
END_TEST

START_TEST(libc_inside)
{
    set_up();
    for (int i = 0; i < 10; i++) {
        release(grow_line(block_of(16), 16));
        release_heap(grow_line(heap_malloc(16), 16));
    }
}
END_TEST

START_TEST(new_and_delete)
{
    set_up();
    void *runtime = load("libstdc++.so.6", RTLD_NOW);
    void *(*create)(size_t) = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "_Znwm");
    void (*delete)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "_ZdlPv");
    void (*delete_sized)(void *, size_t) = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "_ZdlPvm");
    if (create == NULL || delete == NULL || delete_sized == NULL) {
        create = (void *(*)(size_t))symbol_of(runtime, "_Znwm");
        delete = (void (*)(void *))symbol_of(runtime, "_ZdlPv");
        delete_sized = (void (*)(void *, size_t))symbol_of(runtime, "_ZdlPvm");
    }
    for (size_t size = 1; size < 64 << 20; size *= 3) {
        delete (memset(create(size), 1, size));
        delete_sized(memset(create(size), 1, size), size);
        delete_sized(heap_malloc(size), size);
        delete (heap_malloc(size));
    }
}
END_TEST

START_TEST(errno_survives)
{
    set_up();
    for (size_t size = 16; size < 200 << 20; size *= 5) {
        char *block = block_of(size);
        errno = 42;
        free_any(block);
        ck_assert_int_eq(errno, 42);
    }
}
END_TEST

static void count_helpless(const struct hf_route_entry *entry, void *context)
{
    if (entry->reason != NULL && strstr(entry->reason, "cannot be sent home") != NULL) {
        fprintf(stderr, "%s: %s\n", entry->object, entry->reason);
        ++*(int *)context;
    }
}

START_TEST(nobody_is_helpless)
{
    set_up();
    int helpless = 0;
    for (size_t size = 1; size < 64 << 20; size *= 3)
        release(block_of(size));
    ck_assert_int_eq(report(NULL, count_helpless, &helpless), 0);
    ck_assert_int_eq(helpless, 0);
    struct hf_owner owner = {.size = sizeof owner};
    char *block = block_of(40 << 20);
    ck_assert_int_eq(owner_of(block, &owner), 0);
    if (strcmp(allocator, "-") != 0) {
        ck_assert_int_eq(owner.kind, HF_OWNER_ALLOCATOR);
        ck_assert_str_eq(owner.allocator, allocator);
    }
    release(block);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&homefree_path, &user_path, &allocator);
    return RUN_TESTS("serving", freed_by_everybody, resized_and_measured, libc_inside,
                     new_and_delete, errno_survives, nobody_is_helpless);
}
