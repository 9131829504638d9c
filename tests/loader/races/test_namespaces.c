/*
 * Namespaces come and go between passes, in every order that four of them can: after each step
 * every module that is loaded has its slots routed, and nothing follows a pointer to an object that
 * is gone.
 *
 * usage: test-namespaces USER OTHER
 */
#include "../modules/user.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 4, STEPS = 300 };

static const char *paths[2];
static struct place {
    void *handles[2];
} places[PLACES];

static unsigned random_number(void)
{
    static unsigned state = 12345;
    state = state * 1103515245 + 12345;
    return state >> 16;
}

static void look(const struct hf_route_entry *entry, void *context)
{
    if (entry->state == HF_ROUTE_REFUSED && strstr(entry->object, "user-") != NULL) {
        fprintf(stderr, "%s of %s: %s\n", entry->function, entry->object, entry->reason);
        ++*(int *)context;
    }
}

/* Calls a module's free() through the module's own table, so that no dlsym() of ours interferes. */
static void check(void *handle)
{
    const struct user *user = ((user_function *)symbol_of(handle, "user"))();
    void *block = hf_malloc(1 << 20);
    struct hf_owner owner = {.size = sizeof owner};
    user->release(block);
    hf_owner_of(block, &owner);
    ck_assert_ptr_null(owner.block);
    block = user->resize(hf_malloc(10), 100);
    ck_assert(hf_owns(block));
    user->constant->release(block);
}

static void step(struct place *place)
{
    unsigned which = random_number() % 2;
    Lmid_t id = LM_ID_NEWLM;
    if (place->handles[which] != NULL) {
        ck_assert_int_eq(dlclose(place->handles[which]), 0);
        place->handles[which] = NULL;
        return;
    }
    if (place->handles[1 - which] != NULL)
        ck_assert_int_eq(dlinfo(place->handles[1 - which], RTLD_DI_LMID, &id), 0);
    place->handles[which] = dlmopen(id, paths[which], RTLD_LAZY | RTLD_LOCAL);
    /* A process has room for few namespaces, and for the static TLS of few libcs. */
    if (place->handles[which] == NULL)
        ck_assert_ptr_nonnull(dlerror());
}

START_TEST(every_module_is_routed_after_each_step)
{
    for (int i = 0; i < STEPS; i++) {
        int unrouted = 0;
        step(&places[random_number() % PLACES]);
        ck_assert_int_ge(hf_route(), 0);
        ck_assert_int_eq(hf_route_report(NULL, look, &unrouted), 0);
        ck_assert_msg(unrouted == 0, "%d slots are not routed after step %d", unrouted, i);
        for (int p = 0; p < PLACES; p++)
            for (int w = 0; w < 2; w++)
                if (places[p].handles[w] != NULL)
                    check(places[p].handles[w]);
    }
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&paths[0], &paths[1]);
    need_found_objects();
    guard_against_hanging(60);
    return RUN_TESTS("namespaces", every_module_is_routed_after_each_step);
}
