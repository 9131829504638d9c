/* When the region is full, every allocating function reports ENOMEM, every block is intact,
 * every free works, and freed memory can be allocated again. */
#include "exhaust.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <stdlib.h>

#define MIB ((size_t)1 << 20)

static int part(size_t size)
{
    struct hf_stats stats = {.size = sizeof stats};
    must(hf_stats(&stats) == 0);
    must(stats.region_reserved == 16 * MIB);
    exhaust_and_go_on(size, 4 * MIB / size);
    /* The next larger size must fit where the smaller blocks were. */
    exhaust_and_go_on(2 * size, 1);
    must(hf_stats(&stats) == 0);
    must(stats.region_used <= stats.region_reserved);
    return 0;
}

#define REGION "HOMEFREE_CONF=region:16M"

SELF_TEST(large_blocks, REGION, "200000")
SELF_TEST(medium_blocks, REGION, "20000")
SELF_TEST(small_blocks, REGION, "64")

int main(int argc, char **argv)
{
    if (argc > 1)
        return part(strtoul(argv[1], NULL, 10));
    return RUN_SUITE(large_blocks, medium_blocks, small_blocks);
}
