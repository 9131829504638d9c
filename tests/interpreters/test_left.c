/*
 * What an interpreter leaves behind is counted when it has ended, and given back on request, while
 * others go on.
 *
 * usage: test_left LIBPYTHON
 */
#include "groups.h"

static const char set_up[] = "kept = [str(n) for n in range(100000)]\n"
                             "def count(): return len(kept)\n";

static struct hf_interpreter_left left_of(int64_t id, bool give_back, int error)
{
    struct hf_interpreter_left left = {.size = sizeof left};
    ck_assert_int_eq(hf_interpreters_left(id, give_back, &left), error);
    return left;
}

/* CPython 3.14 leaves nothing by itself. */
static void leave_a_block(struct hf_interpreters *group)
{
    struct hf_session *session = session_of(group, 0);
    ck_assert_int_eq(hf_session_attach(session), 0);
    ck_assert_ptr_nonnull(PYTHON(void *, PyMem_Malloc, (size_t))(48));
    ck_assert_int_eq(hf_session_detach(session), 0);
    hf_session_end(session);
}

START_TEST(what_is_left_can_be_given_back)
{
    load_python();
    if (is_one_interpreter()) {
        left_of(0, true, -ENOENT);
        return;
    }
    struct hf_interpreters *group = group_of(1, set_up), *other = group_of(1, set_up);
    const int64_t id = stats_of(group, 0).id, others = stats_of(other, 0).id;
    left_of(id, true, -EBUSY);
    leave_a_block(group);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
    const struct hf_interpreter_left left = left_of(id, false, 0);
    ck_assert_uint_gt(left.blocks, 0);
    ck_assert_uint_gt(left.arenas, 0);
    ck_assert_uint_ge(left.bytes, left.arenas * (256 << 10));
    const struct hf_interpreter_left given = left_of(id, true, 0);
    ck_assert_uint_eq(given.blocks, left.blocks);
    ck_assert_uint_eq(given.arenas, left.arenas);
    left_of(id, true, -ENOENT);
    ck_assert_int_eq(number_of(other, "__main__:count"), 100000);
    left_of(others, false, -EBUSY);
    ck_assert_int_eq(hf_interpreters_end(other, -1), 0);
}
END_TEST

START_TEST(wrong_arguments)
{
    struct hf_interpreter_left small = {.size = sizeof(size_t)};
    left_of(12345, false, -ENOENT);
    ck_assert_int_eq(hf_interpreters_left(12345, false, NULL), -ENOENT);
    ck_assert_int_eq(hf_interpreters_left(12345, false, &small), -EINVAL);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&libpython);
    return RUN_SUITE(what_is_left_can_be_given_back, wrong_arguments);
}
