/*
 * What an interpreter leaves behind goes back when it has ended, while others go on; but not what
 * static data refers to, which is counted, and given back on request.
 *
 * usage: test_left LIBPYTHON
 */
#include "groups.h"

static const char set_up[] = "kept = [str(n) for n in range(100000)]\n"
                             "table = dict.fromkeys(range(100000))\n"
                             "def count(): return len(kept)\n";

/* What a module with a static variable keeps. */
static void **small, *large;

static struct hf_interpreter_left left_of(int64_t id, bool give_back, int error)
{
    struct hf_interpreter_left left = {.size = sizeof left};
    ck_assert_int_eq(hf_interpreters_left(id, give_back, &left), error);
    return left;
}

/* CPython 3.14 leaves nothing by itself. */
static void leave(struct hf_interpreters *group, bool keep)
{
    struct hf_session *session = session_of(group, 0);
    ck_assert_int_eq(hf_session_attach(session), 0);
    void **block = PYTHON(void *, PyMem_Malloc, (size_t))(48);
    void *other = PYTHON(void *, PyMem_Malloc, (size_t))(4800);
    ck_assert_ptr_nonnull(block);
    ck_assert_ptr_nonnull(other);
    memset(other, 'a', 4800);
    *block = other;
    small = keep ? block + 1 : NULL; /* an address inside will do */
    large = keep ? other : NULL;
    ck_assert_int_eq(hf_session_detach(session), 0);
    hf_session_end(session);
}

static int64_t ended(bool keep)
{
    struct hf_interpreters *group = group_of(1, set_up);
    const int64_t id = stats_of(group, 0).id;
    left_of(id, true, -EBUSY);
    leave(group, keep);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
    return id;
}

static int count_block(void *context, void *ptr, size_t size)
{
    (void)ptr;
    *(size_t *)context += size;
    return 0;
}

static size_t live_bytes(void)
{
    size_t bytes = 0;
    ck_assert_int_eq(hf_heap_walk(NULL, count_block, &bytes), 0);
    return bytes;
}

START_TEST(what_is_left_goes_back)
{
    load_python();
    if (is_one_interpreter()) {
        left_of(0, true, -ENOENT);
        return;
    }
    struct hf_interpreters *other = group_of(1, set_up);
    const int64_t others = stats_of(other, 0).id;
    left_of(ended(false), true, -ENOENT);
    const size_t before = live_bytes();
    for (int i = 0; i < 3; i++)
        left_of(ended(false), true, -ENOENT);
    ck_assert_uint_le(live_bytes(), before + 3 * 16384);
    ck_assert_int_eq(number_of(other, "__main__:count"), 100000);
    left_of(others, false, -EBUSY);
    ck_assert_int_eq(hf_interpreters_end(other, -1), 0);
}
END_TEST

START_TEST(what_static_data_refers_to_stays)
{
    load_python();
    if (is_one_interpreter())
        return;
    const int64_t id = ended(true);
    ck_assert_ptr_eq(small[-1], large); /* what it refers to stays, too */
    ck_assert_int_eq(((char *)large)[4799], 'a');
    const struct hf_interpreter_left left = left_of(id, false, 0);
    ck_assert_uint_ge(left.blocks, 1);
    ck_assert_uint_ge(left.arenas, 1);
    ck_assert_uint_ge(left.bytes, left.arenas * (256 << 10));
    const struct hf_interpreter_left given = left_of(id, true, 0);
    ck_assert_uint_eq(given.blocks, left.blocks);
    ck_assert_uint_eq(given.arenas, left.arenas);
    left_of(id, true, -ENOENT);
}
END_TEST

START_TEST(wrong_arguments)
{
    struct hf_interpreter_left small_one = {.size = sizeof(size_t)};
    left_of(12345, false, -ENOENT);
    ck_assert_int_eq(hf_interpreters_left(12345, false, NULL), -ENOENT);
    ck_assert_int_eq(hf_interpreters_left(12345, false, &small_one), -EINVAL);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&libpython);
    return RUN_SUITE(what_is_left_goes_back, what_static_data_refers_to_stays, wrong_arguments);
}
