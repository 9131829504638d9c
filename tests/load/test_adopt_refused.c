/*
 * What cannot be adopted is refused with its own errno, the report says why, and nothing is
 * changed: handles that are none, the program, libc, homefree, an object with an allocator of its
 * own, pages that the system keeps read-only, and a process without routing.
 *
 * usage: test-adopt-refused ALLOCATOR WORKER (HOMEFREE_CONF may say route:off)
 */
#include "modules/worker.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <homefree/homefree.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char *allocator_path, *worker_path;

struct seen {
    const char *path;
    int error;
    char reason[256];
};

static void look(const struct hf_route_entry *entry, void *context)
{
    struct seen *seen = context;
    if (entry->state == HF_ROUTE_REFUSED && entry->error != 0 &&
        strcmp(entry->object, seen->path) == 0) {
        seen->error = entry->error;
        strncpy(seen->reason, entry->reason, sizeof seen->reason - 1);
    }
}

START_TEST(no_handle)
{
    int local;
    ck_assert_int_eq(hf_adopt(NULL), -EINVAL);
    ck_assert_int_eq(hf_adopt(&local), -EINVAL);
    ck_assert_int_eq(hf_adopt((void *)1), -EINVAL);
    void *handle = load(worker_path, RTLD_NOW);
    dlclose(handle);
    ck_assert_int_eq(hf_adopt(handle), -EINVAL);
}
END_TEST

START_TEST(what_is_no_module)
{
    ck_assert_int_eq(hf_adopt(dlopen(NULL, RTLD_NOW)), -ENOTSUP);
    ck_assert_int_eq(hf_adopt(load("libc.so.6", RTLD_NOW)), -ENOTSUP);
    ck_assert_int_eq(hf_adopt(load("libhomefree.so.1", RTLD_NOW)), -ENOTSUP);
}
END_TEST

START_TEST(an_allocator_of_its_own)
{
    void *handle = load(allocator_path, RTLD_NOW);
    struct seen seen = {.path = allocator_path};
    ck_assert_int_eq(hf_route_report(NULL, look, &seen), 0);
    ck_assert_int_eq(seen.error, 0);
    ck_assert_int_eq(hf_adopt(handle), -ENOTSUP);
    ck_assert_int_eq(hf_route_report(NULL, look, &seen), 0);
    ck_assert_int_eq(seen.error, -ENOTSUP);
    ck_assert_ptr_nonnull(strstr(seen.reason, "an allocator of its own"));
    void *(*take)(size_t) = (void *(*)(size_t))symbol_of(handle, "module_take");
    ck_assert(!hf_owns(take(10)));
    dlclose(handle);
    seen = (struct seen){.path = allocator_path};
    ck_assert_int_eq(hf_route_report(NULL, look, &seen), 0);
    ck_assert_int_eq(seen.error, 0);
}
END_TEST

START_TEST(without_routing)
{
    void *handle = load(worker_path, RTLD_NOW);
    ck_assert_int_eq(hf_adopt(handle), -EPERM);
    const struct worker *worker = ((worker_function *)symbol_of(handle, "worker"))();
    void *block = worker->take(10);
    ck_assert(!hf_owns(block));
    free(block);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&allocator_path, &worker_path);
    guard_against_hanging(100);
    const char *conf = getenv("HOMEFREE_CONF");
    bool route_off = conf != NULL && strcmp(conf, "route:off") == 0;
    if (route_off)
        return RUN_TESTS("adopt refused", without_routing);
    return RUN_TESTS("adopt refused", no_handle, what_is_no_module, an_allocator_of_its_own);
}
