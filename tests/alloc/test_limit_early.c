/* A process that reaches RLIMIT_DATA before the heap has started all of its parts gets no more
 * blocks, wherever that happens, and goes on. */
#include "exhaust.h"
#include "heap.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <stdio.h>
#include <sys/resource.h>

#define KIB  ((size_t)1 << 10)
#define ROOM (3072 * KIB)

/* Bytes that count towards the limit. */
static size_t data_size(void)
{
    size_t pages[6];
    FILE *file = fopen("/proc/self/statm", "re");
    must(file != NULL);
    for (size_t i = 0; i < 6; i++)
        must(fscanf(file, "%zu", &pages[i]) == 1);
    must(fclose(file) == 0);
    return pages[5] * 4096;
}

static void use_all(void *capacity)
{
    size_t count;
    const size_t size = data_size() + *(size_t *)capacity;
    const struct rlimit limit = {size, size};
    hf_free(hf_malloc(1));
    must(setrlimit(RLIMIT_DATA, &limit) == 0);
    struct link *first = exhaust(700 * KIB, &count);
    check_links(first, count);
    free_links(first);
    must(count == 0 || (first = hf_malloc(700 * KIB)) != NULL);
}

START_TEST(each_capacity_is_used_up)
{
    for (size_t capacity = 0; capacity < ROOM; capacity += 4 * KIB)
        assert_succeeds(outcome_of_call(use_all, &capacity));
}
END_TEST

int main(void)
{
    return RUN_SUITE(each_capacity_is_used_up);
}
