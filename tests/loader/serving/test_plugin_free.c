/*
 * A plugin with a stripped jemalloc inside that exports its malloc family, or C++'s operators
 * alone: there is a function to call, so its blocks go home from libc's free() and from homefree's
 * own, and the report says that the plugin stays loaded for that. errno survives.
 *
 * usage: test-plugin-free LIBHOMEFREE PLUGIN USER
 */
#include "../modules/user.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <homefree/homefree.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *homefree_path, *plugin_path, *user_path;

static bool stays;

static void see(const struct hf_route_entry *entry, void *context)
{
    if (entry->reason != NULL && strstr(entry->object, context) != NULL &&
        strstr(entry->reason, "an allocator lives inside: jemalloc") != NULL)
        stays = strstr(entry->reason, "go home") != NULL &&
                strstr(entry->reason, "stays loaded after dlclose()") != NULL;
}

START_TEST(its_blocks_go_home)
{
    void *handle = load(homefree_path, RTLD_NOW);
    void (*free_any)(void *) = (void (*)(void *))symbol_of(handle, "hf_free");
    int (*owner_of)(const void *, struct hf_owner *) =
        (int (*)(const void *, struct hf_owner *))symbol_of(handle, "hf_owner_of");
    int (*report)(struct hf_route_report *, hf_route_visitor *, void *) =
        (int (*)(struct hf_route_report *, hf_route_visitor *, void *))symbol_of(handle,
                                                                                 "hf_route_report");
    void *plugin = load(plugin_path, RTLD_NOW | RTLD_LOCAL);
    const struct user *user = load_user(user_path, RTLD_LAZY);
    void *(*acquire)(size_t) = (void *(*)(size_t))dlsym(plugin, "malloc");
    if (acquire == NULL || strstr(object_of((void *)acquire), plugin_path) == NULL)
        acquire = (void *(*)(size_t))symbol_of(plugin, "_Znwm");
    void (*const releases[])(void *) = {free, free_any, user->release};
    for (int round = 0; round < 100; round++)
        for (size_t i = 0; i < 3; i++)
            for (size_t size = 1; size < 64 << 20; size *= 7) {
                char *block = acquire(size);
                block[0] = block[size - 1] = 1;
                struct hf_owner owner = {.size = sizeof owner};
                if (round == 0 && i == 0) {
                    owner_of(block, &owner);
                    ck_assert_int_eq(owner.kind, HF_OWNER_ALLOCATOR);
                    ck_assert_str_eq(owner.allocator, "jemalloc");
                }
                errno = 42;
                releases[i](block);
                ck_assert_int_eq(errno, 42);
            }
    ck_assert_int_eq(report(NULL, see, (void *)(uintptr_t)strrchr(plugin_path, '/')), 0);
    ck_assert(stays);
    char *block = acquire(100);
    dlclose(plugin);
    free(block);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&homefree_path, &plugin_path, &user_path);
    return RUN_TESTS("plugin free", its_blocks_go_home);
}
