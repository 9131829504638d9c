/* What becomes of the 116 heap errors of kinds.c in each tier of checks: each ends, faults or is
 * prevented where the tier promises that. heap_errors.py in tests/bench prints the numbers, other
 * allocators' too. */
#include "counts.h"

#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <string.h>

static size_t hf_measure(void *ptr)
{
    return hf_usable_size(ptr);
}

static const struct family ours = {
    hf_malloc, hf_calloc, hf_realloc, hf_memalign, hf_free, hf_free_sized, hf_free_aligned_sized,
    hf_measure};

enum { IN_DEFAULT = 57, IN_HARDENED = 116, IN_FULL = 115 };

static int part(enum tier tier, size_t least)
{
    const struct counts counts = count_kinds(&ours, tier);
    must(counts.all == 116 && counts.broken == 0 && counts.hung == 0);
    must(counts.kept >= least);
    return 0;
}

SELF_TEST(by_default, "HOMEFREE_CONF=checks:default", "default")
SELF_TEST(hardened, "HOMEFREE_CONF=checks:hardened", "hardened")
SELF_TEST(full, "HOMEFREE_CONF=checks:full", "full")

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "default") == 0)
        return part(DEFAULT, IN_DEFAULT);
    if (argc > 1 && strcmp(argv[1], "full") == 0)
        return part(FULL, IN_FULL);
    if (argc > 1)
        return part(HARDENED, IN_HARDENED);
    return RUN_SUITE(by_default, hardened, full);
}
