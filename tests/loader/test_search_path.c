/*
 * dlopen() of a name without a slash searches where its caller says: the caller's RPATH (also one
 * that it inherits) or RUNPATH, its $ORIGIN. homefree stands between the two, and must not become
 * the caller. Run with routing on and off: what is found, and what dlerror() says, must be the
 * same.
 *
 * usage: test-search-path FOUND PLAIN RUNPATH RPATH LINKED     (modules/meson.build)
 */
#include "modules/opener.h"
#include "modules/user.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "homefree-found.so"

static const char *found_path, *plain_path, *runpath_path, *rpath_path, *linked_path;

static const struct opener *load_opener(const char *path, const char *function)
{
    return ((opener_function *)symbol_of(load(path, RTLD_NOW), function))();
}

/* Asserts that the module is the one in the directory and, if routing is on, that it is routed. */
static void assert_is_found(const struct opener *opener, void *handle)
{
    ck_assert_msg(handle != NULL, "%s", opener->error());
    struct link_map *map;
    ck_assert_int_eq(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
    ck_assert_ptr_nonnull(strstr(map->l_name, "found/" NAME));
    ck_assert_ptr_null(opener->error());
    const struct user *user = ((user_function *)symbol_of(handle, "user"))();
    if (hf_route() >= 0)
        user->release(hf_malloc(10));
    user->release(user->acquire(10));
}

static void assert_not_found(const struct opener *opener, void *handle)
{
    ck_assert_ptr_null(handle);
    const char *message = opener->error();
    ck_assert_ptr_nonnull(message);
    ck_assert_msg(strstr(message, NAME) != NULL, "%s", message);
    ck_assert_ptr_null(opener->error());
}

static void check(const char *path, const char *function, bool finds)
{
    const struct opener *opener = load_opener(path, function);
    for (int again = 0; again < 2; again++) {
        void *handle = opener->open(NAME, RTLD_NOW);
        if (finds) {
            assert_is_found(opener, handle);
            ck_assert_int_eq(opener->close(handle), 0);
        } else {
            assert_not_found(opener, handle);
        }
        /* With RTLD_NOLOAD the file need not exist, and glibc leaves no error. */
        ck_assert_ptr_null(opener->open(NAME, RTLD_LAZY | RTLD_NOLOAD));
        (void)opener->error();
    }
}

START_TEST(the_runpath_of_the_caller)
{
    check(runpath_path, "opener", true);
}
END_TEST

START_TEST(the_rpath_of_the_caller)
{
    check(rpath_path, "opener", true);
}
END_TEST

START_TEST(the_rpath_of_what_loaded_the_caller)
{
    check(linked_path, "linked", true);
}
END_TEST

START_TEST(no_path_at_all)
{
    check(plain_path, "opener", false);
    ck_assert_ptr_null(dlopen(NAME, RTLD_NOW));
    ck_assert_ptr_nonnull(strstr(dlerror(), NAME));
}
END_TEST

START_TEST(the_origin_of_the_caller)
{
    const struct opener *opener = load_opener(plain_path, "opener");
    const char *const names[] = {"$ORIGIN/found/" NAME, "${ORIGIN}/found/" NAME};
    for (size_t i = 0; i < 2; i++) {
        void *handle = opener->open(names[i], RTLD_NOW);
        assert_is_found(opener, handle);
        opener->close(handle);
    }
    ck_assert_ptr_null(opener->open("$ORIGIN/missing.so", RTLD_NOW));
    ck_assert_ptr_nonnull(strstr(opener->error(), "missing.so"));
}
END_TEST

START_TEST(what_is_loaded_already_is_found_by_its_soname)
{
    void *handle = load(found_path, RTLD_NOW);
    const char *const openers[] = {plain_path, runpath_path, rpath_path};
    for (size_t i = 0; i < 3; i++) {
        const struct opener *opener = load_opener(openers[i], "opener");
        void *again = opener->open(NAME, RTLD_NOW);
        ck_assert_ptr_eq(again, handle);
        ck_assert_ptr_eq(opener->open(NAME, RTLD_NOW | RTLD_NOLOAD), handle);
        opener->close(again);
        opener->close(again);
    }
    ck_assert_ptr_eq(dlopen(NAME, RTLD_NOW), handle);
    dlclose(handle);
    dlclose(handle);
    ck_assert_ptr_null(dlopen(NAME, RTLD_NOW | RTLD_NOLOAD));
}
END_TEST

START_TEST(missing_files)
{
    const char *const openers[] = {plain_path, runpath_path, rpath_path};
    for (size_t i = 0; i < 3; i++) {
        const struct opener *opener = load_opener(openers[i], "opener");
        const char *const names[] = {"homefree-missing.so", "/homefree/missing.so", "./missing.so"};
        for (size_t name = 0; name < 3; name++) {
            ck_assert_ptr_null(opener->open(names[name], RTLD_NOW));
            const char *message = opener->error();
            ck_assert_ptr_nonnull(message);
            ck_assert_msg(strstr(message, names[name]) != NULL, "%s", message);
            ck_assert_msg(strstr(message, "No such file") != NULL, "%s", message);
            ck_assert_ptr_null(opener->error());
        }
        ck_assert_ptr_null(opener->symbol(RTLD_DEFAULT, "homefree_no_such_symbol"));
        ck_assert_ptr_nonnull(strstr(opener->error(), "homefree_no_such_symbol"));
        /* An error that was not fetched does not outlive a success. */
        ck_assert_ptr_null(opener->open("homefree-missing.so", RTLD_NOW));
        ck_assert_ptr_nonnull(opener->open(NULL, RTLD_NOW));
        ck_assert_ptr_null(opener->error());
    }
}
END_TEST

START_TEST(modes)
{
    const struct opener *opener = load_opener(runpath_path, "opener");
    void *program = opener->open(NULL, RTLD_NOW);
    ck_assert_ptr_eq(program, dlopen(NULL, RTLD_LAZY));
    ck_assert_ptr_nonnull(opener->symbol(program, "malloc"));
    ck_assert_ptr_eq(opener->open("", RTLD_NOW), program);
    ck_assert_ptr_null(opener->open(NAME, 0)); /* neither RTLD_LAZY nor RTLD_NOW */
    ck_assert_ptr_nonnull(opener->error());

    void *handle = opener->open(NAME, RTLD_NOW | RTLD_LOCAL);
    ck_assert_ptr_null(opener->symbol(RTLD_DEFAULT, "user"));
    ck_assert_ptr_nonnull(opener->error());
    ck_assert_ptr_eq(opener->open(NAME, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL), handle);
    ck_assert_ptr_nonnull(opener->symbol(RTLD_DEFAULT, "user"));
    ck_assert_ptr_nonnull(dlsym(RTLD_DEFAULT, "user"));
    opener->close(handle);
    opener->close(handle);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&found_path, &plain_path, &runpath_path, &rpath_path, &linked_path);
    return RUN_TESTS("search path", the_runpath_of_the_caller, the_rpath_of_the_caller,
                     the_rpath_of_what_loaded_the_caller, no_path_at_all, the_origin_of_the_caller,
                     what_is_loaded_already_is_found_by_its_soname, missing_files, modes);
}
