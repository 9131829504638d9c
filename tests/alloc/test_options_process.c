/* HOMEFREE_CONF takes effect in a whole process: a wrong item costs one line and nothing else,
 * each option's extremes leave a working heap, and jemalloc's own variables do nothing. */
#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)

/* Uses the heap a little, then compares its figures with the arguments ("-" matches any). */
static int part(char **arguments)
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
    if (strcmp(arguments[0], "-") != 0)
        must(stats.region_reserved == strtoull(arguments[0], NULL, 10) * MIB);
    if (strcmp(arguments[1], "-") != 0)
        must(stats.arenas == strtoul(arguments[1], NULL, 10));
    must(stats.arenas > 0);
    return 0;
}

#define assert_part(setting, region, arenas, lines, ...) \
    assert_exited(OUTCOME_OF_SELF((setting), (region), (arenas)), 0, (lines), __VA_ARGS__)

START_TEST(options_take_effect)
{
    assert_part("HOMEFREE_CONF=region:64M,arenas:3", "64", "3", 0, "");
}
END_TEST

START_TEST(a_wrong_key_costs_one_line)
{
    assert_part("HOMEFREE_CONF=nonsense:1,region:64M", "64", "-", 1,
                "homefree: HOMEFREE_CONF: unknown key 'nonsense'");
}
END_TEST

START_TEST(a_wrong_value_costs_one_line)
{
    assert_part("HOMEFREE_CONF=region:64M,arenas:many", "64", "-", 1,
                "homefree: HOMEFREE_CONF: ", "'many' of arenas");
}
END_TEST

START_TEST(extremes_make_heaps_that_work)
{
    static const char *const settings[] = {
        "HOMEFREE_CONF=arenas:1",
        "HOMEFREE_CONF=arenas:4094",
        "HOMEFREE_CONF=tcache_max:8",
        "HOMEFREE_CONF=tcache_max:4K",
        "HOMEFREE_CONF=dirty_decay_ms:0",
        "HOMEFREE_CONF=muzzy_decay_ms:1000,dirty_decay_ms:0",
        "HOMEFREE_CONF=thp:always",
        "HOMEFREE_CONF=thp:never",
        "HOMEFREE_CONF=route:off",
        "HOMEFREE_CONF=region:33554433", /* not a whole number of pages */
        "HOMEFREE_CONF=region:64T",
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        assert_part(settings[i], "-", "-", 0, "");
}
END_TEST

/* jemalloc itself would complain about each of these or count its arenas by them. */
START_TEST(jemallocs_variables_do_nothing)
{
    struct outcome outcome;
    const char *const environment[] = {"HOMEFREE_CONF=arenas:3",
                                       "MALLOC_CONF=narenas:7,nosuchkey:1,abort_conf:true",
                                       "HF_JE_MALLOC_CONF=narenas:7,nosuchkey:1,abort_conf:true",
                                       "hf_je_malloc_conf=narenas:7,nosuchkey:1,abort_conf:true",
                                       "JE_MALLOC_CONF=narenas:7,nosuchkey:1,abort_conf:true",
                                       NULL};
    const char *const arguments[] = {own_path(), "-", "3", NULL};
    const struct program program = {.arguments = arguments, .environment = environment};
    outcome_of_program(&outcome, &program);
    assert_exited(&outcome, 0, 0, "");
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 2)
        return part(argv + 1);
    return RUN_SUITE(options_take_effect, a_wrong_key_costs_one_line, a_wrong_value_costs_one_line,
                     extremes_make_heaps_that_work, jemallocs_variables_do_nothing);
}
