/* A profile from the process's start on, one with little address space, and one in which a write
 * past a sampled block's end is found. (test_corruption, too, runs with a profile.) */
#include "looking.h"
#include "suite.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void from_the_start(void)
{
    void *block = hf_malloc(3000);
    must(look_for(block).samples == 1);
    must(hf_profile_begin(100) == -EBUSY);
    must(hf_profile_end() == 0);
    void *other = hf_malloc(3000);
    must(look_for(other).samples == 0 && look_for(block).samples == 1);
    hf_free(other);
    hf_free(block);
}
SELF_TEST(test_from_the_start, "HOMEFREE_CONF=profile:1", "from the start")

static void write_past_the_end(void)
{
    char *volatile block = hf_malloc(300);
    must(look_for(block).samples == 1);
    memset(block, 1, 310);
    hf_free(block);
}
START_TEST(test_write_past_the_end)
{
    assert_killed(OUTCOME_OF_SELF("HOMEFREE_CONF=profile:1,checks:hardened", "past the end"),
                  SIGABRT, "a write ran past the 300 bytes");
}
END_TEST

/* Where there is not enough address space for all that may be sampled, less is. */
static void limited(void *unused)
{
    enum { SMALL = 24 << 20 };
    unsigned long pages = 0;
    (void)unused;
    must(hf_profile_begin(0) == -EINVAL);
    FILE *file = fopen("/proc/self/statm", "r");
    must(file != NULL && fscanf(file, "%lu", &pages) == 1 && fclose(file) == 0);
    const rlim_t now = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
    must(setrlimit(RLIMIT_AS, &(struct rlimit){now + SMALL, RLIM_INFINITY}) == 0);
    must(hf_profile_begin(EVERY) == 0);
    void *block = hf_malloc(1000);
    must(look_for(block).samples == 1);
    hf_free(block);
    must(look_for(NULL).samples == 0 && hf_profile_end() == 0);
}
CALL_TEST(test_limited, limited, NULL)

static void many_more_than_fit(void *unused)
{
    enum { MANY = 600000 };
    static void *blocks[MANY];
    (void)unused;
    must(hf_profile_begin(EVERY) == 0);
    for (size_t i = 0; i < MANY; i++)
        must((blocks[i] = hf_malloc(LARGE_ENOUGH)) != NULL);
    const size_t most = look_for(NULL).samples;
    must(most >= 100000 && most < MANY);
    for (size_t i = 0; i < MANY; i++)
        hf_free(blocks[i]);
    must(look_for(NULL).samples == 0);
    void *block = hf_malloc(1000);
    must(look_for(block).samples == 1);
    hf_free(block);
    must(hf_profile_end() == 0);
}
CALL_TEST(test_many_more_than_fit, many_more_than_fit, NULL)

int main(int count, char **arguments)
{
    if (count > 1) {
        (strcmp(arguments[1], "from the start") == 0 ? from_the_start : write_past_the_end)();
        return 0;
    }
    return RUN_SUITE(test_from_the_start, test_write_past_the_end, test_limited,
                     test_many_more_than_fit);
}
