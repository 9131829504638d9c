/*
 * A module that is loaded with RTLD_DEEPBIND, or that alone sees another allocator, goes on freeing
 * its own blocks there: the slot's original is what the slot would have resolved to in the module's
 * scope, also when nothing has resolved it yet.
 *
 * usage: test-deepbind before|after LIBHOMEFREE POOL-USER
 */
#include "modules/user.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <stdio.h>
#include <string.h>

static const struct user *user;
static int *pool_frees;
static void *(*heap_malloc)(size_t size);

static void load_module(const char *path)
{
    void *handle = load(path, RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND);
    user = ((user_function *)symbol_of(handle, "user"))();
    pool_frees = symbol_of(handle, "pool_frees");
}

static void load_homefree(const char *path)
{
    heap_malloc = (void *(*)(size_t))symbol_of(load(path, RTLD_NOW), "hf_malloc");
}

START_TEST(blocks_of_the_pool_go_back_to_the_pool)
{
    int before = *pool_frees;
    user->release(user->acquire(100));
    ck_assert_int_eq(*pool_frees, before + 1);
    char *block = user->acquire(10);
    strcpy(block, "content");
    block = user->resize(block, 1000);
    ck_assert_str_eq(block, "content");
    ck_assert_int_eq(*pool_frees, before + 2);
    user->constant->release(block);
    user->table->release(user->acquire(10));
    ck_assert_int_eq(*pool_frees, before + 4);
}
END_TEST

START_TEST(heap_blocks_go_home)
{
    int before = *pool_frees;
    user->release(heap_malloc(100));
    user->constant->release(heap_malloc(100));
    user->release(user->resize(heap_malloc(10), 1000));
    ck_assert_int_eq(*pool_frees, before);
}
END_TEST

int main(int count, char **arguments)
{
    const char *order, *homefree_path, *module_path;
    TAKE_ARGUMENTS(&order, &homefree_path, &module_path);
    if (strcmp(order, "before") == 0) {
        load_module(module_path);
        load_homefree(homefree_path);
    } else {
        load_homefree(homefree_path);
        load_module(module_path);
    }
    return RUN_TESTS("deepbind", blocks_of_the_pool_go_back_to_the_pool, heap_blocks_go_home);
}
