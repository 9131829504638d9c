/*
 * The constructors of a second dlopen() run before any pass of routing can have seen their object:
 * what they free of the heap comes home nevertheless, by every way of calling, and what they map as
 * an allocator is known to be theirs.
 *
 * usage: test-constructor LIBHOMEFREE MODULE
 * This program does not link libhomefree: it is loaded late, unless it is preloaded.
 */
#include "born.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGE = 1 << 20 };

__attribute__((visibility("default"))) struct gift gift;

static const char *module;
static struct {
    void *(*malloc)(size_t size);
    bool (*owns)(const void *ptr);
    int (*owner_of)(const void *ptr, struct hf_owner *out);
} hf;

static void assert_gone(const void *block, const char *how)
{
    struct hf_owner owner = {.size = sizeof owner};
    ck_assert_int_eq(hf.owner_of(block, &owner), 0);
    ck_assert_msg(owner.block == NULL, "the constructor's %s did not go home", how);
}

START_TEST(what_a_constructor_frees_goes_home)
{
    void *called = gift.called = hf.malloc(LARGE), *pointed = gift.pointed = hf.malloc(LARGE);
    void *threaded = gift.threaded = hf.malloc(LARGE), *deleted = gift.deleted = hf.malloc(LARGE);
    gift.resized = hf.malloc(100);
    strcpy(gift.resized, "content");
    gift.resized_to = 2 * LARGE;
    load(module, RTLD_LAZY);
    ck_assert_int_eq(gift.ran, 1);
    assert_gone(called, "free");
    assert_gone(pointed, "pointer to free");
    assert_gone(threaded, "free in a thread");
    assert_gone(deleted, "operator delete");
    ck_assert(hf.owns(gift.resized));
    ck_assert_str_eq(gift.resized, "content");
    free(gift.resized);
}
END_TEST

START_TEST(what_a_constructor_maps_is_known)
{
    struct hf_owner owner = {.size = sizeof owner};
    load(module, RTLD_LAZY);
    ck_assert_int_eq(gift.ran, 1);
    ck_assert_int_eq(hf.owner_of((char *)gift.mapped + BORN_MAPPED - 1, &owner), 0);
    ck_assert_int_eq(owner.kind, HF_OWNER_ALLOCATOR);
    ck_assert_str_eq(owner.allocator, "mimalloc");
    ck_assert_ptr_nonnull(strstr(owner.object, module));
}
END_TEST

int main(int count, char **arguments)
{
    const char *homefree_path;
    TAKE_ARGUMENTS(&homefree_path, &module);
    guard_against_hanging(60);
    void *handle = load(homefree_path, RTLD_NOW);
    hf.malloc = (void *(*)(size_t))symbol_of(handle, "hf_malloc");
    hf.owns = (bool (*)(const void *))symbol_of(handle, "hf_owns");
    hf.owner_of = (int (*)(const void *, struct hf_owner *))symbol_of(handle, "hf_owner_of");
    if (!objects_are_found())
        return RUN_TESTS("constructor", what_a_constructor_frees_goes_home);
    return RUN_TESTS("constructor", what_a_constructor_frees_goes_home,
                     what_a_constructor_maps_is_known);
}
