// The core's own tests: a plain program, without Python and without homefree.
#include "words.h"

#include <check.h>
#include <cstdlib>
#include <sstream>

static words::Index index_of(const char *text)
{
    std::istringstream stream(text);
    words::Index index;
    index.read(stream);
    return index;
}

START_TEST(words_are_counted_in_lower_case)
{
    ck_assert_uint_eq(index_of("To be or not to be").count("to"), 2);
}
END_TEST

START_TEST(a_word_that_was_not_read_counts_as_none)
{
    ck_assert_uint_eq(index_of("").count("to"), 0);
}
END_TEST

START_TEST(the_most_common_words_come_first)
{
    const auto common = index_of("b a c c b c").common(2);
    ck_assert_uint_eq(common.size(), 2);
    ck_assert_str_eq(common[0].c_str(), "c");
    ck_assert_str_eq(common[1].c_str(), "b");
}
END_TEST

int main()
{
    Suite *suite = suite_create("words");
    TCase *cases = tcase_create("core");
    suite_add_tcase(suite, cases);
    tcase_add_test(cases, words_are_counted_in_lower_case);
    tcase_add_test(cases, a_word_that_was_not_read_counts_as_none);
    tcase_add_test(cases, the_most_common_words_come_first);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
