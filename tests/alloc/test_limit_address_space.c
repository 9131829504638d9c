/* The heap works in a process with little address space (ulimit -v): it takes part of it,
 * reports ENOMEM when that is used up, loses nothing, and goes on once memory is freed. */
#include "exhaust.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <stdio.h>
#include <stdlib.h>

#define MIB ((size_t)1 << 20)

static int part(size_t size)
{
    struct hf_stats stats = {.size = sizeof stats};
    must(hf_stats(&stats) == 0);
    must(stats.region_reserved <= 256 * MIB);
    must(stats.region_reserved >= 64 * MIB);
    exhaust_and_go_on(size, stats.region_reserved / 4 / size);
    exhaust_and_go_on(size / 2, stats.region_reserved / 4 / size);
    return 0;
}

static void run_part(const char *size)
{
    const char *const arguments[] = {own_path(), size, NULL};
    const struct program program = {.arguments = arguments, .address_space = 512 * MIB};
    struct outcome outcome;
    outcome_of_program(&outcome, &program);
    assert_exited(&outcome, 0, 0, "");
}

START_TEST(large_blocks)
{
    run_part("1048576");
}
END_TEST

START_TEST(medium_blocks)
{
    run_part("20000");
}
END_TEST

START_TEST(small_blocks)
{
    run_part("200");
}
END_TEST

/* Too little for any heap: the process ends with one line and does not crash. */
START_TEST(no_room_for_a_heap)
{
    const char *const arguments[] = {own_path(), "100", NULL};
    const struct program program = {.arguments = arguments, .address_space = 16 * MIB};
    struct outcome outcome;
    outcome_of_program(&outcome, &program);
    assert_killed(&outcome, 6, "homefree: fatal: ", "ulimit -v");
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1)
        return part(strtoul(argv[1], NULL, 10));
    return RUN_SUITE(large_blocks, medium_blocks, small_blocks, no_room_for_a_heap);
}
