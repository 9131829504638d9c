/* The profile of a running process is read from outside: the samples, their stacks, and who asked
 * for the blocks; and that there is none. */
#include "death.h"
#include "loader/command/doctor/doctor_live.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 3000, SIZE = 2000, MEAN = 500 };

static __attribute__((noinline)) void *allocate(void)
{
    void *volatile block = hf_malloc(SIZE);
    return block;
}

/* Says when it is ready, and lives until it is killed. */
static pid_t start(bool with_profile)
{
    int ready[2];
    char byte = 0;
    ck_assert_int_eq(pipe(ready), 0);
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        must(!with_profile || hf_profile_begin(MEAN) == 0);
        for (int i = 0; i < BLOCKS; i++)
            must(allocate() != NULL);
        for (int i = 0; i < BLOCKS; i++)
            hf_free(allocate());
        must(write(ready[1], &byte, 1) == 1);
        for (;;)
            (void)pause();
    }
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

struct sum {
    double bytes, blocks;
    size_t samples, here;
    uint64_t stack;
};

static void add(void *context, const struct hf_live_sample *sample)
{
    struct sum *sum = context;
    const char *own = strrchr(own_path(), '/');
    must(sample->python_count == 0);
    if (sample->bytes != SIZE)
        return;
    must(sum->stack == 0 || sample->stack == sum->stack);
    sum->stack = sample->stack;
    sum->bytes += sample->weight_bytes;
    sum->blocks += sample->weight_blocks;
    sum->samples++;
    const uint64_t distance =
        sample->frames_count != 0 ? sample->frames[0] - (uint64_t)(uintptr_t)allocate : 0;
    sum->here += distance < 128 && (sample->frames_count == 0 || strstr(sample->object, own) != 0);
}

static struct sum look(bool with_profile, struct hf_live_profiled *out)
{
    struct hf_live_process process;
    struct sum sum = {0};
    const char *why = "";
    char text[32];
    const pid_t child = start(with_profile);
    snprintf(text, sizeof text, "%d", (int)child);
    ck_assert_int_eq(hf_live_open("test", text, &process), -1);
    ck_assert_msg(hf_doctor_live_profile(&process, add, &sum, out, &why), "%s", why);
    hf_live_close(&process);
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    return sum;
}

START_TEST(test_samples)
{
    struct hf_live_profiled profiled;
    const struct sum sum = look(true, &profiled);
    ck_assert_uint_eq(profiled.mean, MEAN);
    ck_assert_uint_eq(profiled.lost, 0);
    /* 98.2 % of the blocks: a standard error of 0.25 %. */
    ck_assert(sum.blocks > 0.98 * BLOCKS && sum.blocks < 1.02 * BLOCKS);
    ck_assert(sum.bytes > 0.98 * BLOCKS * SIZE && sum.bytes < 1.02 * BLOCKS * SIZE);
    ck_assert_uint_eq(sum.here, sum.samples);
    ck_assert_uint_ge(profiled.samples, sum.samples);
}
END_TEST

START_TEST(test_without_a_profile)
{
    struct hf_live_profiled profiled;
    const struct sum sum = look(false, &profiled);
    ck_assert_uint_eq(profiled.mean, 0);
    ck_assert_uint_eq(sum.samples, 0);
}
END_TEST

int main(void)
{
    return RUN_SUITE(test_samples, test_without_a_profile);
}
