/*
 * Blocks of a foreign allocator that can tell what it owns go home to it through every function of
 * homefree, and a module that calls that allocator by name may pass it a heap block.
 *
 * usage: test-foreign-allocators ALLOCATOR LIBRARY ASKER USER
 */
#include "blocks.h"
#include "heap.h"
#include "modules/asker.h"
#include "modules/user.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *allocator, *library, *asker_path, *user_path;
static const char *prefix;

static void *(*their_malloc)(size_t size);
static size_t (*their_size)(const void *ptr);
static bool (*their_owns)(const void *ptr);
static int (*their_ownership)(const void *ptr);

enum { LARGE = 1 << 20 };

static void *theirs(const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return symbol_of(load(library, RTLD_NOW | RTLD_NOLOAD), full);
}

static void set_up(void)
{
    (void)load(library, RTLD_NOW | RTLD_LOCAL);
    prefix = strcmp(allocator, "mimalloc") == 0 ? "mi_" : "tc_";
    their_malloc = (void *(*)(size_t))theirs("malloc");
    their_size = (size_t(*)(const void *))theirs(prefix[0] == 'm' ? "usable_size" : "malloc_size");
    void *handle = load(library, RTLD_NOW | RTLD_NOLOAD);
    their_owns = (bool (*)(const void *))dlsym(handle, "mi_is_in_heap_region");
    their_ownership = (int (*)(const void *))dlsym(handle, "MallocExtension_GetOwnership");
}

/* Returns a block that the foreign allocator calls its own. */
static char *block_of(size_t size)
{
    char *block = their_malloc(size);
    ck_assert_ptr_nonnull(block);
    ck_assert(!hf_owns(block));
    ck_assert(their_owns != NULL ? their_owns(block) : their_ownership(block) == 1);
    return block;
}

START_TEST(its_blocks_have_a_named_owner)
{
    set_up();
    struct hf_owner owner = {.size = sizeof owner};
    void *block = block_of(100);
    ck_assert_int_eq(hf_owner_of(block, &owner), 0);
    ck_assert_int_eq(owner.kind, HF_OWNER_ALLOCATOR);
    ck_assert_str_eq(owner.allocator, allocator);
    ck_assert_ptr_nonnull(strstr(owner.object, library));
    hf_free(block);
}
END_TEST

START_TEST(its_blocks_go_home)
{
    set_up();
    assert_given_out_again(block_of, LARGE, hf_free);
    assert_given_out_again(block_of, LARGE, free);
    const struct user *user = load_user(user_path, RTLD_LAZY);
    assert_given_out_again(block_of, LARGE, user->release);
    assert_given_out_again(block_of, LARGE, user->constant->release);
    assert_given_out_again(block_of, LARGE, (void (*)(void *))dlsym(RTLD_DEFAULT, "free"));
}
END_TEST

START_TEST(its_blocks_are_resized_and_measured_by_it)
{
    set_up();
    const struct user *user = load_user(user_path, RTLD_LAZY);
    void *(*const resizes[])(void *, size_t) = {hf_realloc, realloc, user->resize};
    size_t (*const measures[])(void *) = {(size_t(*)(void *))hf_usable_size, user->measure};
    for (size_t i = 0; i < 3; i++) {
        char *block = block_of(10);
        strcpy(block, "content");
        block = resizes[i](block, LARGE);
        ck_assert(!hf_owns(block));
        ck_assert(their_owns != NULL ? their_owns(block) : their_ownership(block) == 1);
        ck_assert_str_eq(block, "content");
        for (size_t m = 0; m < 2; m++)
            ck_assert_uint_eq(measures[m](block), their_size(block));
        block = user->resize_array(block, 3, LARGE);
        ck_assert(their_owns != NULL ? their_owns(block) : their_ownership(block) == 1);
        ck_assert_str_eq(block, "content");
        hf_free(block);
    }
}
END_TEST

START_TEST(others_blocks_are_not_taken_for_its)
{
    set_up();
    for (size_t size = 1; size < LARGE; size *= 2) {
        hf_free(malloc(size));
        void *volatile block = malloc(size);
        free(realloc(block, 2 * size));
        free(hf_malloc(size));
    }
}
END_TEST

START_TEST(called_by_name_it_is_given_heap_blocks)
{
    set_up();
    const struct asker *asker =
        ((asker_function *)symbol_of(load(asker_path, RTLD_LAZY), "asker"))();
    for (int again = 0; again < 2; again++) {
        void *block = hf_malloc(LARGE);
        asker->release(block);
        assert_gone(block);
        block = asker->resize(hf_malloc(10), LARGE);
        ck_assert(hf_owns(block));
        asker->release(block);
        asker->release(block_of(100));
        asker->release(asker->resize(block_of(100), LARGE));
        asker->release(NULL);
    }
}
END_TEST

START_TEST(found_by_name_in_the_callers_own_scope)
{
    /* Only the module loaded the allocator, so the name exists only in the module's scope. */
    const struct asker *asker =
        ((asker_function *)symbol_of(load(asker_path, RTLD_LAZY), "asker"))();
    set_up();
    char name[16];
    snprintf(name, sizeof name, "%sfree", prefix);
    void (*found)(void *) = (void (*)(void *))asker->find(name);
    ck_assert_msg(found != NULL, "%s", dlerror());
    found(block_of(100));
    found(hf_malloc(100));
    found = (void (*)(void *))theirs("free");
    found(hf_malloc(100));
    found(block_of(100));
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&allocator, &library, &asker_path, &user_path);
    /* Each test runs in a process of its own, which begins without the allocator. */
    char command[512];
    snprintf(command, sizeof command, "LD_PRELOAD='%s' /bin/true 2>&1 | grep -q ignored", library);
    if (system(command) == 0) {
        printf("%s is not installed\n", library);
        return SKIPPED;
    }
    return RUN_TESTS("foreign allocators", its_blocks_have_a_named_owner, its_blocks_go_home,
                     its_blocks_are_resized_and_measured_by_it, others_blocks_are_not_taken_for_its,
                     called_by_name_it_is_given_heap_blocks,
                     found_by_name_in_the_callers_own_scope);
}
