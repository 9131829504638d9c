/* HOMEFREE_CONF takes effect in a whole process: a wrong item, or one of a former release, costs
 * one line and nothing else, each option's extremes leave a working heap, and jemalloc's own
 * variables do nothing. */
#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)

/* Uses the heap a little, then compares its region, in MiB, with the argument ("-" matches any). */
static int part(const char *region)
{
    static void *blocks[3000];
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 3000; i++) {
            size_t size = i % 100 == 0 ? 100000 : i;
            blocks[i] = i % 2 == 0 ? hf_malloc(size) : hf_calloc(1, size);
            must(blocks[i] != NULL && hf_owns(blocks[i]));
            memset(blocks[i], 1, size);
        }
        for (size_t i = 0; i < 3000; i++)
            hf_free(blocks[i]);
    }
    struct hf_stats stats = {.size = sizeof stats};
    must(hf_stats(&stats) == 0);
    if (strcmp(region, "-") != 0)
        must(stats.region_reserved == strtoull(region, NULL, 10) * MIB);
    must(stats.arenas > 0);
    return 0;
}

#define assert_part(setting, region, lines, ...) \
    assert_exited(OUTCOME_OF_SELF((setting), (region)), 0, (lines), __VA_ARGS__)

START_TEST(options_take_effect)
{
    assert_part("HOMEFREE_CONF=region:64M", "64", 0, "");
}
END_TEST

START_TEST(a_wrong_key_costs_one_line)
{
    static const char *const keys[] = {"nonsense", "arenas", "tcache_max", "muzzy_decay_ms"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char setting[100], line[100];
        snprintf(setting, sizeof setting, "HOMEFREE_CONF=%s:1,region:64M", keys[i]);
        snprintf(line, sizeof line, "homefree: HOMEFREE_CONF: unknown key '%s'", keys[i]);
        assert_part(setting, "64", 1, line);
    }
}
END_TEST

START_TEST(a_wrong_value_costs_one_line)
{
    assert_part("HOMEFREE_CONF=region:64M,dirty_decay_ms:many", "64", 1,
                "homefree: HOMEFREE_CONF: ", "'many' of dirty_decay_ms");
}
END_TEST

START_TEST(extremes_make_heaps_that_work)
{
    static const char *const settings[] = {
        "HOMEFREE_CONF=dirty_decay_ms:0",
        "HOMEFREE_CONF=dirty_decay_ms:3600000",
        "HOMEFREE_CONF=thp:always",
        "HOMEFREE_CONF=thp:never",
        "HOMEFREE_CONF=route:off",
        "HOMEFREE_CONF=region:33554433", /* not a whole number of pages */
        "HOMEFREE_CONF=region:64T",
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        assert_part(settings[i], "-", 0, "");
}
END_TEST

/* Frees memory, and is told how much of it remains. The heap may not keep what nobody uses longer
 * than dirty_decay_ms: it looks in calls. */
static int give_back(bool kept)
{
    enum { SMALL = 100000, LARGE = 4 };
    static void *blocks[SMALL + LARGE];
    struct hf_stats stats = {.size = sizeof stats};
    for (size_t i = 0; i < SMALL + LARGE; i++) {
        const size_t size = i < SMALL ? 300 : 8 * MIB;
        blocks[i] = hf_malloc(size);
        must(blocks[i] != NULL);
        memset(blocks[i], 1, size);
    }
    for (size_t i = 0; i < SMALL + LARGE; i++)
        hf_free(blocks[i]);
    hf_free(hf_malloc(100000));
    must(hf_stats(&stats) == 0 && stats.resident > 0);
    must((stats.resident > 16 * MIB) == kept);
    return 0;
}

SELF_TEST(unused_memory_stays_for_a_while, "HOMEFREE_CONF=dirty_decay_ms:3600000", "keep")
SELF_TEST(unused_memory_goes_back_at_once, "HOMEFREE_CONF=dirty_decay_ms:0", "give")

/* jemalloc itself would complain about each of these. */
START_TEST(jemallocs_variables_do_nothing)
{
    struct outcome outcome;
    const char *const environment[] = {"HOMEFREE_CONF=region:64M",
                                       "MALLOC_CONF=narenas:7,nosuchkey:1,abort_conf:true",
                                       "HF_JE_MALLOC_CONF=narenas:7,nosuchkey:1,abort_conf:true",
                                       "hf_je_malloc_conf=narenas:7,nosuchkey:1,abort_conf:true",
                                       "JE_MALLOC_CONF=narenas:7,nosuchkey:1,abort_conf:true",
                                       NULL};
    const char *const arguments[] = {own_path(), "64", NULL};
    const struct program program = {.arguments = arguments, .environment = environment};
    outcome_of_program(&outcome, &program);
    assert_exited(&outcome, 0, 0, "");
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "keep") == 0)
        return give_back(true);
    if (argc > 1 && strcmp(argv[1], "give") == 0)
        return give_back(false);
    if (argc > 1)
        return part(argv[1]);
    return RUN_SUITE(options_take_effect, a_wrong_key_costs_one_line, a_wrong_value_costs_one_line,
                     extremes_make_heaps_that_work, unused_memory_stays_for_a_while,
                     unused_memory_goes_back_at_once, jemallocs_variables_do_nothing);
}
