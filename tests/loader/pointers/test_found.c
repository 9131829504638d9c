/*
 * A plugin that is opened with RTLD_DEEPBIND, and needs an allocator that nobody knows, looks for
 * free() by name. It finds the one that its own calls go to, which gets what nobody can place.
 *
 * usage: test-found before|after LIBHOMEFREE PLUGIN
 *   before  the plugin is opened before libhomefree
 */
#include "../serving/plugin.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <string.h>

static const char *order, *homefree_path, *plugin_path;

static const struct plugin *plugin;
static const int *pool_frees;
static void *(*heap_malloc)(size_t size);
static void *(*acquire)(size_t size);

static void load_plugin(void)
{
    void *handle = load(plugin_path, RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND);
    plugin = ((plugin_function *)symbol_of(handle, "plugin"))();
    pool_frees = symbol_of(handle, "pool_frees");
    acquire = (void *(*)(size_t))symbol_of(handle, "malloc");
}

static void set_up(void)
{
    if (strcmp(order, "before") == 0)
        load_plugin();
    heap_malloc = (void *(*)(size_t))symbol_of(load(homefree_path, RTLD_NOW), "hf_malloc");
    if (strcmp(order, "after") == 0)
        load_plugin();
}

START_TEST(the_pools_blocks)
{
    set_up();
    void (*found)(void *) = (void (*)(void *))plugin->find("free");
    void *(*found_realloc)(void *, size_t) = (void *(*)(void *, size_t))plugin->find("realloc");
    const int before = *pool_frees;
    found(acquire(100));
    ck_assert_int_eq(*pool_frees, before + 1);
    char *block = found_realloc(strcpy(acquire(10), "content"), 1000);
    ck_assert_str_eq(block, "content");
    ck_assert_int_eq(*pool_frees, before + 2);
    plugin->release(block);
    ck_assert_int_eq(*pool_frees, before + 3);
}
END_TEST

START_TEST(the_heaps_blocks)
{
    set_up();
    void (*found)(void *) = (void (*)(void *))plugin->find("free");
    void *(*found_realloc)(void *, size_t) = (void *(*)(void *, size_t))plugin->find("realloc");
    const int before = *pool_frees;
    found(found_realloc(heap_malloc(100), 1000));
    ck_assert_int_eq(*pool_frees, before);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&order, &homefree_path, &plugin_path);
    return RUN_TESTS("found", the_pools_blocks, the_heaps_blocks);
}
