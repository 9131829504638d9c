/*
 * A plugin that is opened with RTLD_DEEPBIND uses libc's malloc and free in a process that a
 * preloaded allocator serves: one of the oldest reports there are ("free(): invalid pointer" in
 * flux-core, falco, oneTBB, gperftools). Blocks cross both ways, whichever of the plugin and
 * libhomefree came first, also blocks from before either.
 *
 * usage: test-deep before|after LIBHOMEFREE PLUGIN USER
 *   before  the plugin is opened before libhomefree (unless that is preloaded)
 */
#include "../blocks.h"
#include "../modules/user.h"
#include "plugin.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *order, *homefree_path, *plugin_path, *user_path;

static const struct plugin *plugin;
static const struct user *user;
static void *(*heap_malloc)(size_t);
static void (*free_any)(void *);
static void *(*realloc_any)(void *, size_t);
static size_t (*measure_any)(const void *);

static void *(*volatile allocate)(size_t) = malloc;
static void (*volatile release)(void *) = free;
static void *(*volatile resize)(void *, size_t) = realloc;

enum { EARLY = 20, SIZES = 17 };
static char *early[EARLY], *early_of_plugin[EARLY];

static size_t size_of(size_t i)
{
    return (size_t)24 << i % SIZES;
}

static void load_plugin(void)
{
    void *handle = load(plugin_path, RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND);
    plugin = ((plugin_function *)symbol_of(handle, "plugin"))();
    for (size_t i = 0; i < EARLY; i++)
        early_of_plugin[i] = memset(plugin->acquire(size_of(i)), 1, size_of(i));
}

static void set_up(void)
{
    for (size_t i = 0; i < EARLY; i++)
        early[i] = memset(allocate(size_of(i)), 1, size_of(i));
    if (strcmp(order, "before") == 0)
        load_plugin();
    user = load_user(user_path, RTLD_LAZY);
    /* A program that defines free() calls it without a slot. */
    if (strcmp(object_of((void *)release), object_of((void *)set_up)) == 0) {
        release = user->release;
        resize = user->resize;
    }
    void *handle = load(homefree_path, RTLD_NOW);
    heap_malloc = (void *(*)(size_t))symbol_of(handle, "hf_malloc");
    free_any = (void (*)(void *))symbol_of(handle, "hf_free");
    realloc_any = (void *(*)(void *, size_t))symbol_of(handle, "hf_realloc");
    measure_any = (size_t(*)(const void *))symbol_of(handle, "hf_usable_size");
    if (strcmp(order, "after") == 0)
        load_plugin();
}

/* The other tests would prove nothing if both used the same allocator. */
START_TEST(the_plugin_uses_libc)
{
    set_up();
    ck_assert_ptr_nonnull(strstr(object_of(plugin->find_next_to_libc()), "libc.so"));
    ck_assert_ptr_null(strstr(object_of((void *)allocate), "libc.so"));
}
END_TEST

START_TEST(blocks_from_before)
{
    set_up();
    for (size_t i = 0; i < EARLY; i++) {
        if (i % 4 == 0)
            plugin->release(early[i]);
        else if (i % 4 == 1)
            free(plugin->resize(early[i], size_of(i + 1)));
        else if (i % 4 == 2)
            plugin->constant->release(early[i]);
        else
            free_any(early[i]);
        if (i % 4 == 0)
            release(early_of_plugin[i]);
        else if (i % 4 == 1)
            plugin->release(resize(early_of_plugin[i], size_of(i + 1)));
        else if (i % 4 == 2)
            user->release(early_of_plugin[i]);
        else
            free_any(early_of_plugin[i]);
    }
}
END_TEST

START_TEST(theirs_in_the_plugin)
{
    set_up();
    for (size_t i = 0; i < 3000; i++) {
        char *block = memset(allocate(size_of(i)), 1, size_of(i));
        ck_assert_uint_ge(plugin->measure(block), size_of(i));
        if (i % 3 == 0)
            plugin->release(block);
        else if (i % 3 == 1)
            plugin->release(plugin->resize(block, 2 * size_of(i)));
        else
            release(plugin->resize(block, 2 * size_of(i)));
    }
}
END_TEST

START_TEST(the_plugins_outside)
{
    set_up();
    void (*const releases[])(void *) = {release, user->release, user->constant->release, free_any,
                                        (void (*)(void *))dlsym(RTLD_DEFAULT, "free")};
    void *(*const resizes[])(void *, size_t) = {resize, user->resize, realloc_any};
    for (size_t i = 0; i < 3000; i++) {
        char *block = memset(plugin->acquire(size_of(i)), 1, size_of(i));
        ck_assert_uint_ge(user->measure(block), size_of(i));
        ck_assert_uint_ge(measure_any(block), size_of(i));
        block = resizes[i % 3](block, 3 * size_of(i));
        ck_assert_uint_eq((unsigned char)block[size_of(i) - 1], 1);
        releases[i % 5](block);
    }
}
END_TEST

START_TEST(each_its_own_and_the_heaps)
{
    set_up();
    for (size_t i = 0; i < 3000; i++) {
        plugin->release(plugin->acquire(size_of(i)));
        release(allocate(size_of(i)));
        user->release(user->acquire(size_of(i)));
        free_any(allocate(size_of(i)));
        plugin->release(heap_malloc(size_of(i)));
        release(heap_malloc(size_of(i)));
        plugin->release(strdup("libc allocates where the process does"));
    }
}
END_TEST

/* dlsym(RTLD_DEFAULT, …) searches the caller's scope. */
START_TEST(found_by_name)
{
    set_up();
    void (*own)(void *) = (void (*)(void *))plugin->find("free");
    void *(*own_realloc)(void *, size_t) = (void *(*)(void *, size_t))plugin->find("realloc");
    ck_assert(own != NULL && own_realloc != NULL);
    for (size_t i = 0; i < SIZES; i++) {
        own(plugin->acquire(size_of(i)));
        own(own_realloc(plugin->acquire(size_of(i)), 4 * size_of(i)));
        own(allocate(size_of(i)));
        own(heap_malloc(size_of(i)));
    }
    void *(*find)(size_t) = (void *(*)(size_t))plugin->find("malloc");
    own(find(100));
}
END_TEST

static char *allocate_either(unsigned random, size_t size)
{
    return (random >> 20) % 2 == 0 ? allocate(size) : plugin->acquire(size);
}

static void release_either(unsigned random, void *block)
{
    if ((random >> 21) % 2 == 0)
        release(block);
    else
        plugin->release(block);
}

static const struct exchange exchange = {20000, 1 << 20, allocate_either, release_either};

START_TEST(many_threads)
{
    set_up();
    exchange_in_threads(&exchange);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&order, &homefree_path, &plugin_path, &user_path);
    return RUN_TESTS("deep", the_plugin_uses_libc, blocks_from_before, theirs_in_the_plugin,
                     the_plugins_outside, each_its_own_and_the_heaps, found_by_name, many_threads);
}
