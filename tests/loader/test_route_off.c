/*
 * HOMEFREE_CONF=route:off leaves the process unchanged, and the report says why. Run with that
 * environment.
 *
 * usage: test-route-off USER
 */
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <homefree/homefree.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *user_path;

static void visit(const struct hf_route_entry *entry, void *context)
{
    int *refused = context;
    ck_assert_int_ne(entry->state, HF_ROUTE_CHANGED);
    if (entry->slot != NULL)
        ck_assert_ptr_null(strstr(object_of(*(void *const *)entry->slot), "libhomefree"));
    if (entry->state == HF_ROUTE_REFUSED && strstr(entry->reason, "routing is off") != NULL)
        ++*refused;
}

START_TEST(nothing_is_changed)
{
    int refused = 0;
    struct hf_route_report sums = {.size = sizeof sums};
    ck_assert_int_eq(hf_route(), -EPERM);
    (void)load(user_path, RTLD_NOW);
    ck_assert_int_eq(hf_route(), -EPERM);
    ck_assert_int_eq(hf_route_report(&sums, visit, &refused), 0);
    ck_assert_uint_eq(sums.changed, 0);
    ck_assert_uint_eq(sums.passes, 0);
    ck_assert_int_ge(refused, 10);
    assert_relro_is_read_only();
}
END_TEST

START_TEST(functions_are_libcs)
{
    void (*found)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "free");
    ck_assert_ptr_nonnull(strstr(object_of((void *)found), "libc.so"));
    ck_assert_ptr_eq(found, dlsym(RTLD_DEFAULT, "free"));
    ck_assert_ptr_eq(hf_dlsym(), dlsym);
}
END_TEST

START_TEST(the_heap_works)
{
    char *block = hf_strdup("text");
    ck_assert(hf_owns(block));
    hf_free(hf_realloc(block, 100000));
    hf_free(malloc(10));
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&user_path);
    return RUN_TESTS("route off", nothing_is_changed, functions_are_libcs, the_heap_works);
}
