// What only this side can test: the core as it is in the module, on the heap.
#include "words.h"

#include <check.h>
#include <cstdlib>
#include <homefree/check.h>
#include <sstream>

static const char *const LONG = "Donaudampfschifffahrtsgesellschaftskapitaen";

START_TEST(the_cores_strings_are_the_heaps)
{
    std::istringstream text(LONG);
    words::Index index;
    index.read(text);
    hf_ck_assert_owner(index.common(1)[0].data(), HF_OWNER_HEAP);
}
END_TEST

START_TEST(libstdcxx_frees_what_the_core_reserved_when_a_word_is_longer)
{
    std::istringstream text(LONG);
    words::Index index;
    hf_ck_assert_crossed("test_crossing", "libstdc++", { index.read(text); });
}
END_TEST

int main()
{
    Suite *suite = suite_create("words");
    TCase *cases = tcase_create("crossing");
    suite_add_tcase(suite, cases);
    tcase_add_test(cases, the_cores_strings_are_the_heaps);
    tcase_add_test(cases, libstdcxx_frees_what_the_core_reserved_when_a_word_is_longer);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
