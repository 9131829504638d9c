/* A buffer that grows by realloc gets most of what the limit on address space leaves: where there
 * is room behind it, it grows without a second range beside the first. */
#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static void limit_address_space(size_t more)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    must(file != NULL && fscanf(file, "%ld", &pages) == 1);
    fclose(file);
    const rlim_t bytes = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + more;
    must(setrlimit(RLIMIT_AS, &(struct rlimit){bytes, bytes}) == 0);
}

static void grow(void *step)
{
    const size_t by = *(const size_t *)step;
    size_t size = 0;
    char *buffer = NULL, *more;
    hf_free(hf_malloc(10));
    limit_address_space(64 * MIB);
    while ((more = hf_realloc(buffer, size + by)) != NULL) {
        buffer = more;
        for (size_t at = 0; at < size; at += MIB / 2)
            must(buffer[at] == (char)(at / MIB + 1));
        for (size_t at = size; at < size + by; at++)
            buffer[at] = (char)(at / MIB + 1);
        size += by;
    }
    must(size >= 48 * MIB);
    hf_free(buffer);
    must((buffer = hf_malloc(40 * MIB)) != NULL);
    memset(buffer, 1, 40 * MIB);
    hf_free(buffer);
}

CALL_TEST(by_large_steps, grow, &(size_t){MIB})
CALL_TEST(by_small_steps, grow, &(size_t){MIB / 16})

int main(void)
{
    return RUN_SUITE(by_large_steps, by_small_steps);
}
