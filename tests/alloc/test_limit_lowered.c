/* Lowering RLIMIT_AS does not stop the heap: what it has, it can return and take again, and up to
 * the limit it gets more, as others do. */
#include "exhaust.h"
#include "heap.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <sys/mman.h>

#define MIB ((size_t)1 << 20)

/* Of 5 and 1 MiB in turns, three times. */
static void use(size_t blocks)
{
    for (int round = 0; round < 3; round++) {
        struct link *first = NULL;
        size_t count = 0;
        for (; count < blocks; count++) {
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

static void limit_to(size_t size)
{
    const struct rlimit limit = {size, RLIM_INFINITY};
    must(setrlimit(RLIMIT_AS, &limit) == 0);
}

static void below_what_it_has(void *unused)
{
    (void)unused;
    use(50);
    limit_to(64 * MIB);
    must(mmap(NULL, MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
    use(40);
}

static void above_what_it_has(void *unused)
{
    (void)unused;
    limit_to(1024 * MIB);
    use(60);
    void *other = mmap(NULL, 256 * MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(other != MAP_FAILED && munmap(other, 256 * MIB) == 0);
    use(60);
}

START_TEST(the_heap_goes_on)
{
    assert_succeeds(outcome_of_call(below_what_it_has, NULL));
    assert_succeeds(outcome_of_call(above_what_it_has, NULL));
}
END_TEST

int main(void)
{
    return RUN_SUITE(the_heap_goes_on);
}
