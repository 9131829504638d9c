/* Lowering RLIMIT_AS below what is mapped already does not stop the heap: the region was
 * reserved earlier, so the heap can return pages and take them again. */
#include "exhaust.h"
#include "heap.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <sys/mman.h>

#define MIB ((size_t)1 << 20)

static void go_on(void *unused)
{
    (void)unused;
    const struct rlimit limit = {64 * MIB, 64 * MIB};
    hf_free(hf_malloc(100));
    must(setrlimit(RLIMIT_AS, &limit) == 0);
    must(mmap(NULL, MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
    for (int round = 0; round < 3; round++) {
        struct link *first = NULL;
        size_t count = 0;
        for (; count < 100; count++) {
            size_t size = count % 2 == 0 ? MIB : 5 * MIB;
            struct link *link = hf_malloc(size);
            must(link != NULL);
            *link = (struct link){first, size};
            memset(link->bytes, (int)(count % 251), size - sizeof *link);
            first = link;
        }
        check_links(first, count);
        free_links(first);
        for (size_t i = 0; i < 10000; i++)
            hf_free(hf_calloc(1, i * 7));
    }
}

START_TEST(the_heap_goes_on)
{
    if (stats_now().region_reserved < 1024 * MIB)
        return; /* a limit is set already */
    assert_succeeds(outcome_of_call(go_on, NULL));
}
END_TEST

int main(void)
{
    return RUN_SUITE(the_heap_goes_on);
}
