/* A program whose libraries each brought a copy, so that both start before main: one of them is the
 * heap, the other forwards.
 *
 *   test_copies_linked FIRST SECOND   (loaded already; the names only find their handles) */
#include "copies.h"
#include "suite.h"

#include <stdlib.h>

void *allocate_first(size_t size);
void *allocate_second(size_t size);

static const char *paths[2];

START_TEST(one_is_the_heap)
{
    struct copy copies[2];
    for (size_t i = 0; i < 2; i++) {
        void *handle = dlopen(paths[i], RTLD_NOW | RTLD_NOLOAD);
        ck_assert_msg(handle != NULL, "%s is not loaded", paths[i]);
        copies[i] = copy_of(handle);
    }
    uint32_t forwards[2] = {copy_stats(&copies[0]).forwards, copy_stats(&copies[1]).forwards};
    ck_assert_uint_eq(forwards[0] + forwards[1], 1);
    size_t heap = forwards[0] == 0 ? 0 : 1;
    must_be_one_heap(&copies[heap], &copies[1 - heap]);
    /* Calls of the two libraries. */
    void *p = allocate_first(100), *q = allocate_second(100);
    ck_assert(copies[0].owns(p) && copies[0].owns(q));
    copies[1].free(p);
    copies[0].free(q);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&paths[0], &paths[1]);
    return RUN_SUITE(one_is_the_heap);
}
