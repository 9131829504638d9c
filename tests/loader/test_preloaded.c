/*
 * A process whose malloc is a preloaded jemalloc, with a module on homefree: foreign blocks go to
 * the preloaded allocator, by its own count, and heap blocks do not. Run with
 * LD_PRELOAD=libjemalloc.so.2.
 *
 * usage: test-preloaded USER
 */
#include "modules/user.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *user_path;
static int (*control)(const char *name, void *old, size_t *old_size, void *new, size_t new_size);

/* The bytes that this thread has freed, by jemalloc's count. */
static uint64_t freed(void)
{
    uint64_t bytes = 0;
    size_t size = sizeof bytes;
    ck_assert_int_eq(control("thread.deallocated", &bytes, &size, NULL, 0), 0);
    return bytes;
}

enum { LARGE = 1 << 20 };

static void check(void (*release)(void *ptr))
{
    void *block = malloc(LARGE), *heap = hf_malloc(LARGE);
    ck_assert(!hf_owns(block) && hf_owns(heap));
    uint64_t before = freed();
    release(heap);
    uint64_t between = freed();
    release(block);
    uint64_t after = freed();
    ck_assert_uint_lt(between - before, LARGE);
    ck_assert_uint_ge(after - between, LARGE);
    struct hf_owner owner = {.size = sizeof owner};
    hf_owner_of(heap, &owner);
    ck_assert_ptr_null(owner.block);
}

START_TEST(foreign_blocks_go_to_the_preloaded_allocator)
{
    check(hf_free);
    check((void (*)(void *))dlsym(RTLD_DEFAULT, "free"));
    const struct user *user = load_user(user_path, RTLD_LAZY);
    check(user->release);
    check(user->constant->release);
    void (*volatile direct)(void *) = free;
    check(direct);
}
END_TEST

START_TEST(resizing_stays_with_the_owner)
{
    const struct user *user = load_user(user_path, RTLD_LAZY);
    void *(*const resizes[])(void *, size_t) = {hf_realloc, user->resize, realloc};
    for (size_t i = 0; i < 3; i++) {
        void *block = resizes[i](malloc(100), LARGE);
        ck_assert(!hf_owns(block));
        ck_assert_uint_ge(hf_usable_size(block), LARGE);
        ck_assert_uint_eq(hf_usable_size(block), user->measure(block));
        hf_free(block);
        block = resizes[i](hf_malloc(100), LARGE);
        ck_assert(hf_owns(block));
        free(block);
    }
}
END_TEST

START_TEST(libcs_own_functions)
{
    /* These functions allocate from the preloaded jemalloc; the heap copies the blocks it takes
     * over. */
    for (int i = 0; i < 100; i++) {
        char *path = hf_realpath("/", NULL);
        ck_assert(hf_owns(path));
        free(path);
        hf_free(realpath("/", NULL));
    }
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&user_path);
    control =
        (int (*)(const char *, void *, size_t *, void *, size_t))dlsym(RTLD_DEFAULT, "mallctl");
    if (control == NULL) {
        printf("libjemalloc.so.2 is not installed\n");
        return SKIPPED;
    }
    return RUN_TESTS("preloaded", foreign_blocks_go_to_the_preloaded_allocator,
                     resizing_stays_with_the_owner, libcs_own_functions);
}
