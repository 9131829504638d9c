/*
 * A CPython with one GIL for all interpreters is refused with a sentence that says what would do.
 *
 * usage: test_refused LIBPYTHON
 */
#include "groups.h"

START_TEST(one_gil_is_refused)
{
    char why[256] = "";
    struct hf_interpreters *group = NULL;
    load_python();
    ck_assert_int_eq(hf_interpreters_engine(why, sizeof why), -ENOTSUP);
    ck_assert_ptr_nonnull(
        strstr(why, "has one GIL for all interpreters: use CPython 3.12 or newer"));
    ck_assert_int_eq(hf_interpreters_engine(NULL, 0), -ENOTSUP);
    why[0] = '\0';
    ck_assert_int_eq(hf_interpreters_start(&group, NULL, why, sizeof why), -ENOTSUP);
    ck_assert_ptr_nonnull(strstr(why, "use CPython 3.12 or newer"));
    ck_assert_ptr_null(group);
}
END_TEST

START_TEST(no_python_is_refused)
{
    char why[256] = "";
    ck_assert_int_eq(hf_interpreters_engine(why, sizeof why), -ENOENT);
    ck_assert_ptr_nonnull(strstr(why, "there is no CPython 3.9 or later in this process"));
    ck_assert_int_eq(hf_interpreter_current(), -1);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&libpython);
    return RUN_SUITE(one_gil_is_refused, no_python_is_refused);
}
