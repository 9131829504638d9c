/* Assertions of homefree/check.h that fail, as users would write them, and some that hold: run by
 * test_check.py, which knows what each must say. C and C++ build it. */
#include "module.h"
#include "suite.h"

#include <homefree/check.h>

static struct module module;

START_TEST(owner_holds)
{
    int here = 0;
    hf_ck_assert_owner(&here, HF_OWNER_STACK);
    hf_ck_assert_owner(&module, HF_OWNER_STATIC);
    void *block = hf_malloc(10);
    hf_ck_assert_owner(block, HF_OWNER_HEAP);
    hf_free(block);
}
END_TEST

START_TEST(owner_fails)
{
    int here = 0;
    hf_ck_assert_owner(&here, HF_OWNER_HEAP);
}
END_TEST

START_TEST(no_crossing_holds)
{
    hf_ck_assert_no_crossing({
        int a = 1, b = 2;
        hf_free(hf_malloc((size_t)(a + b)));
        module.drop(module.make(10));
    });
}
END_TEST

START_TEST(no_crossing_fails)
{
    hf_ck_assert_no_crossing({
        module.drop(hf_malloc(10));
        hf_free(module.make(100));
    });
}
END_TEST

START_TEST(crossed_holds)
{
    hf_ck_assert_crossed("module", "failing", hf_free(module.make(10)));
    hf_ck_assert_crossed(NULL, NULL, { module.drop(hf_malloc(10)); });
}
END_TEST

START_TEST(crossed_fails)
{
    hf_ck_assert_crossed("failing", "module", hf_free(module.make(10)));
}
END_TEST

START_TEST(freed_once_holds)
{
    void *block = module.make(10);
    hf_ck_assert_freed_once(block, {
        module.drop(block);
        hf_free(hf_malloc(10)); /* the same address again */
    });
    void *grown = module.make(10);
    hf_ck_assert_freed_once(grown, {
        grown = hf_realloc(grown, 12); /* in place */
        hf_free(grown);
    });
}
END_TEST

START_TEST(freed_once_fails_when_it_stays)
{
    void *block = module.make(10);
    hf_ck_assert_freed_once(block, { hf_free(hf_malloc(10)); });
}
END_TEST

START_TEST(freed_once_fails_when_there_is_no_block)
{
    void *block = hf_malloc(10);
    hf_free(block);
    hf_ck_assert_freed_once(block, {});
}
END_TEST

START_TEST(the_end_of_the_suite_holds)
{
    struct hf_watch *watches[HF_WATCHES_MAX];
    /* No test before has left a watch open. */
    for (int i = 0; i < HF_WATCHES_MAX; i++)
        ck_assert_int_eq(hf_watch_begin(&watches[i], 1), 0);
    for (int i = 0; i < HF_WATCHES_MAX; i++)
        hf_watch_drop(watches[i]);
}
END_TEST

int main(int count, char **arguments)
{
    const char *path;
    TAKE_ARGUMENTS(&path);
    module = load_module(path);
    return RUN_TESTS("failing", owner_holds, owner_fails, no_crossing_holds, no_crossing_fails,
                     crossed_holds, crossed_fails, freed_once_holds, freed_once_fails_when_it_stays,
                     freed_once_fails_when_there_is_no_block, the_end_of_the_suite_holds);
}
