/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/check.h>, as alloc/manual/pages.py takes them. */
#include <homefree/homefree.h>

#include <check.h>
#include <homefree/check.h>
#include <stdlib.h>
#include <string.h>

/* Whose a block is. */
START_TEST(owner)
{
    void *block = hf_malloc(10);
    hf_ck_assert_owner(block, HF_OWNER_HEAP);
    hf_free(block);
}
END_TEST

/* A block that libc made crosses when this program frees it; one of the heap stays at home. */
START_TEST(crossings)
{
    hf_ck_assert_no_crossing(hf_free(hf_malloc(10)));
    hf_ck_assert_crossed("libc", NULL, hf_free(strdup("from libc")));
}
END_TEST

/* One free, of the right block, and nothing left of the code that made it. */
START_TEST(frees)
{
    char *block = hf_malloc(10), *other = hf_malloc(10);
    hf_ck_assert_freed_once(block, hf_free(block));
    hf_ck_assert_freed_by(other, NULL, hf_free(other));
    hf_ck_assert_balanced(NULL, hf_free(hf_malloc(10)));
}
END_TEST

/* The first call for memory fails; then each one in turn, in children and in this process. */
START_TEST(failures)
{
    hf_ck_fail_at(1);
    void *refused = hf_malloc(10), *block = hf_malloc(10);
    uint64_t calls = hf_ck_calls();
    hf_ck_fail_reset();
    ck_assert(refused == NULL && block != NULL && calls == 2);
    hf_free(block);
    hf_ck_assert_survives_failures({
        char *text = hf_strdup("text");
        hf_free(text);
    });
    hf_ck_assert_survives_failures_here({
        char *text = hf_strdup("text");
        hf_free(text);
    });
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("examples");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, owner);
    tcase_add_test(tests, crossings);
    tcase_add_test(tests, frees);
    tcase_add_test(tests, failures);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
