/* With checks:hardened, freed blocks wait before they are given out again, also while the heap
 * grows: only more freed blocks end that. */
#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <stdlib.h>

enum { WAITING = 32, FRESH = 400, OTHERS = 1000 };

static int wait_while_it_grows(size_t size)
{
    char *waiting[WAITING];
    for (size_t i = 0; i < WAITING; i++)
        must((waiting[i] = hf_malloc(size)) != NULL);
    for (size_t i = 0; i < WAITING; i++)
        hf_free(waiting[i]);
    for (size_t i = 0; i < OTHERS; i++)
        must(hf_malloc(20000) != NULL);
    for (size_t i = 0; i < FRESH; i++) {
        const char *fresh = hf_malloc(size);
        for (size_t k = 0; k < WAITING; k++)
            must(fresh != waiting[k]);
    }
    return EXIT_SUCCESS;
}

START_TEST(blocks_wait_while_the_heap_grows)
{
    assert_succeeds(OUTCOME_OF_SELF("HOMEFREE_CONF=checks:hardened", "100"));
    assert_succeeds(OUTCOME_OF_SELF("HOMEFREE_CONF=checks:hardened", "300"));
    assert_succeeds(OUTCOME_OF_SELF("HOMEFREE_CONF=checks:hardened", "1500"));
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1)
        return wait_while_it_grows(strtoul(argv[1], NULL, 10));
    return RUN_SUITE(blocks_wait_while_the_heap_grows);
}
