/* Pages made present ahead of their use: how much, what becomes present, and where nothing does.
 * Each test runs in a child, because the system is asked once. */
#include "alloc/pages/present.h"

#include "alloc/base/options.h"
#include "alloc/heap/internal.h"
#include "death.h"
#include "suite.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

struct hf_options hf_options;

static char *map(size_t size)
{
    char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(at != MAP_FAILED);
    return at;
}

static size_t resident(char *at, size_t size)
{
    unsigned char present[1024];
    const size_t page = (size_t)getpagesize();
    size_t bytes = 0;
    must(size / page <= sizeof present && mincore(at, size, present) == 0);
    for (size_t i = 0; i < size / page; i++)
        bytes += (present[i] & 1) * page;
    return bytes;
}

static bool is_off(void)
{
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    char text[64] = "";
    const bool off =
        file == NULL || fgets(text, sizeof text, file) == NULL || strstr(text, "[never]") != NULL;
    if (file != NULL)
        fclose(file);
    return off;
}

static void an_eighth(void *unused)
{
    (void)unused;
    must(hf_present_ahead(8 * MIB, 8 * MIB) == 0); /* has not started */
    hf_present_start();
    must(hf_present_ahead(8 * MIB, 8 * MIB) == (is_off() ? 0 : MIB));
    must(hf_present_ahead(MIB - 1, 0) == 0);        /* too small */
    must(hf_present_ahead(8 * MIB, SIZE_MAX) == 0); /* above any limit */
}

static void becomes_present(void *unused)
{
    (void)unused;
    hf_present_start();
    char *at = map(MIB);
    hf_present_make(at, 64 * KIB);
    const bool known = resident(at, MIB) != 0; /* since Linux 5.14 */
    must(resident(at, MIB) == (known ? 64 * KIB : 0));
    hf_present_make(at, MIB);
    must(resident(at, MIB) == (known ? HF_PRESENT_MOST : 0));
}

static void refused(void *unused)
{
    (void)unused;
    char *at = map(64 * KIB);
    hf_present_start();
    must(mprotect(at, 64 * KIB, PROT_NONE) == 0);
    hf_present_make(at, 64 * KIB);
    must(mprotect(at, 64 * KIB, PROT_READ) == 0 && resident(at, 64 * KIB) == 0);
}

static void under_a_limit_on_data(void *unused)
{
    (void)unused;
    const struct rlimit limit = {(rlim_t)1 << 30, (rlim_t)1 << 30};
    must(setrlimit(RLIMIT_DATA, &limit) == 0);
    hf_present_start();
    must(hf_present_ahead(8 * MIB, 8 * MIB) == 0);
}

CALL_TEST(an_eighth_of_what_is_in_use, an_eighth, NULL)
CALL_TEST(pages_become_present, becomes_present, NULL)
CALL_TEST(pages_that_cannot_be_written_stay_absent, refused, NULL)
CALL_TEST(nothing_under_a_limit_on_data, under_a_limit_on_data, NULL)

int main(void)
{
    return RUN_SUITE(an_eighth_of_what_is_in_use, pages_become_present,
                     pages_that_cannot_be_written_stay_absent, nothing_under_a_limit_on_data);
}
