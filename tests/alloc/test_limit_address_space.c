/* The heap works in a process with little address space (ulimit -v): it reports ENOMEM
 * when that is used up, loses nothing, and goes on once memory is freed. */
#include "exhaust.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <stdlib.h>

#define MIB ((size_t)1 << 20)

static int part(size_t size)
{
    if (size >= 256 * MIB) {
        char *block = hf_malloc(size);
        must(block != NULL && hf_owns(block) && hf_owns(block + size - 1));
        hf_free(block);
        return 0;
    }
    exhaust_and_go_on(size, 192 * MIB / size);
    exhaust_and_go_on(size / 2, 192 * MIB / size);
    return 0;
}

static void run_part(const char *size, size_t address_space)
{
    const char *const arguments[] = {own_path(), size, NULL};
    const struct program program = {.arguments = arguments, .address_space = address_space};
    struct outcome outcome;
    outcome_of_program(&outcome, &program);
    assert_exited(&outcome, 0, 0, "");
}

START_TEST(large_blocks)
{
    run_part("1048576", 320 * MIB);
}
END_TEST

START_TEST(medium_blocks)
{
    run_part("20000", 320 * MIB);
}
END_TEST

START_TEST(small_blocks)
{
    run_part("200", 320 * MIB);
}
END_TEST

/* As without homefree: most of what there is, in one block. */
START_TEST(most_of_it)
{
    run_part("402653184", 512 * MIB);
}
END_TEST

/* Too little for any heap: the process ends with one line and does not crash. */
START_TEST(no_capacity_for_a_heap)
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
    return RUN_SUITE(large_blocks, medium_blocks, small_blocks, most_of_it, no_capacity_for_a_heap);
}
