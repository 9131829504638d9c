/* A copy in a second namespace (dlmopen, with a libc of its own) forwards to the heap in the first,
 * and the other way round; libc's pointers go home to the libc of the copy that is asked.
 *
 *   test_copies_namespace FIRST SECOND */
#include "copies.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>

static const char *paths[2];

static void renamed_apart(void *unused)
{
    (void)unused;
    struct copy base = copy_open(paths[0]), apart = copy_open_apart(paths[1]);
    struct copy second = copy_open(paths[1]);
    must_be_one_heap(&base, &apart);
    must_be_one_heap(&base, &second);
    must_share(&apart, &second);
}

static void each_libc_gets_its_own(void *unused)
{
    (void)unused;
    struct copy base = copy_open(paths[0]), apart = copy_open_apart(paths[0]);
    void *(*their_malloc)(size_t);
    size_t (*their_usable_size)(void *);
    *(void **)&their_malloc = dlsym(apart.handle, "malloc");
    *(void **)&their_usable_size = dlsym(apart.handle, "malloc_usable_size");
    must(their_malloc != NULL && their_usable_size != NULL);
    must(their_malloc != malloc);
    for (int i = 0; i < 1000; i++) {
        void *theirs = their_malloc(1000), *ours = malloc(1000);
        must(!apart.owns(theirs) && !base.owns(ours));
        must(apart.usable_size(theirs) == their_usable_size(theirs));
        apart.free(apart.realloc(theirs, 2000));
        base.free(base.realloc(ours, 2000));
    }
}

START_TEST(one_heap_in_either_order)
{
    assert_one_heap_in_either_order((struct opening){copy_open, &paths[0]},
                                    (struct opening){copy_open_apart, &paths[0]});
    must_succeed(renamed_apart);
}
END_TEST

CALL_TEST(foreign_pointers_stay_in_their_namespace, each_libc_gets_its_own, NULL)

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&paths[0], &paths[1]);
    /* This function came with the glibc that makes other namespaces visible. */
    if (dlsym(RTLD_DEFAULT, "_dl_find_object") == NULL) {
        printf("skipped: other namespaces are invisible before glibc 2.35\n");
        return SKIPPED;
    }
    return RUN_SUITE(one_heap_in_either_order, foreign_pointers_stay_in_their_namespace);
}
