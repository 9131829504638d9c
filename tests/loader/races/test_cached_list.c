/*
 * Routing finds new objects even if the host replaces dl_iterate_phdr() with one that answers from
 * a cache (ClickHouse, Seastar).
 *
 * usage: test-cached-list LIBHOMEFREE MODULE
 */
#include "../modules/user.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

/* Reports counters that never change. */
__attribute__((visibility("default"))) int
dl_iterate_phdr(int (*visit)(struct dl_phdr_info *, size_t, void *), void *context)
{
    struct dl_phdr_info info = {.dlpi_name = "", .dlpi_adds = 5, .dlpi_subs = 0};
    return visit(&info, sizeof info, context);
}

typedef int report_function(struct hf_route_report *out, hf_route_visitor *visit, void *context);

int main(int count, char **arguments)
{
    const char *homefree_path, *user_path;
    TAKE_ARGUMENTS(&homefree_path, &user_path);
    void *handle = load(homefree_path, RTLD_NOW);
    report_function *report = (report_function *)symbol_of(handle, "hf_route_report");
    struct hf_route_report before = {.size = sizeof before}, after = before;
    if (report(&before, NULL, NULL) != 0)
        return 2;
    const struct user *user = load_user(user_path, RTLD_NOW);
    if (report(&after, NULL, NULL) != 0)
        return 2;
    void *(*allocate)(size_t) = (void *(*)(size_t))symbol_of(handle, "hf_malloc");
    user->release(allocate(1 << 20));
    if (after.passes <= before.passes)
        fprintf(stderr, "no pass has seen the new object\n");
    return after.passes > before.passes ? EXIT_SUCCESS : EXIT_FAILURE;
}
